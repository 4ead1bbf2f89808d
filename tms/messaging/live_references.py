"""Finds the live reference to the messages stored under a write pointer, so that there is only one.

A reference stands for everything stored under its write pointer, including what is stored later.
A second one would show all of that twice. So a publish of stored messages adds nothing if there is
a live reference. A reference that was rolled back, or has expired, is not live.

References that this process has seen are kept here, as far as there is room. Other pointers may
have a reference from before a restart, or from a write that failed. For these the Message table is
searched once, from the earliest time that their entries can have. If transactions are managed
elsewhere, that is their start minus the longest lifetime, by which clocks may differ. Such a
pointer counts as new if it is more than a minute ahead of the clock at the start, because a search
for each pointer would be too slow: then a reference from before the restart is missed.

References are recorded as they join a flush, so later requests of the same flush know them. Used
from the event loop's thread alone.
"""

from collections import OrderedDict
from collections.abc import Collection

from tms.core.errors import StoreUnavailable
from tms.core.limits import MS_PER_S, WRITE_POINTERS_PER_MS
from tms.core.values.message import KEY_BYTES, first_id_at
from tms.messaging.loaded_topics import TopicState
from tms.messaging.ranges.entries_before_restart import PAGE_BYTES, PAGE_ROWS
from tms.messaging.store_runtime import StoreRuntime
from tms.transactions.journal import TransactionJournal

_POINTERS_MAX = 50_000
_CLOCKS_APART_MS = 60_000
"""The most by which another transaction manager's clock may be ahead."""


class LiveReferences:
    """The references of one service's topics."""

    def __init__(self, engine: StoreRuntime, transactions: TransactionJournal | None) -> None:
        """Keep those under write pointers of `transactions`, or of another manager if None."""
        self._tables = engine.tables
        self._threads = engine.threads
        self._clock = engine.clock
        self._transactions = transactions
        self._lifetime_ms = engine.limits.transaction_lifetime_s_max * MS_PER_S
        self._known_after = (
            (engine.clock.now_ms() + _CLOCKS_APART_MS) * WRITE_POINTERS_PER_MS
            if transactions is None
            else transactions.knows_publications_after
        )
        """Pointers up to this one may have a reference that is not recorded here."""
        self._keys: OrderedDict[tuple[bytes, int], bytes | None] = OrderedDict()
        """By topic and write pointer; None if there is none."""
        self._doubts = 0
        """Increases whenever the result of a search under way may be out of date."""

    def key(self, state: TopicState, write_pointer: int) -> bytes | None:
        """Return the key of the live reference, None if there is none.

        Raises `StoreUnavailable` if that is not known; `find` looks it up.
        """
        name = (state.prefix, write_pointer)
        if name not in self._keys:
            if write_pointer > self._known_after:
                return None
            raise StoreUnavailable(
                reason="the published messages are being looked up again; try again"
            )
        key = self._keys[name]
        live_from = first_id_at(state.topic.first_live_ms(self._clock.expiry_ms()))[:KEY_BYTES]
        return key if key is not None and key >= live_from else None

    def record(self, state: TopicState, write_pointer: int, key: bytes) -> None:
        """Record a reference that joins a flush."""
        self._note((state.prefix, write_pointer), key)

    def _note(self, name: tuple[bytes, int], key: bytes | None) -> None:
        self._keys[name] = key
        if len(self._keys) > _POINTERS_MAX:
            (_, write_pointer), _ = self._keys.popitem(last=False)
            self._known_after = max(self._known_after, write_pointer)

    def rolled_back(
        self, state: TopicState, write_pointer: int, first_key: bytes, last_key: bytes
    ) -> None:
        """Record a rollback, ends inclusive, that joins a flush."""
        self._doubts += 1
        name = (state.prefix, write_pointer)
        key = self._keys.get(name)
        if key is not None and first_key <= key <= last_key:
            del self._keys[name]

    def doubt(self, state: TopicState, write_pointer: int) -> None:
        """Record that a flush failed: its work under a pointer may or may not have been done."""
        self._doubts += 1
        self._keys.pop((state.prefix, write_pointer), None)
        self._known_after = max(self._known_after, write_pointer)

    async def find(self, state: TopicState, write_pointers: Collection[int]) -> None:
        """Look up what `key` will return for these pointers. The caller holds the state."""
        unknown = {
            pointer
            for pointer in write_pointers
            if pointer <= self._known_after and (state.prefix, pointer) not in self._keys
        }
        keys: dict[int, bytes] = {}
        doubts = -1
        while unknown and doubts != self._doubts:
            doubts = self._doubts
            keys = await self._search(state, unknown)
        for pointer in unknown:
            name = (state.prefix, pointer)
            if name not in self._keys:  # it may have been recorded in the meantime
                self._note(name, keys.get(pointer))

    def _searched_from_ms(self, pointers: Collection[int]) -> int:
        """Return a time before which no entry is under `pointers`."""
        if self._transactions is not None:
            return self._transactions.searched_from_ms(pointers)
        if max(pointers) // WRITE_POINTERS_PER_MS > self._clock.now_ms():
            return 0  # a pointer ahead of the clock does not show when it was used
        return min(pointers) // WRITE_POINTERS_PER_MS - self._lifetime_ms

    async def _search(self, state: TopicState, pointers: Collection[int]) -> dict[int, bytes]:
        keys: dict[int, bytes] = {}
        live_ms = state.topic.first_live_ms(self._clock.expiry_ms())
        from_ms = max(live_ms, self._searched_from_ms(pointers))
        position: bytes | None = first_id_at(from_ms)[:KEY_BYTES]
        stop = state.end
        while position is not None and position < stop:
            entries, position = await self._threads.read(
                self._tables.messages.read,
                state.prefix,
                position,
                limit=PAGE_ROWS,
                bytes_max=PAGE_BYTES,
            )
            for index in sorted(entries.references):
                assert entries.pointers is not None
                if entries.pointers[index] in pointers:
                    keys[entries.pointers[index]] = entries.key(index)
        return keys
