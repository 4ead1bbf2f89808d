"""The loop of a client's thread leaves nothing behind when it ends."""

import asyncio
import gc
from collections.abc import AsyncGenerator

import pytest

from tests.waiting import turns
from tms.client.threads.loop_thread import LoopCall, LoopThread


def end_while_a_generator_begins_a_closing() -> None:
    loop = LoopThread()

    async def messages() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:  # the loop closes it near its end
            loop.start_closing(asyncio.Event().wait)
            await turns()

    half_read = messages()

    async def read_one() -> int:
        return await anext(half_read)

    assert loop.start(LoopCall(read_one)).result() == 1
    assert loop.end(within_s=60)


def test_a_closing_that_comes_while_the_loop_ends_leaves_no_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    end_while_a_generator_begins_a_closing()
    gc.collect()
    assert not caplog.records
