"""Rolls back what one publish wrote: the cache is told first, then the table, through the writer.

Nothing is rolled back that readers may have been given: a transaction that is committed, or not
known, is refused. So are entries of an earlier leader: a call of its that comes late may put them
back as they were, and once the transaction were aborted, they would be seen. Whoever is refused
makes the transaction invalid.
"""

from tms.core.caller import Caller
from tms.core.errors import InvalidRequest, RollbackRefused
from tms.core.limits import INT64_MAX, UINT16_COUNT
from tms.core.message import KEY, KEY_BYTES
from tms.core.messaging import RollbackRange
from tms.core.topic import TopicId
from tms.messaging.loaded_topics import TopicState
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.write_requests import RollBack, Writing

_ROWS = 10_000
"""Entries read and inverted at a time: all that one publish wrote, but for the very largest."""


class Rollbacks:
    """Rolls back for one service. Used from the event loop's thread alone."""

    def __init__(self, engine: StoreRuntime, writing: Writing) -> None:
        self._tables = engine.tables
        self._threads = engine.threads
        self._writer = engine.writer
        self._earlier = KEY.pack(engine.earlier_until_ms, UINT16_COUNT - 1)
        """The greatest key that an earlier leader may have given."""
        self._writing = writing

    async def roll_back(self, topic_id: TopicId, published: RollbackRange, caller: Caller) -> None:
        """Roll back the entries in a range under its write pointer, as `Service.rollback` says."""
        first_key, last_key = _keys_of(published)
        async with self._writing.states.held((topic_id,)) as [state]:
            self._writing.check_rollback(published.write_pointer, caller)
            await self._roll_back(state, published.write_pointer, first_key, last_key)

    async def _roll_back(
        self, state: TopicState, write_pointer: int, first_key: bytes, last_key: bytes
    ) -> None:
        next_key: bytes | None = first_key
        own_before = 0
        while next_key is not None and next_key <= last_key:
            rows, own, foreign, next_key = await self._threads.read(
                self._tables.messages.own_entries,
                state.prefix,
                next_key,
                last_key,
                write_pointer,
                limit=_ROWS,
            )
            if foreign and not own and not own_before:
                raise RollbackRefused(write_pointer=write_pointer, foreign_entries=foreign)
            own_before += own
            if rows and self._is_of_earlier_leader(rows[0][0]):
                raise RollbackRefused("rollback_of_earlier_leader", write_pointer=write_pointer)
            if rows:
                # The cache first: it must not show what the table shows as rolled back.
                state.cache.invert(first_key, last_key, write_pointer)
                await self._writer.submit(RollBack(self._writing, state, write_pointer, rows))
        publications = self._writing.publications
        publications.rolled_back(write_pointer, state.topic.id, first_key, last_key)

    def _is_of_earlier_leader(self, row_key: bytes) -> bool:
        return row_key[-KEY_BYTES:] <= self._earlier


def _keys_of(published: RollbackRange) -> tuple[bytes, bytes]:
    """Return the keys of both ends. Raises `InvalidRequest` (invalid_rollback_range)."""
    start = (published.start_timestamp, published.start_sequence_id)
    end = (published.end_timestamp, published.end_sequence_id)
    timestamps = (published.start_timestamp, published.end_timestamp)
    sequence_ids = (published.start_sequence_id, published.end_sequence_id)
    if (
        not 0 < published.write_pointer <= INT64_MAX
        or not all(0 <= timestamp <= INT64_MAX for timestamp in timestamps)
        or not all(0 <= number < UINT16_COUNT for number in sequence_ids)
        or start > end
    ):
        raise InvalidRequest("invalid_rollback_range", start=start, end=end)
    return KEY.pack(*start), KEY.pack(*end)
