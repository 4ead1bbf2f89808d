"""Publishing to several topics in a transaction of its own, all or nothing.

The transaction is started and committed in the flush that writes its messages: one request, one
durable write, which is kept whole.
"""

from collections.abc import Mapping, Sequence

from tms.core.group_commit import GroupCommit
from tms.core.messaging import AllPublished
from tms.core.topic import TopicId
from tms.core.transactions import OpenTransactions
from tms.messaging.writes import AtOnce, Publication, Writing

Payloads = Mapping[TopicId, Sequence[bytes]]


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
    async with writing.states.held(publications) as states:
        parts = [
            Publication(writing, state, payloads, None, sum(map(len, payloads)))
            for state, payloads in zip(states, publications.values(), strict=True)
        ]
        at_once = AtOnce(transactions, parts, owner, sequence)
        published: AllPublished = await writer.submit(at_once)
    return published
