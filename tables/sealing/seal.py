"""Seals: the key after which a topic's rows of earlier leaders are hidden. Pure.

    metadata row := JSON object of the topic, or that, LF, seal
    seal         := JSON object {"token": n, "hidden": [[after, through], ...]}

A leader assigns no key above the ceiling in its lease, and all keys of the next leader are above
it. So the key of a row shows whether it is an earlier leader's and arrived after the seal: it is
above the last key of the topic at that time, `after` (20 hexadecimal digits; "" if there was none),
and not above the ceiling of the earlier leaders, `through`, in ms since 1970. Such rows are hidden.

A leader seals a topic under its token before it first reads it or writes to it, by a
compare-and-put of the metadata row. So a late change of the topic by an earlier leader fails too,
because it expects the earlier row. A seal has all hidden ranges, so only the latest one counts.
Ranges are in the order of keys. DO NOT CHANGE: stored.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tms.core.errors import StoreCorrupt
from tms.core.values.message import KEY, KEY_BYTES, key_after

_START = b'\n{"token":'
"""Occurs in no JSON object that is written without spaces."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """A range of hidden keys."""

    after: bytes
    """The key before the first hidden one; empty if there is none."""
    through_ms: int
    """The millisecond of the last hidden keys."""

    @property
    def start(self) -> bytes:
        """The first key, in ten bytes; rows of framed payloads have one more."""
        return key_after(self.after) if self.after else b""

    @property
    def stop(self) -> bytes:
        """The first key after the range."""
        return KEY.pack(self.through_ms + 1, 0)


@dataclass(frozen=True, slots=True)
class Seal:
    """The hidden ranges of one generation of a topic."""

    token: int = 0
    """The token of the leader that sealed it; 0 if nobody did."""
    hidden: Sequence[Hidden] = ()
    has_ended: bool = False
    """For a run: whether its transaction had ended, so no later leader adds to it."""

    def range_of(self, key: bytes) -> Hidden | None:
        """Return the range that hides a key, None if it is visible."""
        return next((each for each in self.hidden if each.start <= key < each.stop), None)

    @property
    def through_ms(self) -> int:
        """The time up to which keys are hidden; -1 if none are."""
        return max((each.through_ms for each in self.hidden), default=-1)

    def followed(
        self, token: int, through_ms: int, first_shown: bytes | None, last_shown: bytes | None
    ) -> "Seal":
        """Return the next leader's seal, up to the ceiling of the leaders before it.

        All rows from `first_shown` to `last_shown` that were not hidden stay visible; no others do.
        None means that there are no rows. Ranges with no visible row between them become one.
        """
        through_ms = max(through_ms, self.through_ms)
        if first_shown is None or last_shown is None:
            return Seal(token, (Hidden(b"", through_ms),) if through_ms > 0 else ())
        before = [each for each in self.hidden if each.stop <= first_shown]
        between = [each for each in self.hidden if first_shown <= each.after < last_shown]
        hidden = [*(Hidden(b"", each.through_ms) for each in before[-1:]), *between]
        last = Hidden(last_shown, through_ms)
        if last.start < last.stop:
            hidden.append(last)
        return Seal(token, tuple(hidden))


def topic_row(row: bytes) -> bytes:
    """Return the JSON object of the topic in a metadata row."""
    return row.partition(_START)[0]


def seal_of(row: bytes) -> Seal:
    """Return the seal in a metadata row. Raises `StoreCorrupt`."""
    seal = row[len(topic_row(row)) :]
    return decode_seal(seal) if seal else Seal()


def decode_seal(seal: bytes) -> Seal:
    """Decode a seal. Raises `StoreCorrupt`."""
    try:
        fields = json.loads(seal)
        hidden = tuple(Hidden(bytes.fromhex(after), int(ms)) for after, ms in fields["hidden"])
        decoded = Seal(int(fields["token"]), hidden, bool(fields.get("ended", False)))
    except (ValueError, LookupError, TypeError):
        raise StoreCorrupt(seal=seal.hex()) from None
    if any(len(each.after) not in (0, KEY_BYTES) for each in hidden):
        raise StoreCorrupt(seal=seal.hex())
    return decoded


def sealed_row(row: bytes, seal: Seal) -> bytes:
    """Return the metadata row of the topic in `row`, with that seal."""
    if seal == Seal():
        return topic_row(row)
    return topic_row(row) + b"\n" + encode_seal(seal)


def encode_seal(seal: Seal) -> bytes:
    """Return the JSON object of a seal."""
    hidden = [[each.after.hex(), each.through_ms] for each in seal.hidden]
    fields = {"token": seal.token, "hidden": hidden} | ({"ended": True} if seal.has_ended else {})
    return json.dumps(fields, separators=(",", ":")).encode()
