"""Tephra's codec: golden bytes of Java, and what Thrift tolerates."""

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.protocol import TCyBinaryProtocolFactory
from thriftpy2.thrift import TPayload, TType
from thriftpy2.utils import deserialize

from tests.core.transactions import transaction_of
from tests.wire.transactions import TRANSACTIONS
from tms.core.errors import InvalidRequest
from tms.core.values.transaction import (
    NO_TX_IN_PROGRESS,
    Transaction,
    TransactionType,
    VisibilityLevel,
)
from tms.wire import transaction_codec
from tms.wire.transaction_codec import decode_transaction, encode_transaction

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
IDS = b"\x0a\x00\x01" + bytes(7) + b"\x02" + b"\x0a\x00\x02" + bytes(7) + b"\x01"
WRITE_POINTER = b"\x0a\x00\x07" + bytes(7) + b"\x02"
STOP = b"\x00"
LONG_LISTS = Transaction(
    read_pointer=10**9,
    transaction_id=10**9 + 1,
    write_pointer=10**9 + 1,
    invalids=tuple(range(10_000)),
    in_progress=tuple(range(10**8, 10**8 + 100)),
)


@pytest.mark.parametrize("golden", GOLDEN["transactions"], ids=lambda g: g["name"])
def test_the_bytes_are_javas(golden: dict[str, Any]) -> None:
    raw = bytes.fromhex(golden["encoded"])

    assert decode_transaction(raw) == transaction_of(golden)
    assert encode_transaction(transaction_of(golden)) == raw


@given(TRANSACTIONS)
def test_a_transaction_survives_its_bytes(transaction: Transaction) -> None:
    assert decode_transaction(encode_transaction(transaction)) == transaction


def test_absent_lists_and_level_have_their_defaults_and_an_absent_type_is_long() -> None:
    """Facts: absent lists → empty; absent visibilityLevel → SNAPSHOT; absent type → LONG."""
    transaction = decode_transaction(IDS + WRITE_POINTER + STOP)

    assert transaction.invalids == transaction.in_progress == ()
    assert transaction.visibility_level is VisibilityLevel.SNAPSHOT
    assert transaction.type is TransactionType.LONG


def test_unknown_fields_are_passed_over() -> None:
    unknown = b"\x0a\x00\x63" + bytes(8)

    assert decode_transaction(IDS + unknown + WRITE_POINTER + STOP).write_pointer == 2


@pytest.mark.parametrize("golden", GOLDEN["transactions"][-1:], ids=lambda g: g["name"])
def test_truncated_bytes_are_refused_or_whole(golden: dict[str, Any]) -> None:
    raw = bytes.fromhex(golden["encoded"])
    for length in range(len(raw)):
        with pytest.raises(InvalidRequest) as refused:
            decode_transaction(raw[:length])
        assert refused.value.problem.code == "invalid_transaction"


@given(st.binary(max_size=60))
def test_any_bytes_give_a_transaction_or_an_invalid_request(raw: bytes) -> None:
    try:
        decode_transaction(raw)
    except InvalidRequest as error:
        assert error.problem.code == "invalid_transaction"


def test_a_huge_list_is_refused_before_it_is_made() -> None:
    huge = IDS + b"\x0f\x00\x03\x0a\x7f\xff\xff\xff"
    with pytest.raises(InvalidRequest):
        decode_transaction(huge)


class _Struct(TPayload):
    """The struct of transaction.thrift, defined for the library that the codec is compared with."""

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
    default_spec: ClassVar[list[tuple[str, Any]]] = [(s[1], None) for s in thrift_spec.values()]


def read_by_library(raw: bytes) -> Transaction:
    record: Any = deserialize(_Struct(), raw, TCyBinaryProtocolFactory())
    first_short = record.firstShort
    return Transaction(
        read_pointer=record.readPointer,
        transaction_id=record.transactionId,
        write_pointer=record.writePointer,
        invalids=tuple(sorted(record.invalids or ())),
        in_progress=tuple(sorted(record.inProgress or ())),
        first_short_in_progress=NO_TX_IN_PROGRESS if first_short is None else first_short,
        type=TransactionType.SHORT if record.type == 1 else TransactionType.LONG,
        checkpoint_write_pointers=tuple(sorted(record.checkpointWritePointers or ())),
        visibility_level=VisibilityLevel(record.visibilityLevel or 1),
    )


@given(TRANSACTIONS)
def test_the_library_reads_the_same(transaction: Transaction) -> None:
    assert read_by_library(encode_transaction(transaction)) == transaction


@given(TRANSACTIONS, st.data())
def test_damaged_bytes_are_refused_or_mean_what_the_library_says(
    transaction: Transaction, data: st.DataObject
) -> None:
    raw = bytearray(encode_transaction(transaction))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    try:
        found = decode_transaction(bytes(raw))
    except InvalidRequest as error:
        assert error.problem.code == "invalid_transaction"
    else:
        assert found == read_by_library(bytes(raw))


def test_the_same_bytes_are_decoded_once() -> None:
    raw = encode_transaction(LONG_LISTS)

    assert decode_transaction(bytes(bytearray(raw))) is decode_transaction(raw)


def test_bytes_that_begin_alike_are_distinguished() -> None:
    other = LONG_LISTS._replace(invalids=(*LONG_LISTS.invalids[:-1], 10**9))
    for transaction in (LONG_LISTS, other, LONG_LISTS):
        assert decode_transaction(encode_transaction(transaction)) == transaction


def test_what_is_kept_of_decoded_transactions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = transaction_codec._Decoded()
    monkeypatch.setattr(transaction_codec, "_decoded", decoded)
    size = len(encode_transaction(LONG_LISTS))
    monkeypatch.setattr(transaction_codec, "_DECODED_BYTES_KEPT", 3 * size)
    for number in range(10):
        transaction = LONG_LISTS._replace(transaction_id=number)
        assert decode_transaction(encode_transaction(transaction)) == transaction
        assert decode_transaction(encode_transaction(transaction)) == transaction
        assert decoded._bytes == sum(len(raw) for raw, _ in decoded._by_key.values()) <= 3 * size
    assert len(decoded._by_key) == 3
    too_large = LONG_LISTS._replace(invalids=tuple(range(40_000)))
    decode_transaction(encode_transaction(too_large))
    assert len(decoded._by_key) == 3


def test_long_lists_are_encoded_as_they_are_each_time() -> None:
    """The codec caches the bytes of a list by its identity, so another list is encoded again."""
    for last in range(100):
        invalids = (*range(200), 200 + last)
        transaction = LONG_LISTS._replace(invalids=invalids)
        for _ in range(2):
            assert read_by_library(encode_transaction(transaction)) == transaction
    changing = list(range(200))
    transaction = LONG_LISTS._replace(invalids=changing)
    encode_transaction(transaction)
    changing.append(200)
    assert decode_transaction(encode_transaction(transaction)).invalids == tuple(changing)


@pytest.mark.parametrize("level", [4, -1])
def test_an_unknown_level_is_refused(level: int) -> None:
    field = b"\x08\x00\x09" + level.to_bytes(4, signed=True)
    with pytest.raises(InvalidRequest):
        decode_transaction(IDS + WRITE_POINTER + field + STOP)


def test_a_list_of_negative_length_is_empty() -> None:
    """Thrift's own readers accept it too."""
    negative = b"\x0f\x00\x03\x0a\xff\xff\xff\xff"

    assert decode_transaction(IDS + negative + WRITE_POINTER + STOP).invalids == ()
