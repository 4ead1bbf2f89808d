"""Reads and caches the stored messages of references, those of a page or of a count together.

The runs of later references are read ahead, and kept until their turn comes.
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
        """Use the runs of `cache`, and add the runs read to it; None disables both.

        With `makes_room`, other runs may be dropped from the cache for them.
        """
        self._tables = tables
        self._threads = threads
        self._prefix = topic_prefix
        self._cache = cache
        self._makes_room = makes_room
        self._ahead: dict[bytes, ReadRun] = {}
        """The runs of the next references, by their keys."""
        self.rows = self.size = 0
        """The rows and bytes read from the table; an empty read counts as one row."""

    async def read(
        self,
        first: Reference,
        following: Callable[[], list[Reference]],
        *,
        limit: int,
        bytes_max: int,
    ) -> tuple[MessageBlock, bytes | None]:
        """Return a reference's stored messages, and the key to continue from, as `ReadRun.part`.

        At most `limit` messages, and no more once they have about `bytes_max` bytes. If the table
        must be read, the messages of the references that follow are read with them.
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
                cache = None  # a failed write may still add rows to the table
        least = abs(first.write_pointer)
        together = {least: first}
        # Much may have been read ahead already if it is in another order than the references.
        if sum(len(each.block.items) for each in self._ahead.values()) < bytes_max:
            for reference in following():
                is_here = reference.message_key in self._ahead
                is_here = is_here or (cache is not None and cache.get(reference) is not None)
                if not is_here and abs(reference.write_pointer) > least:
                    together.setdefault(abs(reference.write_pointer), reference)
        seen = 0 if cache is None else cache.changes
        runs = await self._threads.read(
            self._tables.payloads.read_runs,
            self._prefix,
            [together[pointer] for pointer in sorted(together)],
            limit=limit,
            bytes_max=bytes_max,
        )
        for read in runs:
            self.rows += max(1, read.block.count)
            self.size += len(read.block.items)
            self._ahead[read.message_key] = read
            if cache is not None:
                cache.put(read, seen, makes_room=self._makes_room)
        run = self._ahead.pop(first.message_key)
        return run.block, run.next_key
