"""Deadlines: each ends its own task at its time, and no cancelling of others is taken for one."""

import asyncio

import pytest

from api.deadlines import Deadlines

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """asyncio's own loop: uvloop's timers go by a clock that no test can set."""
    return "asyncio"


async def wait(deadlines: Deadlines, event: asyncio.Event) -> str:
    task = deadlines.enter()
    try:
        await event.wait()
    except asyncio.CancelledError:
        if deadlines.absorb(task):
            return "expired"
        raise
    else:
        return "done"
    finally:
        deadlines.leave(task)


async def test_those_that_end_in_time_are_left_alone_and_the_others_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
    deadlines = Deadlines(20)
    never, now = asyncio.Event(), asyncio.Event()
    now.set()

    first = asyncio.create_task(wait(deadlines, never))
    assert await wait(deadlines, now) == "done"
    await asyncio.sleep(0)
    now_s = 10
    second = asyncio.create_task(wait(deadlines, never))
    await asyncio.sleep(0)

    now_s = 20
    assert await first == "expired"
    await asyncio.sleep(0)
    assert not second.done()
    now_s = 30
    assert await second == "expired"
    assert deadlines._timeouts._timer is None


async def test_a_task_can_enter_again() -> None:
    deadlines = Deadlines(0.01)
    never = asyncio.Event()

    assert await wait(deadlines, never) == "expired"
    assert await wait(deadlines, never) == "expired"
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_task_cancelled_by_another_is_cancelled() -> None:
    deadlines = Deadlines(30)
    task = asyncio.create_task(wait(deadlines, asyncio.Event()))
    await asyncio.sleep(0)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert not deadlines._timeouts._due


async def test_a_task_cancelled_by_both_is_cancelled() -> None:
    deadlines = Deadlines(30)
    task = asyncio.create_task(wait(deadlines, asyncio.Event()))
    await asyncio.sleep(0)

    deadlines._timeouts._due = dict.fromkeys(deadlines._timeouts._due, 0.0)
    deadlines._timeouts._expire(asyncio.get_running_loop())
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
