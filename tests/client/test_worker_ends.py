"""However a worker's function or a participant ends, the message is redelivered or settled."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import pytest

import tms
import tms.aio
from tests.client.participant import AsyncNoting, Noting
from tests.waiting import WAIT_S_MAX, in_time, until, wait_until

MESSAGES = [b"1", b"2", b"3"]


class OwnEnd(BaseException):
    pass


class Unprintable(Exception):
    def __repr__(self) -> str:
        raise ZeroDivisionError

    __str__ = __repr__


class LaterRetry(tms.Retry):
    def __init__(self) -> None:
        super().__init__()
        self.delay_s = "soon"  # type: ignore[assignment]


def a_retry_with_bytes() -> BaseException:
    return tms.Retry(reason=b"bytes")  # type: ignore[arg-type]


ENDS: dict[str, Callable[[], BaseException]] = {
    "plain": ValueError,
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "CancelledError": asyncio.CancelledError,
    "CancelledError of a future": concurrent.futures.CancelledError,
    "SystemExit": SystemExit,
    "KeyboardInterrupt": KeyboardInterrupt,
    "a BaseException of its own": OwnEnd,
    "an exception without a repr": Unprintable,
    "a Retry that cannot be made": a_retry_with_bytes,
    "a Retry that cannot be sent": LaterRetry,
    "LeaseLost of another message": tms.LeaseLost,
    "AckRefused of another transaction": tms.AckRefused,
}
STOPPING = (SystemExit, KeyboardInterrupt)


class Ending:
    """Ends the first work on the first message in one way, at one site."""

    def __init__(self, end: str, site: str) -> None:
        self._make = ENDS[end]
        self._site = site
        self.count = 0
        self.most = 2 if site == "participants" else 1  # one of them is the recovery at the start
        self.done: list[bytes] = []

    def at(self, site: str, payload: bytes | None = None) -> None:
        if site == self._site and self.count < self.most and payload in (None, MESSAGES[0]):
            self.count += 1
            raise self._make()

    def participants(self) -> list[Any]:
        self.at("participants")
        part = EndingParticipant(self)
        return [AsyncNoting(part) if self._site == "start of a coroutine" else part]


class EndingParticipant(Noting):
    def __init__(self, ending: Ending) -> None:
        super().__init__()
        self._ending = ending

    def start(self, tx: tms.Transaction) -> None:
        self._ending.at("start")
        self._ending.at("start of a coroutine")
        super().start(tx)

    def persist(self) -> None:
        self._ending.at("persist")
        super().persist()

    def post_commit(self) -> None:
        self._ending.at("post_commit")
        super().post_commit()


def is_done(group: tms.Group) -> bool:
    return group.state.open == group.state.unread == 0


def in_threads(ending: Ending, **settings: Any) -> None:
    """Work in threads until all is done; run again if the program was meant to end."""
    with tms.connect("memory:") as client:
        topic = client.topic("orders")
        topic.create()
        group = topic.group("billing")
        group.create(retry_s=0)
        topic.publish(MESSAGES)

        @group.worker(concurrency=2, **settings)
        def work(message: tms.GroupMessage, *_: object) -> None:
            ending.at("function", message.payload)
            ending.done.append(message.payload)

        def run() -> None:
            for _ in range(3):
                with suppress(*STOPPING):
                    work.run()
                    break

        working = threading.Thread(target=run, daemon=True)
        working.start()
        wait_until(lambda: is_done(group.show()))
        work.stop()
        working.join(WAIT_S_MAX)
        assert not working.is_alive()
        assert group.open() == []


def in_asyncio(ending: Ending, **settings: Any) -> None:
    async def main() -> None:
        async with await tms.aio.connect("memory:") as client:
            topic = client.topic("orders")
            await topic.create()
            group = topic.group("billing")
            await group.create(retry_s=0)
            await topic.publish(MESSAGES)

            @group.worker(concurrency=2, **settings)
            async def work(message: tms.aio.AsyncGroupMessage, *_: object) -> None:
                ending.at("function", message.payload)
                ending.done.append(message.payload)

            async def done() -> bool:
                return is_done(await group.show())

            async def run() -> None:
                for _ in range(3):
                    with suppress(*STOPPING):
                        await work.run()
                        break
                    if await done():  # `stop` may have been called as that run ended
                        break

            working = asyncio.create_task(run())
            await until(done)
            work.stop()
            async with in_time():
                await working
            assert await group.open() == []

    asyncio.run(main())


class Form(Protocol):
    def __call__(self, ending: Ending, **settings: Any) -> None: ...


FORMS = pytest.mark.parametrize("work", [in_threads, in_asyncio])


@FORMS
@pytest.mark.parametrize("end", ENDS)
def test_a_message_is_given_again_however_its_work_ended(work: Form, end: str) -> None:
    ending = Ending(end, "function")
    work(ending)
    assert ending.count == 1
    assert sorted(ending.done) == MESSAGES


@FORMS
@pytest.mark.parametrize(
    "site",
    ["function", "participants", "start", "start of a coroutine", "persist", "post_commit"],
)
@pytest.mark.parametrize("end", ENDS)
def test_a_message_is_given_again_however_its_transaction_ended(
    work: Form, end: str, site: str
) -> None:
    ending = Ending(end, site)
    work(ending, transaction=True, participants=ending.participants)
    assert ending.count == ending.most
    assert set(ending.done) == set(MESSAGES)


@FORMS
def test_what_a_function_raised_is_logged(work: Form, caplog: pytest.LogCaptureFixture) -> None:
    work(Ending("a BaseException of its own", "function"))
    [logged] = [each for each in caplog.records if "failed" in each.getMessage()]
    assert logged.exc_info is not None
    assert logged.exc_info[0] is OwnEnd
