"""Tephra's codec: golden bytes of Java, and what Thrift tolerates."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.test_transaction import transaction_of
from tms.core.errors import InvalidRequest
from tms.core.transaction import Transaction, TransactionType, VisibilityLevel
from tms.wire.transaction_codec import decode_transaction, encode_transaction

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
INT64 = st.integers(-(2**63), 2**63 - 1)
POINTERS = st.lists(INT64, max_size=5, unique=True).map(lambda numbers: tuple(sorted(numbers)))
TRANSACTIONS = st.builds(
    Transaction,
    read_pointer=INT64,
    transaction_id=INT64,
    write_pointer=INT64,
    invalids=POINTERS,
    in_progress=POINTERS,
    first_short_in_progress=INT64,
    type=st.sampled_from(TransactionType),
    checkpoint_write_pointers=POINTERS,
    visibility_level=st.sampled_from(VisibilityLevel),
)
IDS = b"\x0a\x00\x01" + bytes(7) + b"\x02" + b"\x0a\x00\x02" + bytes(7) + b"\x01"
WRITE_POINTER = b"\x0a\x00\x07" + bytes(7) + b"\x02"
STOP = b"\x00"


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
