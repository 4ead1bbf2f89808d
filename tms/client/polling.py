"""One poll: how it reads, and its answer in runs of messages."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from tms.client.gathered import OpenTransaction
from tms.core.errors import InvalidRequest
from tms.core.limits import LIMIT_MAX
from tms.core.message import Message
from tms.core.messaging import Messaging
from tms.core.topic import TopicId
from tms.core.transaction import Transaction

Tx = Transaction | int | OpenTransaction
"""A transaction: one of `transaction()`, a `Transaction` that comes from elsewhere, or a number, to
publish the write pointer, to poll the id of one in progress."""

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

    def __post_init__(self) -> None:
        """Raise `InvalidRequest` (invalid_limit), `ValueError`."""
        if self.limit is not None and self.limit < 1:
            raise InvalidRequest("invalid_limit", limit=self.limit)
        if self.committed and self.tx is not None:
            raise ValueError("give either tx or committed: a transaction sees what it sees")


def blocks_of(messaging: Messaging, topic_id: TopicId, position: bytes, read: Reading) -> Blocks:
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
) -> Blocks:
    blocks = messaging.poll(
        topic_id,
        position,
        limit=LIMIT_MAX if read.limit is None else min(read.limit, LIMIT_MAX),
        transaction=transaction,
        committed=read.committed,
        wait_s=read.wait_s,
    )
    try:
        async for block in blocks:
            yield list(block)
    finally:
        if isinstance(blocks, AsyncGenerator):
            await blocks.aclose()


async def singly(blocks: Blocks) -> AsyncGenerator[Message, None]:
    """Give the messages of the runs."""
    async with aclosing(blocks):
        async for block in blocks:
            for message in block:
                yield message
