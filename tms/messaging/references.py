"""References to what was stored, published by the commit of the transaction that stored it.

A job of many tasks has each store what it writes under a checkpoint of its own, and the commit say
which of these are to be seen: what a task left that failed, or was run twice, stays unreachable.
The references and the commit are one durable step, so there is no moment, and no crash, after which
one is there without the other.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tms.core.messaging import Stored
from tms.core.tables import Batch
from tms.messaging.topic_state import TopicState
from tms.messaging.writes import Publication, Writing


class References:
    """References in order, as a commit carries them (`tms.core.transactions.Carried`)."""

    def __init__(self, writing: Writing, stored: Sequence[tuple[TopicState, int]]) -> None:
        """Refer to what was stored in topics under write pointers."""
        self._publications = [
            Publication(writing, state, (), write_pointer, 0) for state, write_pointer in stored
        ]
        self.size_bytes = sum(publication.size_bytes for publication in self._publications)

    def accepted(self) -> None:
        """Keep the topics' states in memory."""
        for publication in self._publications:
            publication.accepted()

    def check(self) -> None:
        """Raise `TopicNotFound`, `StoreUnavailable` where a topic is not as it was."""
        for publication in self._publications:
            publication.state.check_current()

    def put(self, batch: Batch, now_ms: int) -> None:
        """Add the references; the transaction is still in progress."""
        batch.keep_whole()
        for publication in self._publications:
            publication.add_to(batch, now_ms)

    def apply(self) -> None:
        """Show the references to readers of the cache."""
        for publication in self._publications:
            publication.apply()

    def failed(self) -> None:
        """Let the caches start anew."""
        for publication in self._publications:
            publication.failed()

    def finished(self) -> None:
        """Let the topics' states go."""
        for publication in self._publications:
            publication.finished()


@asynccontextmanager
async def references(writing: Writing, stored: Sequence[Stored]) -> AsyncIterator[References]:
    """Give references to what was stored, as one write to be submitted within.

    Their topics are held meanwhile. Raises `TopicNotFound`, `TooLarge` (too_many_topics_at_once).
    """
    pointers = [each.write_pointer for each in stored]
    async with writing.states.held([each.topic_id for each in stored]) as states:
        yield References(writing, list(zip(states, pointers, strict=True)))
