"""Shared work continues without its callers, and its error is raised in those that remain."""

import asyncio
import gc
from typing import Any

import pytest

from tests.waiting import turns
from tms.core.runtime.shared_work import shared

pytestmark = pytest.mark.anyio


async def wait(work: asyncio.Future[Any]) -> Any:
    return await shared(work)


async def test_an_error_that_all_callers_have_left_is_not_logged() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    may_fail = asyncio.Event()

    async def work() -> None:
        await may_fail.wait()
        raise ValueError

    task = asyncio.create_task(work())
    callers = [asyncio.create_task(wait(task)) for _ in range(2)]
    await turns(2)
    for caller in callers:
        caller.cancel()
    await asyncio.wait(callers)
    may_fail.set()
    await asyncio.wait([task])
    del task, callers
    gc.collect()
    assert told == []


async def test_who_stays_gets_the_result() -> None:
    begun = asyncio.Event()

    async def work() -> int:
        await begun.wait()
        return 7

    task = asyncio.create_task(work())
    goes, stays = (asyncio.create_task(wait(task)) for _ in range(2))
    await turns(2)
    goes.cancel()
    begun.set()
    assert await stays == 7
    assert goes.cancelled()
