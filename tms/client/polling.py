"""One poll: how it reads, and its answer in runs of messages."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeVar

from tms.client.gathered import OpenTransaction
from tms.core.errors import InvalidRequest
from tms.core.limits import LIMIT_MAX
from tms.core.message import Message, MessageBlock
from tms.core.messaging import Messaging
from tms.core.topic import TopicId
from tms.core.transaction import Transaction

Tx = Transaction | int | OpenTransaction
"""A transaction: one of `transaction()`, a `Transaction` that comes from elsewhere, or a number, to
publish the write pointer, to poll the id of one in progress."""

Item = TypeVar("Item")

Blocks = AsyncGenerator[list[Message], None]
"""Runs of messages, none of them empty."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a poll gives, besides where it starts."""

    limit: int | None = None
    """How many messages at most; None is as many as one poll may give."""
    tx: Tx | None = None
    """Only what this transaction sees."""
    committed: bool = False
    """Only what is committed."""
    wait_s: float = 0.0
    end: bytes | None = None
    """Nothing from this id on."""

    def __post_init__(self) -> None:
        """Raise `InvalidRequest` (invalid_limit), `ValueError`."""
        if self.limit is not None and self.limit < 1:
            raise InvalidRequest("invalid_limit", limit=self.limit)
        if self.committed and self.tx is not None:
            raise ValueError("give either tx or committed: a transaction sees what it sees")
        if self.end is not None and self.wait_s:
            raise ValueError("give either end or wait_s: a range is there, or it is not")


def blocks_of(messaging: Messaging, topic_id: TopicId, position: bytes, read: Reading) -> Blocks:
    """Give the messages from `position` on, decoded. Raises as `message_blocks`."""
    return _decoded(message_blocks(messaging, topic_id, position, read))


async def _decoded(blocks: AsyncGenerator[MessageBlock, None]) -> Blocks:
    async with aclosing(blocks):
        async for block in blocks:
            yield list(block)


def message_blocks(
    messaging: Messaging, topic_id: TopicId, position: bytes, read: Reading
) -> AsyncGenerator[MessageBlock, None]:
    """Give the messages from `position` on. Raises `RuntimeError` where the transaction ended."""
    tx = read.tx
    if not (tx is None or isinstance(tx, int | Transaction)):
        tx = tx.gathered.transaction_id
    return _blocks(messaging, topic_id, position, read, tx)


async def _blocks(
    messaging: Messaging,
    topic_id: TopicId,
    position: bytes,
    read: Reading,
    transaction: Transaction | int | None,
) -> AsyncGenerator[MessageBlock, None]:
    blocks = messaging.poll(
        topic_id,
        position,
        limit=LIMIT_MAX if read.limit is None else min(read.limit, LIMIT_MAX),
        transaction=transaction,
        committed=read.committed,
        wait_s=read.wait_s,
        end=read.end,
    )
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
