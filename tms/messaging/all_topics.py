"""Publishing to several topics in a transaction of its own, all or nothing.

The transaction is started and committed in the flush that writes its messages: one request, one
durable write, which is kept whole.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from tms.core.group_commit import GroupCommit
from tms.core.messaging import AllPublished
from tms.core.topic import TopicId
from tms.core.transactions import OpenTransactions
from tms.messaging.writes import AtOnce, Publication, Writing

Payloads = Mapping[TopicId, Sequence[bytes]]
Publish = Callable[[TopicId, Sequence[bytes], int], Awaitable[None]]


async def publish_in_a_flush(
    writing: Writing,
    writer: GroupCommit,
    transactions: OpenTransactions,
    publications: Payloads,
    *,
    owner: str | None,
    sequence: int | None,
) -> AllPublished:
    """Publish all in one flush. Raises as `Messaging.publish_all`, and `TransactionDuplicate`."""
    parts: list[Publication] = []
    try:
        for topic_id, payloads in publications.items():
            state = writing.states.loaded(topic_id) or await writing.states.get(topic_id)
            parts.append(Publication(writing, state, payloads, None, sum(map(len, payloads))))
            parts[-1].accepted()
        at_once = AtOnce(transactions, parts, owner, sequence)
        published: AllPublished = await writer.submit(at_once)
    finally:
        for part in parts:
            part.finished()
    return published
