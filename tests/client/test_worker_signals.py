"""SIGTERM ends a program's workers in order, and reaches the program's own handler."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator

import pytest

import tms
import tms.aio
from tests.waiting import in_time, until, wait_until
from tms.client.threads import sigterm
from tms.client.threads.sigterm import stopping_at_sigterm

OWN = pytest.mark.parametrize("own", ["signal", "loop", "exit", "default", "ignored"])


@pytest.fixture(autouse=True)
def _handler_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


class Own:
    """The program's own handler: it counts its calls, or is one of Python's."""

    def __init__(self, kind: str) -> None:
        self.called = 0
        self._kind = kind
        if kind == "loop":
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.handle)
        else:
            handlers = {"default": signal.SIG_DFL, "ignored": signal.SIG_IGN}
            signal.signal(signal.SIGTERM, handlers.get(kind, self.handle))
        self._own = signal.getsignal(signal.SIGTERM)

    def handle(self, *_: object) -> None:
        self.called += 1
        if self._kind == "exit":
            raise SystemExit(7)

    def check(self) -> None:
        """Check that it was called once, if it can count, and is installed again."""
        assert self.called == (0 if self._kind in ("default", "ignored") else 1)
        assert signal.getsignal(signal.SIGTERM) == self._own


@OWN
def test_it_ends_all_workers_of_an_asyncio_program(own: str) -> None:
    async def main() -> tuple[Own, list[str]]:
        handler = Own(own)
        done: list[str] = []
        async with await tms.aio.connect("memory:") as client:
            topic = client.topic("orders")
            await topic.create()
            begun, go_on = asyncio.Semaphore(0), asyncio.Event()

            async def work_on(name: str) -> None:
                group = topic.group(name)
                await group.create()

                @group.worker()
                async def work(_message: tms.aio.AsyncGroupMessage) -> None:
                    begun.release()
                    await go_on.wait()
                    done.append(name)

                try:
                    await work.run()
                except SystemExit as error:
                    assert error.code == 7
                    done.append("exit")

            workers = [asyncio.create_task(work_on(name)) for name in ("a", "b")]
            await topic.publish(b"1")
            for _ in workers:
                await begun.acquire()
            os.kill(os.getpid(), signal.SIGTERM)
            await until(lambda: handler.called or own in ("default", "ignored"))
            go_on.set()
            async with in_time():
                await asyncio.gather(*workers)
            await topic.group("a").show()  # the client works
        return handler, done

    handler, done = asyncio.run(main())
    assert sorted(done) == ["a", "b", *(["exit"] if own == "exit" else [])]
    if own == "loop":  # asyncio has removed it along with the loop
        assert handler.called == 1
    else:
        handler.check()


@pytest.mark.parametrize("own", ["signal", "exit", "default", "ignored"])
def test_it_ends_a_worker_of_threads(own: str) -> None:
    handler = Own(own)
    with tms.connect("memory:") as client:
        topic = client.topic("orders")
        topic.create()
        group = topic.group("billing")
        group.create()
        topic.publish([b"1", b"2", b"3"])
        done: list[bytes] = []

        @group.worker()
        def work(message: tms.GroupMessage) -> None:
            if not done:
                os.kill(os.getpid(), signal.SIGTERM)
            done.append(message.payload)

        if own == "exit":
            with pytest.raises(SystemExit):
                work.run()
        else:
            work.run()
        assert done
        state = group.show().state
        assert (state.leased, state.waiting, state.open + state.unread) == (0, 0, 3 - len(done))
    handler.check()


def test_a_handler_that_the_program_sets_in_the_meantime_stays() -> None:
    def handle(*_: object) -> None: ...

    with stopping_at_sigterm(lambda: None, lambda: None):
        signal.signal(signal.SIGTERM, handle)
    assert signal.getsignal(signal.SIGTERM) is handle


def test_another_thread_than_the_main_one_leaves_the_handler() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def wait() -> None:
        with stopping_at_sigterm(lambda: None, lambda: None):
            found.append(signal.getsignal(signal.SIGTERM))

    found: list[object] = []
    waiting = threading.Thread(target=wait)
    waiting.start()
    waiting.join()
    assert found == [before]


def test_a_second_signal_does_not_let_a_worker_of_threads_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sigterm, "AGAIN_S", 0.0)
    handler = Own("signal")
    never = threading.Event()
    with tms.connect("memory:") as client:
        topic = client.topic("orders")
        topic.create()
        group = topic.group("billing")
        group.create()
        topic.publish([b"1", b"2"])

        @group.worker(stop_s=3600)
        def work(_message: tms.GroupMessage) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            wait_until(lambda: handler.called == 1)
            os.kill(os.getpid(), signal.SIGTERM)
            never.wait()

        work.run()
        never.set()
        state = group.show().state
        assert (state.leased, state.open + state.unread) == (0, 2)


def test_a_second_signal_does_not_let_a_worker_of_asyncio_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sigterm, "AGAIN_S", 0.0)
    Own("signal")
    cancelled: list[str] = []

    async def main() -> int:
        async with await tms.aio.connect("memory:") as client:
            topic, group = client.topic("orders"), client.topic("orders").group("billing")
            await topic.create()
            await group.create()
            await topic.publish(b"1")

            @group.worker(stop_s=3600)
            async def work(_message: tms.aio.AsyncGroupMessage) -> None:
                try:
                    for _ in range(2):
                        os.kill(os.getpid(), signal.SIGTERM)
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.append("cancelled")
                    raise

            async with in_time():
                await work.run()
            return (await group.show()).state.leased

    assert asyncio.run(main()) == 0
    assert cancelled == ["cancelled"]


def test_a_signal_that_is_sent_on_at_once_is_not_a_second_one() -> None:
    calls: list[str] = []
    stop = sigterm._Stop(lambda: calls.append("stop"), lambda: calls.append("now"))
    stop()
    stop()
    assert calls == ["stop"]
