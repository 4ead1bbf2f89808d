"""Which entries of a compact topic may go: decided row by row, newest first. Pure.

The newest message of a key stays. An older one goes if a newer one that all readers see supersedes
it, and no reader stops between the two. So each reader finds the newest message of each key that it
may see, or a later one. Two kinds of entries go once they are older than the topic's `tombstone_s`:
- a message without payload (a tombstone), when all older ones of its key are gone;
- an entry that was rolled back.

Some entries stay forever: the greatest entry, because ids continue from it; messages without a key,
which the topic had before it was compact; references to stored messages.

Memory is bounded: a sweep remembers at most `keys_max` keys. A sweep that has met more continues
for those it remembers, and `resume` says where the next one begins for the others.
"""

from enum import Enum
from hashlib import blake2b

from cleanup.fates import Fate, Fates
from tables.keys import (
    FRAMED_KIND,
    FRAMED_START,
    POINTER_END,
    TRANSACTIONAL_FRAMED_KIND,
    entry_pointer_of,
    message_key_of,
)
from tms.core.values.entries import PLAIN
from tms.core.values.frame import HEADERS_FLAG, KEY_FLAG, NO_PAYLOAD_FLAG, read_key
from tms.core.values.message import KEY
from tms.core.values.varints import MORE_FOLLOWS

_DIGEST_BYTES = 16
_FRAME_AT = {FRAMED_KIND: 1, TRANSACTIONAL_FRAMED_KIND: POINTER_END}
"""Where the frame begins in the value of a row, by its kind."""
_KEYED = tuple(
    KEY_FLAG | others
    for others in (0, HEADERS_FLAG, NO_PAYLOAD_FLAG, HEADERS_FLAG | NO_PAYLOAD_FLAG)
)
"""The flags of frames with a key."""
_SHORT_BYTES = 2
"""The least length of a frame with a key, after its first byte."""


class Verdict(Enum):
    """The verdict on an entry."""

    STAYS = "stays"
    SUPERSEDED = "superseded"
    """All readers see a newer entry of its key."""
    ROLLED_BACK = "rolled back"
    """It was rolled back, and is older than `tombstone_s`."""


def key_and_tombstone(value: bytes) -> tuple[bytes | None, bool]:
    """Return a Message row's key, None if it has none, and whether it has no payload.

    Raises `StoreCorrupt`.
    """
    at = _FRAME_AT.get(value[0]) if value else None
    if at is None:
        return None, False
    # Most frames and keys are short. Longer or damaged ones take the general path.
    if len(value) > at + _SHORT_BYTES and value[at] < MORE_FOLLOWS:
        flags, key_bytes = value[at + 1], value[at + 2] >> 1
        end = at + 3 + key_bytes
        if flags in _KEYED and value[at + 2] < MORE_FOLLOWS and end <= at + 1 + (value[at] >> 1):
            return value[at + 3 : end], bool(flags & NO_PAYLOAD_FLAG)
    key, has_payload = read_key(value, at)
    return key, not has_payload


def _name_of(key: bytes) -> bytes:
    """Return the form of a key in memory: the key itself if it is shorter than a digest."""
    if len(key) < _DIGEST_BYTES:
        return key
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


class Sweep:
    """One pass through a topic, from its end to its beginning."""

    def __init__(self, fates: Fates, old_ms: int, keys_max: int, greatest: bytes) -> None:
        """Decide by `fates`; entries from before `old_ms`, in ms since 1970, are old.

        `greatest` is the row key that always stays.
        """
        self._fates = fates
        self._old_ms = old_ms
        self._keys_max = keys_max
        self._greatest = greatest
        self._seen: set[bytes] = set()
        self.resume: bytes | None = None
        """The row key from which on, downwards, keys did not fit in memory."""
        self.tombstones: list[bytes] = []
        """Row keys of old tombstones, which may go once the sweep has ended."""
        self.undecided: bytes | None = None
        """The last (least) row key whose transaction is not decided for all readers."""
        self.undecided_pointer = PLAIN
        self.waiting_ms: int | None = None
        """The time of the oldest entry that goes once it is old."""

    def verdict(self, row_key: bytes, value: bytes) -> Verdict:
        """Decide on the next row. Raises `StoreCorrupt`."""
        fate = Fate.SEEN
        if value[:1] != FRAMED_START:
            pointer = entry_pointer_of(value)
            fate = self._fates.of(pointer)
            if fate is Fate.ROLLED_BACK:
                may_go = row_key != self._greatest and self._is_old(row_key)
                return Verdict.ROLLED_BACK if may_go else Verdict.STAYS
            if fate is Fate.UNDECIDED:
                self._stop_at(row_key, pointer)
                return Verdict.STAYS
            if self._fates.is_invalid(pointer):
                self._wait_for(row_key)  # it goes once it is inverted
        key, is_tombstone = key_and_tombstone(value)
        if key is None:
            return Verdict.STAYS
        name = _name_of(key)
        if name in self._seen:
            return Verdict.SUPERSEDED
        if fate is Fate.SEEN:
            self._supersede(row_key, name, is_tombstone=is_tombstone)
        return Verdict.STAYS

    def _supersede(self, row_key: bytes, name: bytes, *, is_tombstone: bool) -> None:
        """Make a row supersede older ones of its key, if there is room."""
        if self.resume is not None or len(self._seen) >= self._keys_max:
            self.resume = self.resume or row_key
            return
        self._seen.add(name)
        if is_tombstone and row_key != self._greatest and self._is_old(row_key):
            self.tombstones.append(row_key)

    def _stop_at(self, row_key: bytes, pointer: int) -> None:
        """Let no row above supersede rows below: a reader may stop here."""
        self._seen.clear()
        self.tombstones.clear()
        self.undecided, self.undecided_pointer = row_key, pointer

    def _is_old(self, row_key: bytes) -> bool:
        """Whether a row is old enough to go; if not, record that it waits."""
        written_ms = int(KEY.unpack(message_key_of(row_key))[0])
        if written_ms < self._old_ms:
            return True
        self._wait_for(row_key)
        return False

    def _wait_for(self, row_key: bytes) -> None:
        written_ms = int(KEY.unpack(message_key_of(row_key))[0])
        waiting_ms = written_ms if self.waiting_ms is None else self.waiting_ms
        self.waiting_ms = min(waiting_ms, written_ms)
