"""One poll: how it reads, and its answer in runs of messages."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from tms.client.stops import Stops
from tms.client.transaction_work import OpenTransaction
from tms.core.errors import InvalidRequest
from tms.core.limits import LIMIT_MAX
from tms.core.message import Message, MessageBlock
from tms.core.messaging import Messaging
from tms.core.reading import Reading, View, isolation_of
from tms.core.topic import TopicId
from tms.core.transaction import Transaction

Tx = Transaction | int | OpenTransaction
"""A transaction: one of `transaction()`, a `Transaction` that comes from elsewhere, or a number, to
publish the write pointer, to poll the id of one in progress."""

Item = TypeVar("Item")

Blocks = AsyncGenerator[list[Message], None]
"""Runs of messages, none of them empty."""


def reading(
    position: bytes,
    limit: int | None = None,
    *,
    tx: Tx | None = None,
    committed: bool = False,
    end: bytes | None = None,
    wait_s: float = 0.0,
) -> Reading:
    """Return what a poll asks; without a limit, as much as one poll may give.

    Raises `InvalidRequest` (invalid_limit), `ValueError` if it contradicts itself, `RuntimeError`
    if the transaction has ended.
    """
    if limit is not None and limit < 1:
        raise InvalidRequest("invalid_limit", limit=limit)
    if committed and tx is not None:
        raise ValueError(
            "give either tx or committed: a transaction decides itself which messages it sees"
        )
    if end is not None and wait_s:
        raise ValueError("give either end or wait_s: a range that has an end does not wait")
    limit = LIMIT_MAX if limit is None else min(limit, LIMIT_MAX)
    return Reading(position, limit, _view_of(tx, committed=committed), end)


def _view_of(tx: Tx | None, *, committed: bool) -> View:
    if tx is None:
        return isolation_of(committed=committed)
    if isinstance(tx, int | Transaction):
        return tx
    return tx.gathered.transaction_id


async def blocks_of(
    messaging: Messaging, topic_id: TopicId, asked: Reading, stops: Stops, wait_s: float = 0.0
) -> Blocks:
    """Give the messages that are asked for, decoded."""
    async with aclosing(message_blocks(messaging, topic_id, asked, stops, wait_s)) as blocks:
        async for block in blocks:
            yield list(block)


async def message_blocks(
    messaging: Messaging, topic_id: TopicId, asked: Reading, stops: Stops, wait_s: float = 0.0
) -> AsyncGenerator[MessageBlock, None]:
    """Give the messages that are asked for, in blocks; tell `stops` where the reader stops."""
    with stops.watched(topic_id, asked.view) as stopped:
        blocks = messaging.poll(topic_id, asked, wait_s, stopped)
        try:
            async for block in blocks:
                yield block
        finally:
            if isinstance(blocks, AsyncGenerator):
                await blocks.aclose()


async def singly(runs: AsyncGenerator[list[Item], None]) -> AsyncGenerator[Item, None]:
    """Give what is in the runs, one by one."""
    async with aclosing(runs):
        async for run in runs:
            for item in run:
                yield item
