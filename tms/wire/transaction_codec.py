"""Tephra's TransactionCodec: a `Transaction` as Thrift binary, byte for byte as Java writes it.

    transaction := field* 0x00
    field := type (1 byte), id int16, value; big-endian
    list := 0x0a (int64), count int32, int64*

The struct alone, TBinaryProtocol, no envelope and no frame. Tolerated when decoding, as in Tephra:
absent lists are empty, an absent level is SNAPSHOT, any type other than SHORT is LONG, and unknown
fields of fixed width are passed over.

A server that has run for years has ten thousand invalid transactions, and a transaction 88 KB. So
whole lists are packed at once, the bytes of the last list are kept for the next transaction with
the same list, and if a reader polls with the same bytes again they are not decoded again. Source:
Tephra's transaction.thrift; golden bytes in tests/wire/.
"""

import struct
import sys
from array import array
from collections.abc import Sequence
from struct import Struct
from threading import Lock

from tms.core.errors import InvalidRequest
from tms.core.values.transaction import (
    NO_TX_IN_PROGRESS,
    Transaction,
    TransactionType,
    VisibilityLevel,
)

# Ids of transaction.thrift, and types of TBinaryProtocol. DO NOT CHANGE: on the wire.
_TRANSACTION_ID, _READ_POINTER, _INVALIDS, _IN_PROGRESS, _FIRST_SHORT = 1, 2, 3, 4, 5
_TYPE, _WRITE_POINTER, _CHECKPOINTS, _LEVEL = 6, 7, 8, 9
_STOP, _I32, _I64, _LIST = 0, 8, 10, 15
_WIDTHS = {2: 1, 3: 1, 4: 8, 6: 2, _I32: 4, _I64: 8}
"""Bytes of a value by type: bool, byte, double, int16, int32, int64."""
_KINDS = {
    _TRANSACTION_ID: _I64,
    _READ_POINTER: _I64,
    _INVALIDS: _LIST,
    _IN_PROGRESS: _LIST,
    _FIRST_SHORT: _I64,
    _TYPE: _I32,
    _WRITE_POINTER: _I64,
    _CHECKPOINTS: _LIST,
    _LEVEL: _I32,
}

_HEAD = Struct(">Bh")
_LIST_HEAD = Struct(">Bi")
_IDS = Struct(">BhqBhq")
_AFTER_LISTS = Struct(">BhqBhiBhq")
_LAST = Struct(">BhiB")
_POINTER_BYTES = 8
_SWAPPED = sys.byteorder == "little"

_KEY_BYTES = 22
"""The first two fields as Java writes them: the id and the read pointer."""
_LIST_KEPT_MIN = 64
_LISTS_KEPT = 8
_DECODED_BYTES_KEPT = 4 * 1024 * 1024
"""The most bytes of encoded transactions; in memory they are five times as large."""

_lists: dict[int, tuple[Sequence[int], bytes]] = {}


def encode_transaction(transaction: Transaction) -> bytes:
    """Return the bytes that Java's `TransactionCodec.encode` returns."""
    return b"".join(
        (
            _IDS.pack(
                _I64,
                _TRANSACTION_ID,
                transaction.transaction_id,
                _I64,
                _READ_POINTER,
                transaction.read_pointer,
            ),
            _HEAD.pack(_LIST, _INVALIDS),
            _encode_list(transaction.invalids),
            _HEAD.pack(_LIST, _IN_PROGRESS),
            _encode_list(transaction.in_progress),
            _AFTER_LISTS.pack(
                _I64,
                _FIRST_SHORT,
                transaction.first_short_in_progress,
                _I32,
                _TYPE,
                transaction.type,
                _I64,
                _WRITE_POINTER,
                transaction.write_pointer,
            ),
            _HEAD.pack(_LIST, _CHECKPOINTS),
            _encode_list(transaction.checkpoint_write_pointers),
            _LAST.pack(_I32, _LEVEL, transaction.visibility_level, _STOP),
        )
    )


def _encode_list(pointers: Sequence[int]) -> bytes:
    """Return a list's bytes: the cached ones for the same tuple or array.

    An array in a snapshot never changes (`tms.transactions.invalids`).
    """
    is_kept = len(pointers) >= _LIST_KEPT_MIN and isinstance(pointers, (tuple, array))
    if is_kept:
        kept = _lists.get(id(pointers))
        if kept is not None and kept[0] is pointers:
            return kept[1]
    numbers = array("q", pointers)
    if _SWAPPED:
        numbers.byteswap()
    encoded = _LIST_HEAD.pack(_I64, len(pointers)) + numbers.tobytes()
    if is_kept:
        if len(_lists) >= _LISTS_KEPT:
            _lists.clear()
        # Keeping the list ensures that no other list gets its identity.
        _lists[id(pointers)] = (pointers, encoded)
    return encoded


class _Decoded:
    """The transactions that were decoded last, by their bytes.

    They are found by the first bytes and the length, and then compared, in a twentieth of the time
    of hashing all bytes.
    """

    def __init__(self) -> None:
        self._by_key: dict[tuple[bytes, int], tuple[bytes, Transaction]] = {}
        self._bytes = 0
        self._lock = Lock()

    def get(self, raw: bytes) -> Transaction | None:
        """Return the transaction with exactly these bytes, if it is kept."""
        kept = self._by_key.get((raw[:_KEY_BYTES], len(raw)))
        return kept[1] if kept is not None and kept[0] == raw else None

    def keep(self, raw: bytes, transaction: Transaction) -> None:
        """Keep a transaction, and drop the oldest if they have too many bytes."""
        if len(raw) > _DECODED_BYTES_KEPT:
            return
        key = (raw[:_KEY_BYTES], len(raw))
        with self._lock:
            if self._by_key.pop(key, None) is None:
                self._bytes += len(raw)
            self._by_key[key] = (raw, transaction)
            while self._bytes > _DECODED_BYTES_KEPT:
                oldest = next(iter(self._by_key))
                del self._by_key[oldest]
                self._bytes -= oldest[1]


_decoded = _Decoded()


def decode_transaction(raw: bytes) -> Transaction:
    """Return the transaction that `raw` encodes. Raises `InvalidRequest` (invalid_transaction)."""
    transaction = _decoded.get(raw)
    if transaction is None:
        try:
            transaction = _transaction_of(_fields(raw))
        except (struct.error, IndexError):
            raise InvalidRequest("invalid_transaction", reason="the end is missing") from None
        _decoded.keep(raw, transaction)
    return transaction


def _fields(raw: bytes) -> dict[int, int | Sequence[int]]:
    """Return the known fields of a struct by id; the last one if an id occurs twice."""
    fields: dict[int, int | Sequence[int]] = {}
    at = 0
    while raw[at] != _STOP:
        kind, field = _HEAD.unpack_from(raw, at)
        at += _HEAD.size
        value: int | Sequence[int]
        if kind == _LIST:
            value, at = _read_list(raw, at)
        elif kind in _WIDTHS:
            end = at + _WIDTHS[kind]
            value, at = int.from_bytes(raw[at:end], signed=True), end
        else:
            raise InvalidRequest("invalid_transaction", field_type=kind)
        if _KINDS.get(field) == kind:
            fields[field] = value
    return fields


def _read_list(raw: bytes, at: int) -> tuple[Sequence[int], int]:
    """Return a list of int64 and where it ends. A negative count means an empty list."""
    kind, count = _LIST_HEAD.unpack_from(raw, at)
    if kind != _I64:
        raise InvalidRequest("invalid_transaction", item_type=kind)
    start = at + _LIST_HEAD.size
    end = start + _POINTER_BYTES * max(0, count)
    if end > len(raw):
        raise InvalidRequest("invalid_transaction", reason="the end is missing")
    numbers = array("q")
    numbers.frombytes(raw[start:end])
    if _SWAPPED:
        numbers.byteswap()
    return numbers, end


def _transaction_of(fields: dict[int, int | Sequence[int]]) -> Transaction:
    numbers = {field: value for field, value in fields.items() if isinstance(value, int)}
    lists = {field: value for field, value in fields.items() if not isinstance(value, int)}
    for field in (_TRANSACTION_ID, _READ_POINTER, _WRITE_POINTER):
        if field not in numbers:
            raise InvalidRequest("invalid_transaction", missing_field=field)
    level = numbers.get(_LEVEL) or VisibilityLevel.SNAPSHOT
    try:
        visibility_level = VisibilityLevel(level)
    except ValueError:
        raise InvalidRequest("invalid_transaction", visibility_level=level) from None
    is_short = numbers.get(_TYPE) == TransactionType.SHORT
    return Transaction(
        read_pointer=numbers[_READ_POINTER],
        transaction_id=numbers[_TRANSACTION_ID],
        write_pointer=numbers[_WRITE_POINTER],
        # The lists are searched by bisection, so the sender's order is not trusted.
        invalids=tuple(sorted(lists.get(_INVALIDS, ()))),
        in_progress=tuple(sorted(lists.get(_IN_PROGRESS, ()))),
        first_short_in_progress=numbers.get(_FIRST_SHORT, NO_TX_IN_PROGRESS),
        type=TransactionType.SHORT if is_short else TransactionType.LONG,
        checkpoint_write_pointers=tuple(sorted(lists.get(_CHECKPOINTS, ()))),
        visibility_level=visibility_level,
    )
