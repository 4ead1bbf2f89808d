"""Edits: what changed in the state of transactions, as values and as bytes.

The first part of an edit has the layout of Tephra's TransactionEditCodecV4; our fields follow:

    edit := codec byte (1), write_pointer int64, kind int32, expires_ms int64, commit_pointer int64,
            can_commit byte, changes int32 x (int32, bytes), visibility_upper_bound int64,
            type int32 (0 short, 1 long, -1 none), truncated int32 x int64,
            truncate_before_ms int64, parent int64, checkpoints int32 (always -1)
            flags byte, time_ms int64, timeout_s int32, sequence int64, owner, client, origin,
            principal
    owner, client := uint16, UTF-8                              both lengths first
    origin, principal := uint16, UTF-8                  each only if the flags say so

The edits of one flush are one row:

    row := version byte (1), crc32 uint32 over what follows, count uint32, edits

Big-endian. DO NOT CHANGE: on disk. Decoding returns the encoded edits, or raises `StoreCorrupt`.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

from tms.core.errors import StoreCorrupt
from tms.core.values.transaction import TransactionType


class EditKind(IntEnum):
    """Ordinals of Tephra's TransactionEdit.State, then our own. DO NOT CHANGE: on disk."""

    STARTED = 0
    COMMITTING = 1
    COMMITTED = 2
    INVALID = 3
    ABORTED = 4
    TRUNCATED = 6
    CHECKPOINT = 7
    OWNERS_FORGOTTEN = 64


class Edit(NamedTuple):
    """One change. Each field says which kinds use it; for others it has its default."""

    kind: EditKind
    write_pointer: int = 0
    """The transaction's id; for CHECKPOINT the new pointer."""
    expires_ms: int = 0
    """STARTED."""
    commit_pointer: int = 0
    """COMMITTED: the commit pointer of its changes."""
    can_commit: bool = False
    """COMMITTED: whether its changes are remembered."""
    changes: tuple[bytes, ...] = ()
    """COMMITTING; COMMITTED at once. Other commits have the changes of COMMITTING."""
    visibility_upper_bound: int = 0
    """STARTED: up to here all is visible; above, that depends on the transactions in progress."""
    type: TransactionType | None = None
    """STARTED."""
    truncated: tuple[int, ...] = ()
    """TRUNCATED, by write pointers."""
    truncate_before_ms: int = 0
    """TRUNCATED, by time if not 0; OWNERS_FORGOTTEN: owners (or `owner`) with no later commit."""
    parent: int = 0
    """CHECKPOINT: the transaction's id."""
    at_once: bool = False
    """COMMITTED without having been started."""
    timed_out: bool = False
    """INVALID."""
    time_ms: int = 0
    """COMMITTED: the time. STARTED: the least time of its messages; earlier versions wrote 0."""
    timeout_s: int = 0
    """STARTED."""
    sequence: int | None = None
    """STARTED, COMMITTED."""
    owner: str | None = None
    """STARTED, COMMITTED, OWNERS_FORGOTTEN. Never empty."""
    client: str = ""
    """STARTED, COMMITTED at once."""
    origin: str | None = None
    """STARTED, COMMITTED. Never empty."""
    principal: str | None = None
    """STARTED, COMMITTED at once: the principal that began it."""


_CODEC = 1
_ROW_VERSION = 1
_NO_TYPE = -1
_NO_CHECKPOINTS = -1
_NO_SEQUENCE = -1
_AT_ONCE, _TIMED_OUT, _HAS_ORIGIN, _HAS_PRINCIPAL = 1, 2, 4, 8

_ROW_START = struct.Struct(">BI")
_COUNT = struct.Struct(">I")
_ALL = struct.Struct(">BqiqqBiqiiqqiBqiqHH")
"""A whole edit without changes, truncated pointers, owner and client, as nearly all are."""
_TO_CHANGES = struct.Struct(">BqiqqBi")
_LENGTH = struct.Struct(">i")
_NAME_LENGTH = struct.Struct(">H")
_TO_TRUNCATED = struct.Struct(">qii")
_END = struct.Struct(">qqiBqiqHH")

_KINDS = {kind.value: kind for kind in EditKind}
_TYPE_ORDINALS = {None: _NO_TYPE, TransactionType.SHORT: 0, TransactionType.LONG: 1}
_TYPES = {ordinal: type_ for type_, ordinal in _TYPE_ORDINALS.items()}


def text_bytes(text: str) -> bytes:
    """Return a name in UTF-8; half a surrogate pair, which a client may send, is accepted."""
    return text.encode("utf-8", "surrogatepass")


def text_of(encoded: bytes) -> str:
    """Return the text of `text_bytes`. Raises `ValueError`."""
    return encoded.decode("utf-8", "surrogatepass")


def encode_row(edits: Sequence[Edit]) -> bytes:
    """Return the row of a flush's edits."""
    body = _COUNT.pack(len(edits)) + b"".join([encode_edit(edit) for edit in edits])
    return _ROW_START.pack(_ROW_VERSION, crc32(body)) + body


def decode_row(sequence: int, row: bytes) -> list[Edit]:
    """Return the edits of the row `sequence`. Raises `StoreCorrupt`, which names the row."""
    try:
        return _edits_of(row)
    except (ValueError, LookupError, struct.error):
        raise StoreCorrupt(table="transaction", sequence=sequence) from None


def _edits_of(row: bytes) -> list[Edit]:
    version, checksum = _ROW_START.unpack_from(row)
    body = memoryview(row)[_ROW_START.size :]
    if version != _ROW_VERSION or crc32(body) != checksum:
        raise ValueError
    [count] = _COUNT.unpack_from(body)
    edits, at = [], _ROW_START.size + _COUNT.size
    for _ in range(count):
        edit, at = decode_edit(row, at)
        edits.append(edit)
    if at != len(row):
        raise ValueError
    return edits


def encode_edit(edit: Edit) -> bytes:
    """Return the bytes of one edit."""
    # fmt: off
    (
        kind, write_pointer, expires_ms, commit_pointer, can_commit, changes,
        upper_bound, type_, truncated, before_ms, parent,
        at_once, timed_out, time_ms, timeout_s, sequence, owner, client, origin, principal,
    ) = edit
    # fmt: on
    flags = at_once * _AT_ONCE + timed_out * _TIMED_OUT
    stored_sequence = _NO_SEQUENCE if sequence is None else sequence
    owner_bytes = text_bytes(owner) if owner else b""
    client_bytes = text_bytes(client) if client else b""
    names = owner_bytes + client_bytes
    if origin:
        flags |= _HAS_ORIGIN
        names += _name(origin)
    if principal is not None:
        flags |= _HAS_PRINCIPAL
        names += _name(principal)
    start = (_CODEC, write_pointer, kind, expires_ms, commit_pointer, can_commit, len(changes))
    middle = (upper_bound, _TYPE_ORDINALS[type_], len(truncated))
    end = (before_ms, parent, _NO_CHECKPOINTS, flags, time_ms, timeout_s, stored_sequence)
    lengths = (len(owner_bytes), len(client_bytes))
    if not changes and not truncated:
        return _ALL.pack(*start, *middle, *end, *lengths) + names
    parts = [_TO_CHANGES.pack(*start)]
    for change in changes:
        parts += (_LENGTH.pack(len(change)), change)
    parts += (
        _TO_TRUNCATED.pack(*middle),
        struct.pack(f">{len(truncated)}q", *truncated),
        _END.pack(*end, *lengths),
        names,
    )
    return b"".join(parts)


def decode_edit(row: bytes, at: int) -> tuple[Edit, int]:
    """Return the edit that starts at `at`, and if it ends.

    Raises `ValueError`, `LookupError` or `struct.error` if there is none.
    """
    # First decode it as if it had no changes or truncated pointers; if it has some, it is longer.
    fields = _ALL.unpack_from(row, at)
    codec, pointer, kind, expires_ms, commit_pointer, can_commit, change_count, *rest = fields
    changes: tuple[bytes, ...] = ()
    truncated: tuple[int, ...] = ()
    if codec != _CODEC:
        raise ValueError
    if change_count or rest[2]:
        changes, truncated, rest, at = _lists_at(row, at + _TO_CHANGES.size, change_count)
    else:
        at += _ALL.size
    upper_bound, type_, _, before_ms, parent, _, flags, time_ms, timeout_s, sequence, *lengths = (
        rest
    )
    owner: str | None = None
    client = ""
    if lengths[0]:
        encoded, at = _bytes_at(row, at, lengths[0])
        owner = text_of(encoded)
    if lengths[1]:
        encoded, at = _bytes_at(row, at, lengths[1])
        client = text_of(encoded)
    origin: str | None = None
    if flags & _HAS_ORIGIN:
        origin, at = _name_at(row, at)
    principal: str | None = None
    if flags & _HAS_PRINCIPAL:
        principal, at = _name_at(row, at)
    edit = Edit(
        _KINDS[kind],
        pointer,
        expires_ms,
        commit_pointer,
        can_commit != 0,
        changes,
        upper_bound,
        _TYPES[type_],
        truncated,
        before_ms,
        parent,
        flags & _AT_ONCE != 0,
        flags & _TIMED_OUT != 0,
        time_ms,
        timeout_s,
        None if sequence == _NO_SEQUENCE else sequence,
        owner,
        client,
        origin,
        principal,
    )
    return edit, at


def _lists_at(
    row: bytes, at: int, change_count: int
) -> tuple[tuple[bytes, ...], tuple[int, ...], list[int], int]:
    """Return the changes at `at`, the truncated pointers, all later fields, and the end."""
    changes = []
    for _ in range(change_count):
        change, at = _bytes_at(row, at + _LENGTH.size, *_LENGTH.unpack_from(row, at))
        changes.append(change)
    middle = _TO_TRUNCATED.unpack_from(row, at)
    at += _TO_TRUNCATED.size
    count = middle[-1]
    truncated = struct.unpack_from(f">{count}q", row, at)
    at += 8 * count
    return tuple(changes), truncated, [*middle, *_END.unpack_from(row, at)], at + _END.size


def _name(text: str) -> bytes:
    encoded = text_bytes(text)
    return _NAME_LENGTH.pack(len(encoded)) + encoded


def _name_at(row: bytes, at: int) -> tuple[str, int]:
    [length] = _NAME_LENGTH.unpack_from(row, at)
    encoded, at = _bytes_at(row, at + _NAME_LENGTH.size, length)
    return text_of(encoded), at


def _bytes_at(row: bytes, start: int, length: int) -> tuple[bytes, int]:
    end = start + length
    if not start <= end <= len(row):
        raise ValueError
    return row[start:end], end
