"""Finds entries of transactions that were in progress when this process started.

Publications are recorded in memory (`tms.messaging.unfinished_publications`), so a restart forgets
where those transactions have published. A search of the Message table finds out. It begins at the
earliest time that their entries can have, and reads a bounded number of pages at a time, once for
each topic. No such entry exists before the place that it has reached. It ends soon after a restart,
and is no longer needed when the last of those transactions has ended.

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
"""The most pages read for one caller, over all topics."""
PAGE_ROWS = 10_000
PAGE_BYTES = 1024 * 1024


@dataclass(slots=True)
class _Search:
    """No matching entry exists before `position`; from `stop` on all are recorded in memory."""

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
        """Return a key before which a topic has no entry under `pointers`, None if it has none.

        The second value is the number of pages read, at most `pages`. No entry under `pointers` is
        before `from_ms`, in ms since 1970. With `references`, only references count. From one call
        to the next, `pointers` may only lose elements.
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
        # More can be stored under a pointer even after its reference was rolled back.
        indexes = [i for i in sorted(entries.references) if abs(_pointer(entries, i)) in pointers]
        return entries.key(indexes[0]) if indexes else None
    for index, pointer in enumerate(entries.pointers or ()):
        if pointer in pointers:
            return entries.key(index)
    return None


def _pointer(entries: Entries, index: int) -> int:
    assert entries.pointers is not None
    return entries.pointers[index]
