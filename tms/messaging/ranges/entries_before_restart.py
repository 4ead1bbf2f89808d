"""Finds entries of transactions that were in progress when this process began.

What is published is noted in memory (`tms.messaging.unfinished_publications`), so a restart forgets
where those transactions have published. A search finds it in the Message table. It begins at the
least time that their entries can have, and reads a bounded number of pages at a time, once for
each topic. Before the place that it has reached there is no such entry. It ends soon after a
restart, and is not needed any more when the last of those transactions has ended.

Used from the event loop's thread alone.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tms.core.values.entries import Entries
from tms.core.values.message import KEY_BYTES, first_id_at
from tms.messaging.loaded_topics import TopicState
from tms.messaging.store_threads import StoreThreads

if TYPE_CHECKING:
    from tables.store_tables import StoreTables

PAGES_AT_ONCE = 64
"""Pages read for one caller at most, of all topics together."""
PAGE_ROWS = 10_000
PAGE_BYTES = 1024 * 1024


@dataclass(slots=True)
class _Search:
    """Before `position` there is no entry looked for; from `stop` on all are noted in memory."""

    position: bytes
    stop: bytes


class EntriesBeforeRestart:
    """The searches of one process's topics."""

    def __init__(self, tables: "StoreTables", threads: StoreThreads) -> None:
        self._tables = tables
        self._threads = threads
        self._searches: dict[tuple[bytes, bool], _Search] = {}

    def forget(self) -> None:
        """Forget all searches: the transactions have ended."""
        self._searches.clear()

    async def first(
        self,
        state: TopicState,
        pointers: Collection[int],
        from_ms: int,
        *,
        references: bool,
        pages: int,
    ) -> tuple[bytes | None, int]:
        """Return the key before which a topic has no entry under `pointers`, or None: it has none.

        None of theirs is of an earlier time than `from_ms`, in ms since 1970. `references`: look
        for references alone. At most `pages` are read; the second value is how
        many. `pointers` may only become fewer from one call to the next.
        """
        name = (state.prefix, references)
        search = self._searches.get(name)
        if search is None:
            first_key = first_id_at(from_ms)[:KEY_BYTES]
            search = self._searches[name] = _Search(first_key, state.end)
        read = 0
        while search.position < search.stop:
            if read == pages:
                return search.position, read
            read += 1
            position = search.position
            entries, next_key = await self._threads.read(
                self._tables.messages.read,
                state.prefix,
                position,
                limit=PAGE_ROWS,
                bytes_max=PAGE_BYTES,
            )
            found = _first_of(entries, pointers, references=references)
            if found is not None and found < search.stop:
                search.position = max(search.position, found)
                return search.position, read
            reached = search.stop if next_key is None or found is not None else next_key
            search.position = max(search.position, reached)
        return None, read


def _first_of(entries: Entries, pointers: Collection[int], *, references: bool) -> bytes | None:
    """Return the key of the first entry under one of `pointers`."""
    if references:
        # What was stored under a pointer can grow also where its reference is rolled back.
        indexes = [i for i in sorted(entries.references) if abs(_pointer(entries, i)) in pointers]
        return entries.key(indexes[0]) if indexes else None
    for index, pointer in enumerate(entries.pointers or ()):
        if pointer in pointers:
            return entries.key(index)
    return None


def _pointer(entries: Entries, index: int) -> int:
    assert entries.pointers is not None
    return entries.pointers[index]
