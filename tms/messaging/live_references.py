"""Which reference stands for what is stored under a write pointer, so that there is one at a time.

A reference stands for all that is stored under its write pointer, also for what is stored later.
A second one beside it would show all of that twice. So who publishes what is stored, and finds a
reference that lives, adds nothing. One that was rolled back, or has expired, lives no more.

References that this process has seen are kept here, as far as there is room. Other pointers may
have a reference from before a restart, or from a write that failed. For these the Message table is
searched once, from the least time that their entries can have. If transactions are managed
elsewhere, that is when they began, less the longest lifetime of one, by which clocks may differ.
Such a pointer counts as new if it is more than a minute ahead of the clock at the start: a search
for each pointer would be too slow, so a reference from before the restart is missed then.

References are noted as they join a flush, so what a flush has done before is known within it. Used
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
"""By how much the clock of another transaction manager may be ahead."""


class LiveReferences:
    """The references of one service's topics."""

    def __init__(self, engine: StoreRuntime, transactions: TransactionJournal | None) -> None:
        """Keep those under write pointers of `transactions`; None: of another manager."""
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
        """Those up to this may have a reference that is not known here."""
        self._keys: OrderedDict[tuple[bytes, int], bytes | None] = OrderedDict()
        """By topic and write pointer; None: there is none."""
        self._doubts = 0
        """Goes up whenever a search under way may have seen what does not hold any more."""

    def key(self, state: TopicState, write_pointer: int) -> bytes | None:
        """Return the key of the reference that lives, None if there is none.

        Raises `StoreUnavailable` if that is not known: `find` finds it out.
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

    def noted(self, state: TopicState, write_pointer: int, key: bytes) -> None:
        """Take note of a reference that joins a flush."""
        self._note((state.prefix, write_pointer), key)

    def _note(self, name: tuple[bytes, int], key: bytes | None) -> None:
        self._keys[name] = key
        if len(self._keys) > _POINTERS_MAX:
            (_, write_pointer), _ = self._keys.popitem(last=False)
            self._known_after = max(self._known_after, write_pointer)

    def rolled_back(
        self, state: TopicState, write_pointer: int, first_key: bytes, last_key: bytes
    ) -> None:
        """Take note of a rollback, ends inclusive, that joins a flush."""
        self._doubts += 1
        name = (state.prefix, write_pointer)
        key = self._keys.get(name)
        if key is not None and first_key <= key <= last_key:
            del self._keys[name]

    def doubt(self, state: TopicState, write_pointer: int) -> None:
        """Take note that a flush failed: what it did under a pointer may have been done, or not."""
        self._doubts += 1
        self._keys.pop((state.prefix, write_pointer), None)
        self._known_after = max(self._known_after, write_pointer)

    async def find(self, state: TopicState, write_pointers: Collection[int]) -> None:
        """Find out what `key` is asked for. The caller holds the state."""
        unknown = {
            pointer
            for pointer in write_pointers
            if pointer <= self._known_after and (state.prefix, pointer) not in self._keys
        }
        found: dict[int, bytes] = {}
        doubts = -1
        while unknown and doubts != self._doubts:
            doubts = self._doubts
            found = await self._search(state, unknown)
        for pointer in unknown:
            name = (state.prefix, pointer)
            if name not in self._keys:  # it may have been noted meanwhile
                self._note(name, found.get(pointer))

    def _searched_from_ms(self, pointers: Collection[int]) -> int:
        """Return a time before which no entry is under `pointers`."""
        if self._transactions is not None:
            return self._transactions.searched_from_ms(pointers)
        if max(pointers) // WRITE_POINTERS_PER_MS > self._clock.now_ms():
            return 0  # ahead of the clock, it says nothing about when it was used
        return min(pointers) // WRITE_POINTERS_PER_MS - self._lifetime_ms

    async def _search(self, state: TopicState, pointers: Collection[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
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
                    found[entries.pointers[index]] = entries.key(index)
        return found
