"""Rolls back the entries of one publish: in the table through the writer, then in the cache.

One write request rolls back everything that one publish can have written, so that is atomic. A
wider range takes several. After the first of them is queued, the others are queued however full the
queue is, even if the caller has gone, and the transaction cannot be committed before the last one.

Entries that readers may have seen are not rolled back: a committed or unknown transaction is
refused. So are entries of an earlier leader: a late write of that leader could restore them, and
they would be seen once the transaction is aborted. A caller that is refused must invalidate the
transaction.
"""

import asyncio

from tms.core.errors import InvalidRequest, RollbackRefused, TopicNotFound
from tms.core.limits import INT64_MAX, UINT16_COUNT
from tms.core.runtime.shared_work import shared
from tms.core.services.messaging import RollbackRange
from tms.core.values.caller import Caller
from tms.core.values.message import KEY, KEY_BYTES
from tms.core.values.table_rows import OwnEntries
from tms.core.values.topic import TopicId
from tms.messaging.loaded_topics import TopicState
from tms.messaging.write_requests import RollBack, Writing

_VALUE_OVERHEAD_BYTES = 16
"""The most bytes that a row's value has in addition to the body of its message."""


class Rollbacks:
    """Rolls back for one service. Used from the event loop's thread alone."""

    def __init__(self, writing: Writing) -> None:
        engine = writing.engine
        self._tables = engine.tables
        self._threads = engine.threads
        self._writer = engine.writer
        self._earlier = KEY.pack(engine.earlier_until_ms, UINT16_COUNT - 1)
        """The greatest key that an earlier leader may have used."""
        self._writing = writing
        limits = engine.limits
        self._rows_max = limits.request_messages_max
        self._bytes_max = limits.request_bytes_max + _VALUE_OVERHEAD_BYTES * self._rows_max
        self._under_way: set[asyncio.Task[None]] = set()

    async def roll_back(self, topic_id: TopicId, published: RollbackRange, caller: Caller) -> None:
        """Roll back the entries in a range under its write pointer; see `Service.rollback`."""
        first_key, last_key = _keys_of(published)
        work = self._held(topic_id, published.write_pointer, first_key, last_key, caller)
        task = asyncio.create_task(work, name="rollback")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        await shared(task)

    async def _held(
        self,
        topic_id: TopicId,
        write_pointer: int,
        first_key: bytes,
        last_key: bytes,
        caller: Caller,
    ) -> None:
        writing = self._writing
        try:
            async with writing.states.held((topic_id,)) as [state]:
                writing.check_rollback(write_pointer, caller)
                # Later entries are not rolled back, however wide the range is.
                last_key = min(last_key, _before(state))
                await self._roll_back(state, write_pointer, first_key, last_key)
        except TopicNotFound:
            # The topic was deleted, and its messages with it.
            writing.publications.rolled_back(write_pointer, topic_id, first_key, last_key)
            raise

    async def _roll_back(
        self, state: TopicState, write_pointer: int, first_key: bytes, last_key: bytes
    ) -> None:
        next_key: bytes | None = first_key
        own = foreign = 0
        goes_on = False
        while next_key is not None and next_key <= last_key:
            page = await self._page(state, next_key, last_key, write_pointer)
            own, foreign, next_key = own + page.own, foreign + page.foreign, page.next_key
            if not page.rows:
                continue
            if page.rows[0][0][-KEY_BYTES:] <= self._earlier:
                raise RollbackRefused("rollback_of_earlier_leader", write_pointer=write_pointer)
            is_part = goes_on or next_key is not None
            part_of = (first_key, last_key) if is_part else None
            write = RollBack(self._writing, state, write_pointer, page.rows, part_of=part_of)
            await self._writer.submit(write, goes_on=goes_on)
            goes_on = True
        if foreign and not own:
            raise RollbackRefused(write_pointer=write_pointer, foreign_entries=foreign)
        publications = self._writing.publications
        publications.rolled_back(write_pointer, state.topic.id, first_key, last_key)

    async def _page(
        self, state: TopicState, first_key: bytes, last_key: bytes, write_pointer: int
    ) -> OwnEntries:
        return await self._threads.read(
            self._tables.messages.own_entries,
            state.prefix,
            first_key,
            last_key,
            write_pointer,
            limit=self._rows_max,
            bytes_max=self._bytes_max,
        )

    async def finish(self) -> None:
        """Return when the rollbacks under way have ended."""
        await asyncio.gather(*self._under_way, return_exceptions=True)


def _before(state: TopicState) -> bytes:
    """Return the greatest key that a durable entry may have."""
    return (max(1, int.from_bytes(state.end)) - 1).to_bytes(KEY_BYTES)


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
