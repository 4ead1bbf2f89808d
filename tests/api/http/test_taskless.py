"""A coroutine that runs without a task as long as it can: what it sees, and what needs a task."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from api.http.protocol.taskless import TasklessCall
from tests.taskless_guard import AskedForTask
from tests.waiting import WAIT_S_MAX, in_time, turns, until

pytestmark = pytest.mark.anyio


class Running:
    """A coroutine that has been started, and its tasks."""

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self.calls: set[TasklessCall] = set()
        TasklessCall(coroutine, asyncio.get_running_loop(), self.tasks, self.calls).start()


async def test_what_does_not_wait_ends_at_once_and_needs_no_task() -> None:
    seen: list[str] = []

    async def run() -> None:
        seen.append("all")

    running = Running(run())

    assert (seen, running.tasks) == (["all"], set())


async def test_what_waits_once_continues_with_the_answer_and_needs_no_task() -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    seen: list[object] = []

    async def run() -> None:
        seen.append(await answer)

    running = Running(run())
    assert (seen, running.tasks) == ([], set())
    answer.set_result("answered")
    await turns(5)

    assert (seen, running.tasks) == (["answered"], set())


@pytest.mark.parametrize("how", ["error", "cancelled"])
async def test_what_was_awaited_first_may_fail(how: str) -> None:
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    seen: list[BaseException] = []

    async def run() -> None:
        try:
            await answer
        except (ValueError, asyncio.CancelledError) as error:
            seen.append(error)

    running = Running(run())
    if how == "error":
        answer.set_exception(ValueError("no"))
    else:
        answer.cancel()
    await turns(5)

    assert running.tasks == set()
    assert [type(error) for error in seen] == [
        ValueError if how == "error" else asyncio.CancelledError
    ]


@pytest.mark.parametrize("first", ["a future", "a turn"])
async def test_from_the_second_wait_on_it_has_a_task_and_timeouts(first: str) -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    seen: list[str] = []

    async def run() -> None:
        await (answer if first == "a future" else turns())
        await turns()
        try:
            async with asyncio.timeout(0.01):
                await never
        except TimeoutError:
            seen.append("timed out")

    running = Running(run())
    answer.set_result(None)
    await until(lambda: seen)
    await turns(5)

    assert (seen, running.tasks) == (["timed out"], set())


async def test_the_task_of_what_is_left_can_be_cancelled() -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    seen: list[str] = []

    async def run() -> None:
        await answer
        try:
            await never
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    running = Running(run())
    answer.set_result(None)
    await turns(5)
    (task,) = running.tasks
    task.cancel()
    await turns(5)

    assert (seen, task.cancelled(), running.tasks) == (["cancelled"], True, set())


async def test_several_may_wait_for_one_future() -> None:
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    seen: list[int] = []

    async def run() -> None:
        seen.append(await answer)

    runs = [Running(run()) for _ in range(2)]
    in_a_task = asyncio.create_task(run())
    await turns(5)
    answer.set_result(7)
    await in_a_task
    await turns(5)

    assert seen == [7, 7, 7]
    assert not any(running.tasks for running in runs)


@pytest.mark.parametrize("is_answered", [True, False])
async def test_what_waits_once_can_be_given_a_task_and_be_cancelled(*, is_answered: bool) -> None:
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    seen: list[object] = []

    async def run() -> None:
        try:
            seen.append(await answer)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    running = Running(run())
    (waiting,) = running.calls
    if is_answered:
        answer.set_result(7)
    waiting.take_task()
    await turns(5)
    for task in running.tasks:
        task.cancel()
    await turns(5)

    assert (seen, running.calls, running.tasks) == (
        [7 if is_answered else "cancelled"],
        set(),
        set(),
    )


async def by_name() -> None:
    asyncio.current_task()


async def by_timeout() -> None:
    async with in_time():
        await turns()


async def by_anyio() -> None:
    with anyio.fail_after(WAIT_S_MAX):
        await turns()


@pytest.mark.parametrize("ask", [by_name, by_timeout, by_anyio], ids=lambda ask: ask.__name__)
@pytest.mark.parametrize("waits", [0, 1, 2])
async def test_who_needs_a_task_before_the_second_wait_gets_an_error(
    ask: Callable[[], Coroutine[Any, Any, None]], waits: int, asked_for_task: list[str]
) -> None:
    futures = [asyncio.get_running_loop().create_future() for _ in range(waits)]
    ended: list[BaseException | None] = []

    async def run() -> None:
        try:
            for each in futures:
                await each
            await ask()
        except BaseException as error:
            ended.append(error)
        else:
            ended.append(None)

    Running(run())
    for each in futures:
        each.set_result(None)
        await turns(5)

    told, asked_for_task[:] = [*asked_for_task], []
    if waits < 2:
        assert isinstance(ended[0], AskedForTask)
        assert ask.__name__ in told[0]
    else:
        assert (ended, told) == ([None], [])
