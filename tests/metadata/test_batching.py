"""Requests are collected while one batch is in progress, and each has its own outcome."""

import asyncio

import pytest

from tests.waiting import turns
from tms.core.errors import MetadataClosed
from tms.metadata.batching import Batcher

pytestmark = pytest.mark.anyio


class Sent:
    """Answers each number with its double, refuses odd numbers, and can be held back."""

    def __init__(self, most: int = 100) -> None:
        self.batches: list[list[int]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.batcher: Batcher[int, int] = Batcher(
            self.send, lambda waiting: min(len(waiting), most)
        )

    async def send(self, requests: list[int]) -> list[int | Exception]:
        self.batches.append(requests)
        await self.may_answer.wait()
        if 13 in requests:
            raise OSError
        return [KeyError(n) if n % 2 else 2 * n for n in requests]


async def test_what_waits_goes_together_in_its_order() -> None:
    sent = Sent(most=3)
    outcomes = await asyncio.gather(
        *(sent.batcher.ask(n) for n in range(6)), return_exceptions=True
    )

    assert sent.batches == [[0, 1, 2], [3, 4, 5]]
    assert [each if isinstance(each, int) else type(each) for each in outcomes] == [
        *(0, KeyError, 4),
        *(KeyError, 8, KeyError),
    ]


async def test_what_sending_raises_is_the_outcome_of_all() -> None:
    sent = Sent()
    outcomes = await asyncio.gather(*(sent.batcher.ask(n) for n in (2, 13)), return_exceptions=True)

    assert [type(each) for each in outcomes] == [OSError, OSError]
    assert await sent.batcher.ask(4) == 8


async def test_one_who_leaves_takes_nothing_from_the_others() -> None:
    sent = Sent()
    sent.may_answer.clear()
    first, second = (asyncio.ensure_future(sent.batcher.ask(n)) for n in (2, 4))
    await turns()
    first.cancel()
    sent.may_answer.set()

    assert await second == 8
    assert sent.batches == [[2, 4]]


async def test_closing_refuses_what_waits_and_lets_the_rest_end() -> None:
    sent = Sent(most=1)
    sent.may_answer.clear()
    under_way, waiting = (asyncio.ensure_future(sent.batcher.ask(n)) for n in (2, 4))
    await turns(3)
    closing = asyncio.ensure_future(sent.batcher.close(MetadataClosed()))
    await turns()
    sent.may_answer.set()
    await closing

    assert await under_way == 4
    for late in (waiting, sent.batcher.ask(6)):
        with pytest.raises(MetadataClosed):
            await late
