"""Calls in threads: answers come in order; a quick one waits only while others arrive."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from tables.memory import MemoryStore
from tables.store_tables import StoreTables
from tests.waiting import WAIT_S_MAX, in_time, turns
from tms.core.errors import Stopping
from tms.core.limits import Limits
from tms.core.runtime.clock import SystemClock
from tms.messaging import store_threads as store_threads_module
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.store_threads import StoreThread, StoreThreads

pytestmark = pytest.mark.anyio


class Clock:
    """A clock that only advances by the durations of calls."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        patch.setattr(store_threads_module, "perf_counter", lambda: self.now_s)

    def take(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
async def thread(anyio_backend: object) -> AsyncIterator[StoreThread]:
    thread = StoreThread("test", 1, 8)
    yield thread
    thread.close()


@given(
    calls=st.lists(st.sampled_from(("quick", "slow", "wrong")), max_size=30),
    threads=st.integers(1, 3),
    together_max=st.sampled_from((1, 2, 8)),
    closes=st.booleans(),
)
def test_each_call_is_answered(
    calls: list[str], threads: int, together_max: int, *, closes: bool
) -> None:
    def carry_out(number: int, kind: str) -> int:
        if kind == "slow":
            clock.take(0.002)
        if kind == "wrong":
            raise ValueError(number)
        return number

    async def ask_all() -> None:
        thread = StoreThread("test", threads, together_max)
        answers = [thread.future(carry_out, number, kind) for number, kind in enumerate(calls)]
        if closes:
            thread.close()
        async with in_time():
            for number, (kind, answer) in enumerate(zip(calls, answers, strict=True)):
                if kind == "wrong":
                    with pytest.raises(ValueError, match=f"^{number}$"):
                        await answer
                else:
                    assert await answer == number
        if not closes:
            thread.close()
        with pytest.raises(Stopping):
            thread.future(carry_out, 0, "quick")

    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch)
        asyncio.run(ask_all())


async def test_answers_come_in_the_order_of_the_calls(thread: StoreThread) -> None:
    done: list[int] = []
    answers = [thread.future(int, number) for number in range(100)]
    for answer in answers:
        answer.add_done_callback(lambda answer: done.append(answer.result()))
    await asyncio.gather(*answers)

    assert done == list(range(100))


async def test_what_took_its_time_does_not_wait_for_the_next(
    thread: StoreThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()
    slow = thread.future(Clock(monkeypatch).take, 0.002)
    held = thread.future(may_end.wait, WAIT_S_MAX)
    await slow
    assert not held.done()
    may_end.set()

    assert await held


async def test_no_more_than_some_quick_answers_wait(thread: StoreThread) -> None:
    gate, may_end = threading.Event(), threading.Event()
    first = thread.future(gate.wait, WAIT_S_MAX)
    quick = [thread.future(int, number) for number in range(20)]
    held = thread.future(may_end.wait, WAIT_S_MAX)
    gate.set()
    await asyncio.gather(first, *quick[:8])
    assert not held.done()
    may_end.set()

    assert await held
    assert await asyncio.gather(*quick) == list(range(20))


@pytest.mark.parametrize("verb", ["write", "read"])
async def test_an_answer_waits_only_where_one_thread_reads(
    anyio_backend: object, verb: str
) -> None:
    threads = StoreThreads(2)
    ask = threads.write if verb == "write" else threads.read
    gate, may_end = threading.Event(), threading.Event()
    other = threads.read(may_end.wait, WAIT_S_MAX)
    first = ask(gate.wait, WAIT_S_MAX)
    quick = ask(int, 1)
    held = ask(may_end.wait, WAIT_S_MAX)
    gate.set()
    assert await first
    assert await quick == 1
    assert not held.done()
    may_end.set()

    assert await held
    assert await other
    await threads.close()


async def test_the_loop_continues_while_services_close_beside_a_read_that_hangs(
    anyio_backend: object,
) -> None:
    engine = StoreRuntime(StoreTables(MemoryStore()), Limits(), SystemClock(), CollectorRegistry())
    loop_goes_on = threading.Event()
    reading = engine.threads.read(lambda: loop_goes_on.wait(10))
    closing = asyncio.create_task(engine.close())
    await turns(10)
    loop_goes_on.set()
    await closing
    assert await reading, "it ended because the loop let it"
