"""Compares the cached entries of the topics in memory with the Message table.

For operators: a lasting difference is a fault. A short one is normal, because a write changes the
table first and then the cache. So entries that differ are compared again.
"""

import asyncio

from tms.core.values.entries import PLAIN, Entries
from tms.core.values.message import KEY
from tms.messaging.loaded_topics import TopicState
from tms.messaging.store_runtime import StoreRuntime

_ENTRIES_AT_ONCE = 1_000
_BYTES_AT_ONCE = 1024 * 1024
_LOOKS = 5
_BETWEEN_LOOKS_S = 0.1
_DIFFERENCES_NAMED = 10

_Rows = dict[bytes, tuple[int, bool, tuple[bytes, bool]]]
"""By key: the write pointer, whether it is a reference, and the body (`Message.body`)."""


class CacheCheck:
    """Checks the cache of one service."""

    def __init__(self, engine: StoreRuntime) -> None:
        self._states = engine.states
        self._tables = engine.tables
        self._threads = engine.threads
        self._clock = engine.clock

    async def problems(self, after: str, limit: int) -> tuple[list[str], int, str | None]:
        """Check `limit` topics after the name `after`.

        Returns the problems, one line each; the number of topics checked; and the name of the last
        one if there are more. Raises `StoreUnavailable`.
        """
        states = [state for state in self._states.in_memory() if str(state.topic.id) > after]
        problems_found = []
        for state in states[:limit]:
            problems_found += await self._of_topic(state)
        checked = len(states[:limit])
        return (
            problems_found,
            checked,
            str(states[limit - 1].topic.id) if len(states) > limit else None,
        )

    async def _of_topic(self, state: TopicState) -> list[str]:
        different: list[bytes] = []
        for look in range(_LOOKS):
            if look:
                await asyncio.sleep(_BETWEEN_LOOKS_S)
            different = await self._different(state)
            if not different:
                break
        named = ", ".join(key.hex() for key in different[:_DIFFERENCES_NAMED])
        place = f"cache {state.topic.id}"
        return [f"{place}: {len(different)} differ from the table: {named}"] if different else []

    async def _different(self, state: TopicState) -> list[bytes]:
        """Return the keys at which the cache and the table differ."""
        different: list[bytes] = []
        key: bytes | None = state.cache.floor
        while key is not None:
            if state.gone or state.stale:
                return []
            key = max(key, state.cache.floor)  # older blocks may have been dropped
            entries = state.cache.slice(key, limit=_ENTRIES_AT_ONCE, bytes_max=_BYTES_AT_ONCE)
            cached = _rows_of(entries.entries, entries.start, entries.stop)
            stored = await self._threads.read(
                self._stored, state.prefix, key, max(cached, default=key)
            )
            different += [
                each for each in cached.keys() | stored if cached.get(each) != stored.get(each)
            ]
            key = entries.next_key
        live = KEY.pack(state.topic.first_live_ms(self._clock.expiry_ms()), 0)
        oldest = max(live, state.cached_from(self._clock))
        return sorted(each for each in different if each >= oldest)

    def _stored(self, prefix: bytes, first_key: bytes, last_key: bytes) -> _Rows:
        """Return the table's rows from `first_key` to `last_key`, both inclusive."""
        stored: _Rows = {}
        key: bytes | None = first_key
        while key is not None and key <= last_key:
            entries, key = self._tables.messages.read(
                prefix, key, limit=_ENTRIES_AT_ONCE, bytes_max=_BYTES_AT_ONCE
            )
            stored |= _rows_of(entries, 0, entries.count)
        return {key: row for key, row in stored.items() if key <= last_key}


def _rows_of(entries: Entries, start: int, stop: int) -> _Rows:
    messages = list(entries.block(0, entries.count))[start:stop]
    pointers = entries.pointers
    return {
        message.id[: KEY.size]: (
            PLAIN if pointers is None else pointers[index],
            index in entries.references,
            message.body(),
        )
        for index, message in enumerate(messages, start)
    }
