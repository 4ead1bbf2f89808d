"""The keys of new entries: ten bytes of timestamp and sequence id that only ever ascend.

Pure. Within one millisecond the sequence goes on; when its 65,536 ids are used up, the next
millisecond is borrowed. A clock that stands still or goes back is not followed: the timestamp is
the greater of the clock's and the last one given.
"""

from tms.core.limits import UINT16_COUNT
from tms.core.values.message import KEY

_SEQUENCE_IDS = tuple(number.to_bytes(2) for number in range(UINT16_COUNT))


class KeySequence:
    """Gives the keys of one topic's entries, or of one write pointer's payloads."""

    def __init__(self, last_key: bytes | None) -> None:
        """Go on after `last_key`, the greatest one in the table; None where there is none."""
        self._timestamp, self._next = -1, 0
        if last_key is not None:
            self._timestamp, last = KEY.unpack(last_key)
            self._next = last + 1

    @property
    def last_ms(self) -> int:
        """The time in the last key, in ms since 1970; negative if there is none."""
        return self._timestamp

    def next_floor(self) -> bytes:
        """Return a key above all that were given, and not above any that will be."""
        if self._timestamp < 0:
            return KEY.pack(0, 0)
        if self._next == UINT16_COUNT:
            return KEY.pack(self._timestamp + 1, 0)
        return KEY.pack(self._timestamp, self._next)

    def take(self, count: int, now_ms: int) -> list[bytes]:
        """Return the next `count` keys, none before the time `now_ms`, none given before."""
        if now_ms > self._timestamp:
            self._timestamp, self._next = now_ms, 0
        keys: list[bytes] = []
        while len(keys) < count:
            if self._next == UINT16_COUNT:
                self._timestamp, self._next = self._timestamp + 1, 0
            stop = min(self._next + count - len(keys), UINT16_COUNT)
            timestamp = self._timestamp.to_bytes(8)
            keys += [timestamp + number for number in _SEQUENCE_IDS[self._next : stop]]
            self._next = stop
        return keys
