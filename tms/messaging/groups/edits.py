"""Edits: changes of a group's state, as values and as bytes.

    row       := version byte (1), crc32 uint32 over what follows, count number, edit*
    edit      := kind byte, length number, body
    1 READ    := through, ids, [digests]
    2 TAKEN   := delivery int64, lease ms uint32, member text, [principal text], [sequence], ids
    3 SETTLED := how byte (0 ack, 1 dead letter, 2 skipped, 3 gone), ids
    4 FAILED  := why byte (0 nack, 1 lease ended), not before int64 ms, ids, reason text
    5 RELEASED := ids
    6 REOPENED := through of the dead letters, ids of later dead letters, ids, [digests]
    7 SOUGHT  := through, floor int64
    8 DYING   := death, ids
    death     := disposition byte (0 attempts, 1 rejected, 2 unacknowledged), int64 ms, member text,
                 reason text
    through   := 0x00, or 0x01 and an id of 20 bytes
    digests   := for each id 8 bytes: BLAKE2b of the key, or of the id without one; by key only
    [x]       := 0x00, or 0x01 and x; sequence is a number

Numbers, texts and ids are those of `varints`. Big-endian. DO NOT CHANGE: on disk. Decoding returns
the edits that were encoded, or raises `StoreCorrupt`.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple
from zlib import crc32

from tms.core.errors import StoreCorrupt
from tms.core.values.dead_letters import Disposition
from tms.core.values.message import ID_BYTES
from tms.messaging.groups.varints import GroupReader, ids_bytes, number_bytes, text_bytes

DIGEST_BYTES: Final = 8
ROW_VERSION: Final = 1
_ROW_START_BYTES: Final = 5


class _Kind:
    """The kinds of edits; not an enum, which would be slower. DO NOT CHANGE: on disk."""

    READ: Final = 1
    TAKEN: Final = 2
    SETTLED: Final = 3
    FAILED: Final = 4
    RELEASED: Final = 5
    REOPENED: Final = 6
    SOUGHT: Final = 7
    DYING: Final = 8


class How(IntEnum):
    """The end of a message. DO NOT CHANGE: on disk."""

    ACK = 0
    DEAD = 1
    """It was written to the topic of dead letters."""
    SKIPPED = 2
    """An operator skipped it."""
    GONE = 3
    """It expired, was trimmed, or was superseded."""


class Why(IntEnum):
    """The reason why an attempt failed. DO NOT CHANGE: on disk."""

    NACK = 0
    LEASE_ENDED = 1


class ReadEdit(NamedTuple):
    """Messages were opened: all committed ones up to `through` have been read."""

    through: bytes | None
    ids: Sequence[bytes]
    """Ascending, and above all earlier ones."""
    digests: Sequence[bytes] = ()
    """One for each id if the order is by key, otherwise none."""


class TakenEdit(NamedTuple):
    """Messages were leased to a member."""

    delivery: int
    lease_ms: int
    member: str
    principal: str | None
    sequence: int | None
    ids: Sequence[bytes]


class SettledEdit(NamedTuple):
    """Messages were settled."""

    how: How
    ids: Sequence[bytes]


class FailedEdit(NamedTuple):
    """Attempts failed."""

    why: Why
    not_before_ms: int
    ids: Sequence[bytes]
    reason: str = ""


class ReleasedEdit(NamedTuple):
    """Messages were released; no attempt is counted."""

    ids: Sequence[bytes]


class Death(NamedTuple):
    """The end of a message's last attempt."""

    disposition: Disposition
    at_ms: int
    member: str
    """The name of the member that had it; empty if unknown."""
    reason: str


class DyingEdit(NamedTuple):
    """The last attempt failed: the messages wait to be written as dead letters."""

    death: Death
    ids: Sequence[bytes]


class ReopenedEdit(NamedTuple):
    """Dead letters were handled, and some of their messages reopened."""

    redriven: bytes | None
    """All dead letters up to this id are handled."""
    handled: Sequence[bytes]
    """The ids of later ones that are handled too."""
    ids: Sequence[bytes]
    """Messages of the topic, ascending. None of them is open."""
    digests: Sequence[bytes] = ()


class SoughtEdit(NamedTuple):
    """All open messages were forgotten; reading continues after `through`."""

    through: bytes | None
    floor: int
    """Deliveries up to this number no longer count."""

    @property
    def ids(self) -> Sequence[bytes]:
        """The messages that it names, as other edits have them: none."""
        return ()


Edit = (
    ReadEdit
    | TakenEdit
    | SettledEdit
    | FailedEdit
    | ReleasedEdit
    | ReopenedEdit
    | SoughtEdit
    | DyingEdit
)


def encode_edit(edit: Edit) -> bytes:
    """Return the bytes of an edit."""
    match edit:
        case TakenEdit():
            kind = _Kind.TAKEN
            body = b"".join(
                (
                    edit.delivery.to_bytes(8),
                    edit.lease_ms.to_bytes(4),
                    text_bytes(edit.member),
                    b"\x00" if edit.principal is None else b"\x01" + text_bytes(edit.principal),
                    b"\x00" if edit.sequence is None else b"\x01" + number_bytes(edit.sequence),
                    ids_bytes(edit.ids),
                )
            )
        case SettledEdit():
            kind, body = _Kind.SETTLED, bytes((edit.how,)) + ids_bytes(edit.ids)
        case ReadEdit():
            kind = _Kind.READ
            body = through_bytes(edit.through) + ids_bytes(edit.ids) + b"".join(edit.digests)
        case FailedEdit():
            start = bytes((edit.why,)) + edit.not_before_ms.to_bytes(8)
            kind, body = _Kind.FAILED, start + ids_bytes(edit.ids) + text_bytes(edit.reason)
        case ReleasedEdit():
            kind, body = _Kind.RELEASED, ids_bytes(edit.ids)
        case DyingEdit():
            kind, body = _Kind.DYING, death_bytes(edit.death) + ids_bytes(edit.ids)
        case ReopenedEdit():
            start = through_bytes(edit.redriven) + ids_bytes(edit.handled)
            kind, body = _Kind.REOPENED, start + ids_bytes(edit.ids) + b"".join(edit.digests)
        case SoughtEdit():
            kind, body = _Kind.SOUGHT, through_bytes(edit.through) + edit.floor.to_bytes(8)
    return bytes((kind,)) + number_bytes(len(body)) + body


def encode_row(edits: Sequence[bytes]) -> bytes:
    """Return the row of encoded edits."""
    body = number_bytes(len(edits)) + b"".join(edits)
    return bytes((ROW_VERSION,)) + crc32(body).to_bytes(4) + body


def decode_row(row: bytes, *, by_key: bool) -> list[Edit]:
    """Return the edits of a row. Raises `StoreCorrupt`."""
    try:
        return list(_edits_of(checked(row), by_key=by_key))
    except (ValueError, IndexError):
        raise StoreCorrupt(table="group", row=row[:_ROW_START_BYTES].hex()) from None


def checked(value: bytes) -> bytes:
    """Return the body after version and checksum. Raises `ValueError` if they do not match."""
    body = value[_ROW_START_BYTES:]
    if value[0] != ROW_VERSION or crc32(body) != int.from_bytes(value[1:_ROW_START_BYTES]):
        raise ValueError
    return body


def _edits_of(body: bytes, *, by_key: bool) -> Iterator[Edit]:
    reader = GroupReader(body)
    for _ in range(reader.number()):
        kind = reader.fixed(1)[0]
        end = reader.number() + reader.at
        yield _edit_of(kind, reader, by_key=by_key)
        if reader.at != end:
            raise ValueError
    if not reader.is_at_end:
        raise ValueError


def _edit_of(kind: int, reader: GroupReader, *, by_key: bool) -> Edit:
    match kind:
        case _Kind.READ:
            through, ids = through_of(reader), reader.ids()
            edit: Edit = ReadEdit(through, ids, _digests_of(reader, ids, by_key=by_key))
        case _Kind.TAKEN:
            delivery, lease_ms = reader.integer(8), int.from_bytes(reader.fixed(4))
            member = reader.text()
            principal = reader.text() if reader.flag() else None
            sequence = reader.number() if reader.flag() else None
            edit = TakenEdit(delivery, lease_ms, member, principal, sequence, reader.ids())
        case _Kind.SETTLED:
            edit = SettledEdit(How(reader.fixed(1)[0]), reader.ids())
        case _Kind.FAILED:
            why, not_before_ms = Why(reader.fixed(1)[0]), reader.integer(8)
            edit = FailedEdit(why, not_before_ms, reader.ids(), reader.text())
        case _Kind.RELEASED:
            edit = ReleasedEdit(reader.ids())
        case _Kind.REOPENED:
            redriven, handled, ids = through_of(reader), reader.ids(), reader.ids()
            digests = _digests_of(reader, ids, by_key=by_key)
            edit = ReopenedEdit(redriven, handled, ids, digests)
        case _Kind.SOUGHT:
            edit = SoughtEdit(through_of(reader), reader.integer(8))
        case _Kind.DYING:
            edit = DyingEdit(death_of(reader), reader.ids())
        case _:
            raise ValueError
    return edit


def _digests_of(reader: GroupReader, ids: Sequence[bytes], *, by_key: bool) -> Sequence[bytes]:
    return [reader.fixed(DIGEST_BYTES) for _ in ids] if by_key else ()


def death_bytes(death: Death) -> bytes:
    """Encode a death."""
    start = bytes((death.disposition.stored,)) + death.at_ms.to_bytes(8)
    return start + text_bytes(death.member) + text_bytes(death.reason)


def death_of(reader: GroupReader) -> Death:
    """Decode a death."""
    disposition = Disposition.of_stored(reader.fixed(1)[0])
    return Death(disposition, reader.integer(8), reader.text(), reader.text())


def through_bytes(through: bytes | None) -> bytes:
    """Encode how far a group has read."""
    return b"\x00" if through is None else b"\x01" + through


def through_of(reader: GroupReader) -> bytes | None:
    """Decode how far a group has read."""
    return reader.fixed(ID_BYTES) if reader.flag() else None
