"""Inverts the entries of invalid transactions, so that the list of them can be forgotten.

It does what a rollback would have done: it inverts the entries in the table through the writer,
then in the cache. It skips a topic that was deleted or loaded again in the meantime: nobody reads
the entries of a deleted topic, and cleanup repeats the request for the others.
"""

import asyncio
from collections.abc import Collection, Sequence

from tms.core.errors import TopicNotFound
from tms.core.values.topic import TopicId
from tms.messaging.loaded_topics import TopicState
from tms.messaging.write_requests import RollBack, Writing

Row = tuple[bytes, bytes]

_ROWS = 2_000
_BYTES = 1024 * 1024
"""Entries read and inverted at a time: few, because publishers wait for each such flush."""


class InvalidEntries:
    """Inverts the entries of invalid transactions. Used from the event loop's thread alone."""

    def __init__(self, writing: Writing) -> None:
        self._tables = writing.tables
        self._states = writing.states
        self._threads = writing.engine.threads
        self._writer = writing.engine.writer
        self._writing = writing

    async def invert_published(self, write_pointers: Collection[int]) -> int:
        """Invert all entries published here under pointers; return their number.

        They share flushes. Raises the errors of the writer, and `StoreUnavailable`: then some may
        remain.
        """
        return sum(await asyncio.gather(*map(self._invert_published, write_pointers)))

    async def _invert_published(self, write_pointer: int) -> int:
        count = 0
        for generation, ranges in self._writing.publications.ranges(write_pointer).items():
            try:
                async with self._states.held((generation.topic_id,)) as [state]:
                    if state.topic.generation != generation.number:
                        continue
                    for first_key, last_key in ranges:
                        count += await self._invert_range(state, first_key, last_key, write_pointer)
                        # Even if another process has inverted them in the table.
                        state.cache.invert(first_key, last_key, write_pointer)
            except TopicNotFound:
                continue
        return count

    async def _invert_range(
        self, state: TopicState, first_key: bytes, last_key: bytes, write_pointer: int
    ) -> int:
        count = 0
        next_key: bytes | None = first_key
        while next_key is not None and next_key <= last_key:
            own = await self._threads.read(
                self._tables.messages.own_entries,
                state.prefix,
                next_key,
                last_key,
                write_pointer,
                limit=_ROWS,
                bytes_max=_BYTES,
            )
            if own.rows:
                await self._writer.submit(RollBack(self._writing, state, write_pointer, own.rows))
            count += len(own.rows)
            next_key = own.next_key
        return count

    async def invert_rows(
        self, topic_id: TopicId, generation: int, write_pointer: int, rows: Sequence[Row]
    ) -> int:
        """Invert rows of the Message table, ascending, as stored under a pointer.

        Return their number: 0 if that generation is gone. Raises as `invert_published`.
        """
        try:
            state = await self._states.get(topic_id)
            if state.topic.generation != generation:
                return 0
            if rows:
                await self._writer.submit(RollBack(self._writing, state, write_pointer, rows))
        except TopicNotFound:
            return 0
        return len(rows)
