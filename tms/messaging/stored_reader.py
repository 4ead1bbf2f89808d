"""Reads what references stand for: those of a page, or of a count, together, and cached.

What was read ahead for the references that follow is kept for when their turn comes.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tms.core.errors import StoreUnavailable
from tms.core.values.message import MessageBlock
from tms.core.values.stored_runs import ReadRun, Reference
from tms.messaging.run_cache import RunCache
from tms.messaging.store_threads import StoreThreads

if TYPE_CHECKING:
    from tables.store_tables import StoreTables


class StoredReader:
    """Reads the stored messages of one topic's generation, in the order of its references."""

    def __init__(
        self,
        tables: "StoreTables",
        threads: StoreThreads,
        topic_prefix: bytes,
        cache: RunCache | None,
        *,
        makes_room: bool = True,
    ) -> None:
        """Use the runs of `cache`, and keep what is read there; None: neither.

        `makes_room`: runs that are in the cache may be dropped for that.
        """
        self._tables = tables
        self._threads = threads
        self._prefix = topic_prefix
        self._cache = cache
        self._makes_room = makes_room
        self._ahead: dict[bytes, ReadRun] = {}
        """The runs of references that are looked at next, by their keys."""
        self.rows = self.size = 0
        """How many rows, and bytes, were read of the table; an empty read counts as one row."""

    async def read(
        self,
        first: Reference,
        following: Callable[[], list[Reference]],
        *,
        limit: int,
        bytes_max: int,
    ) -> tuple[MessageBlock, bytes | None]:
        """Return what is stored for a reference, and the key to go on from as `ReadRun.part`.

        At most `limit` messages, and no more once they have about `bytes_max` bytes. If it has to
        be read of the table, that of those that follow is read with it.
        """
        cache = self._cache
        run = self._ahead.pop(first.message_key, None)
        if run is None and cache is not None:
            run = cache.get(first)
        if run is not None:
            return run.part(first.first_key, limit=limit, bytes_max=bytes_max)
        if cache is not None:
            try:
                self._tables.check_writable()
            except StoreUnavailable:
                cache = None  # what a failed write has yet to add is not in the table
        least = abs(first.write_pointer)
        together = {least: first}
        # What was read ahead in another order than that of the references may be much already.
        if sum(len(each.block.items) for each in self._ahead.values()) < bytes_max:
            for each in following():
                is_here = each.message_key in self._ahead
                is_here = is_here or (cache is not None and cache.get(each) is not None)
                if not is_here and abs(each.write_pointer) > least:
                    together.setdefault(abs(each.write_pointer), each)
        seen = 0 if cache is None else cache.changes
        found = await self._threads.read(
            self._tables.payloads.read_runs,
            self._prefix,
            [together[pointer] for pointer in sorted(together)],
            limit=limit,
            bytes_max=bytes_max,
        )
        for read in found:
            self.rows += max(1, read.block.count)
            self.size += len(read.block.items)
            self._ahead[read.message_key] = read
            if cache is not None:
                cache.put(read, seen, makes_room=self._makes_room)
        run = self._ahead.pop(first.message_key)
        return run.block, run.next_key
