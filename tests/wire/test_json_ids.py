"""Ids in JSON are text in one form; numbers and other text are refused, with separate codes."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.errors import InvalidRequest
from tms.core.limits import INT64_MAX, JSON_INTEGER_MAX
from tms.core.services.messaging import RollbackRange
from tms.core.services.transactions import TransactionInfo, TransactionStatus
from tms.core.values.transaction import TransactionType
from tms.wire.json_bodies import JSON
from tms.wire.json_errors import detail_of, number_in_json
from tms.wire.json_reports import decode_info, encode_info
from tms.wire.json_transactions import decode_commit, decode_truncation

POINTERS = st.integers(1, INT64_MAX)
RANGE = {"startTimestamp": 1, "startSequenceId": 0, "endTimestamp": 1, "endSequenceId": 0}


def published(pointer: str) -> object:
    body = f'{{"messages": [], "transactionWritePointer": {pointer}}}'
    return JSON.decode_publish(body.encode(), 10).write_pointer


def tagged(pointer: str) -> object:
    return published(f'{{"long": {pointer}}}')


def rolled_back(pointer: str) -> object:
    body = f'{{"transactionWritePointer": {pointer}, "rollbackRange": {json.dumps(RANGE)}}}'
    return JSON.decode_range(body.encode()).write_pointer


def committed(pointer: str) -> object:
    stored = f'{{"namespace": "n", "topic": "t", "write_pointer": {pointer}}}'
    publish = decode_commit(f'{{"publish": [{stored}]}}'.encode()).publish
    return publish[0].write_pointer


def truncated(pointer: str) -> object:
    ids = decode_truncation(f'{{"ids": ["7", {pointer}]}}'.encode())
    assert isinstance(ids, list)
    return ids[1]


READERS = [published, tagged, rolled_back, committed, truncated]
Reader = Callable[[str], object]


def code_of(read: Reader, pointer: str) -> str:
    with pytest.raises(InvalidRequest) as refused:
        read(pointer)
    return refused.value.problem.code


@pytest.mark.parametrize("read", READERS)
@given(pointer=POINTERS)
def test_text_is_read(read: Reader, pointer: int) -> None:
    assert read(f'"{pointer}"') == pointer


NUMBERS = ["1700000000000000001", "5", "0", "-1", "1.7e18", "1.5", "1" + "0" * 30, str(2**64)]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("read", READERS)
def test_a_number_is_refused_with_advice(read: Reader, number: str) -> None:
    assert code_of(read, number) == "id_as_number"


TEXTS = ["", "0", "-1", "+1", " 1", "1 ", "12x", "0012", "1.0", "1e3", "0x1", "1_000", "٣"]
TOO_LARGE = [str(INT64_MAX + 1), str(2**64), "1" + "0" * 30, "9" * 5000]


@pytest.mark.parametrize("text", [*TEXTS, *TOO_LARGE])
@pytest.mark.parametrize("read", READERS)
def test_other_text_is_refused(read: Reader, text: str) -> None:
    code = "invalid_transaction_id" if read is truncated else "invalid_write_pointer"
    assert code_of(read, json.dumps(text)) == code


@pytest.mark.parametrize("value", ["true", "[]", '["5"]', "{}"])
@pytest.mark.parametrize("read", READERS)
def test_anything_else_is_refused(read: Reader, value: str) -> None:
    assert code_of(read, value) == "invalid_body"


@pytest.mark.parametrize("number", ["5", "1.7e18"])
def test_a_poll_by_an_id_is_told_where_that_stands(number: str) -> None:
    with pytest.raises(InvalidRequest, match="transaction_id=") as refused:
        JSON.decode_poll(f'{{"transaction": {number}}}'.encode())
    assert refused.value.problem.code == "id_as_number"


@given(POINTERS)
def test_a_range_survives_a_program_that_rounds_numbers(pointer: int) -> None:
    """Each number becomes a double, as in JavaScript."""
    asked = RollbackRange(pointer, 1_700_000_000_000, 0, 1_700_000_000_001, 65_535)
    rounded = json.loads(JSON.encode_range(asked), parse_int=lambda digits: int(float(digits)))

    assert JSON.decode_range(json.dumps(rounded).encode()) == asked


@given(POINTERS, st.lists(POINTERS, max_size=3))
def test_what_is_told_of_a_transaction_survives_it_too(first: int, others: list[int]) -> None:
    info = TransactionInfo(
        transaction_id=first,
        status=TransactionStatus.INVALID,
        type=TransactionType.LONG,
        write_pointers=(first, *others),
        started_ms=first // 1_000_000,
        expires_ms=None,
        owner="o",
        sequence=JSON_INTEGER_MAX,
    )
    told = encode_info(info)
    rounded = json.loads(told, parse_int=lambda digits: int(float(digits)))

    assert decode_info(json.dumps(rounded).encode()) == (info, None)


@given(st.sampled_from(["transaction_id", "other_transaction_id", "write_pointer"]), POINTERS)
def test_an_id_in_the_detail_of_an_error_is_text_for_json_alone(name: str, pointer: int) -> None:
    told = number_in_json(name, pointer)

    assert told == str(pointer)
    assert detail_of({name: told, "reason": "12"}) == {name: pointer, "reason": "12"}


@given(st.integers())
def test_other_numbers_of_a_detail_are_text_if_they_might_be_rounded(number: int) -> None:
    told = number_in_json("limit", number)

    assert str(told) == str(number)
    assert isinstance(told, int) == (abs(number) <= JSON_INTEGER_MAX)
    assert detail_of({"limit": told}) == {"limit": told}


@pytest.mark.parametrize("told", ["x", "", None, 5, "٣"])
def test_an_id_in_a_detail_that_is_none_is_left_as_it_is(told: object) -> None:
    assert detail_of({"transaction_id": told}) == {"transaction_id": told}
