"""Tephra's TransactionCodec: a `Transaction` as Thrift binary, byte for byte as Java writes it.

The struct alone, TBinaryProtocol, no envelope and no frame. Tolerated when decoding, as in Tephra:
absent lists are empty, an absent level is SNAPSHOT, any type other than SHORT is LONG.
Source: Tephra's transaction.thrift; golden bytes in tests/wire/.
"""

from functools import lru_cache
from typing import Any, ClassVar

from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.thrift import TPayload, TType
from thriftpy2.utils import deserialize, serialize

from tms.core.errors import InvalidRequest
from tms.core.transaction import NO_TX_IN_PROGRESS, Transaction, TransactionType, VisibilityLevel

_PROTOCOL = TCyBinaryProtocolFactory()
_FIELD_HEAD_BYTES = 3
_LIST_HEAD_BYTES = 5
_POINTER_BYTES = 8
_WIDTHS = {
    TType.BOOL: 1,
    TType.BYTE: 1,
    TType.I16: 2,
    TType.I32: 4,
    TType.I64: 8,
    TType.DOUBLE: 8,
}
_DECODED_KEPT = 64
"""A reader polls many times with one transaction, so the last decoded ones are kept."""


class _TTransaction(TPayload):
    """The struct of transaction.thrift. Field ids and types: DO NOT CHANGE, on the wire."""

    thrift_spec: ClassVar[dict[int, tuple[Any, ...]]] = {
        1: (TType.I64, "transactionId", False),
        2: (TType.I64, "readPointer", False),
        3: (TType.LIST, "invalids", TType.I64, False),
        4: (TType.LIST, "inProgress", TType.I64, False),
        5: (TType.I64, "firstShort", False),
        6: (TType.I32, "type", False),
        7: (TType.I64, "writePointer", False),
        8: (TType.LIST, "checkpointWritePointers", TType.I64, False),
        9: (TType.I32, "visibilityLevel", False),
    }
    default_spec: ClassVar[list[tuple[str, Any]]] = [
        (spec[1], None) for spec in thrift_spec.values()
    ]


def encode_transaction(transaction: Transaction) -> bytes:
    """Return the bytes Java's `TransactionCodec.encode` would."""
    record: Any = _TTransaction()
    vars(record).update(
        transactionId=transaction.transaction_id,
        readPointer=transaction.read_pointer,
        invalids=list(transaction.invalids),
        inProgress=list(transaction.in_progress),
        firstShort=transaction.first_short_in_progress,
        type=int(transaction.type),
        writePointer=transaction.write_pointer,
        checkpointWritePointers=list(transaction.checkpoint_write_pointers),
        visibilityLevel=int(transaction.visibility_level),
    )
    return bytes(serialize(record, _PROTOCOL))


@lru_cache(maxsize=_DECODED_KEPT)
def decode_transaction(raw: bytes) -> Transaction:
    """Return the transaction that `raw` encodes. Raises `InvalidRequest` (invalid_transaction)."""
    _check_lengths(raw)
    try:
        record = deserialize(_TTransaction(), raw, _PROTOCOL)
        return _transaction_of(record)
    except (InvalidRequest, KeyboardInterrupt):
        raise
    except Exception as error:  # thriftpy2 raises many kinds on malformed bytes
        raise InvalidRequest("invalid_transaction", reason=str(error)[:200]) from None


def _check_lengths(raw: bytes) -> None:
    """Refuse bytes that announce more than they hold.

    thriftpy2 takes a list's length on trust: eight bytes can keep it busy for minutes.
    """
    at = 0
    while at < len(raw) and raw[at] != TType.STOP:
        kind = raw[at]
        at += _FIELD_HEAD_BYTES
        if kind in _WIDTHS:
            at += _WIDTHS[kind]
        elif kind == TType.LIST and raw[at : at + 1] == bytes((TType.I64,)):
            length = int.from_bytes(raw[at + 1 : at + _LIST_HEAD_BYTES], signed=True)
            at += _LIST_HEAD_BYTES + _POINTER_BYTES * max(0, length)
        else:
            raise InvalidRequest("invalid_transaction", field_type=kind)
    if at >= len(raw):
        raise InvalidRequest("invalid_transaction", reason="the end is missing")


def _transaction_of(record: Any) -> Transaction:
    for field in ("transactionId", "readPointer", "writePointer"):
        if getattr(record, field) is None:
            raise InvalidRequest("invalid_transaction", missing=field)
    is_short = record.type == TransactionType.SHORT
    first_short = record.firstShort
    return Transaction(
        read_pointer=record.readPointer,
        transaction_id=record.transactionId,
        write_pointer=record.writePointer,
        # Searched by bisection, so a sender's order is not relied on.
        invalids=tuple(sorted(record.invalids or ())),
        in_progress=tuple(sorted(record.inProgress or ())),
        first_short_in_progress=NO_TX_IN_PROGRESS if first_short is None else first_short,
        type=TransactionType.SHORT if is_short else TransactionType.LONG,
        checkpoint_write_pointers=tuple(record.checkpointWritePointers or ()),
        visibility_level=VisibilityLevel(record.visibilityLevel or VisibilityLevel.SNAPSHOT),
    )
