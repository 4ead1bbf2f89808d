"""Avro's primitives, compared with the library's, and fed with hostile bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.avro_library import written
from tms.core.errors import InvalidRequest, TooLarge
from tms.wire.avro import AvroReader, bytes_array, number, sized
from tms.wire.bodies import last_of

INT64 = st.integers(-(2**63), 2**63 - 1)
MANY = 1000


@given(INT64)
def test_numbers_have_the_librarys_bytes(value: int) -> None:
    assert number(value) == written("long", value)
    reader = AvroReader(number(value))
    assert reader.number() == value
    reader.end()


@given(st.binary(max_size=300), st.text(max_size=300))
def test_bytes_and_strings_have_the_librarys_bytes(raw: bytes, string: str) -> None:
    assert sized(raw) == written("bytes", raw)
    assert sized(string.encode()) == written("string", string)
    assert AvroReader(sized(raw)).sized() == raw
    assert AvroReader(sized(string.encode())).text() == string


LENGTHS = st.sampled_from((0, 1, 63, 64, 8191, 8192, 20_000))


@given(st.lists(st.binary(max_size=100) | LENGTHS.map(bytes), max_size=20))
def test_arrays_have_the_librarys_bytes(values: list[bytes]) -> None:
    encoded = bytes_array(values)

    assert encoded == written({"type": "array", "items": "bytes"}, values)
    reader = AvroReader(encoded)
    assert last_of(reader.steps(MANY)) == values
    reader.end()


@given(
    st.lists(st.tuples(LENGTHS, st.integers(1, 40)), max_size=3),
    st.integers(0, 200),
)
def test_arrays_of_items_of_one_length(runs: list[tuple[int, int]], cut: int) -> None:
    values = [bytes((number % 251,)) * length for length, count in runs for number in range(count)]
    encoded = bytes_array(values)
    reader = AvroReader(encoded)
    assert last_of(reader.steps(MANY)) == values
    reader.end()

    if 0 < cut < len(encoded):
        with pytest.raises(InvalidRequest):
            last_of(AvroReader(encoded[:-cut]).steps(MANY))


def test_blocks_with_their_size_are_read() -> None:
    block = sized(b"a") + sized(b"b")
    body = number(-2) + number(len(block)) + block + number(1) + sized(b"c") + b"\x00"

    assert last_of(AvroReader(body).steps(MANY)) == [b"a", b"b", b"c"]
    reader = AvroReader(body)
    assert [(at, reader.sized()) for at in reader.items()] == [(0, b"a"), (1, b"b"), (2, b"c")]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(number(3) + bytes(3) + b"\x00", id="in one block"),
        pytest.param((number(1) + b"\x00") * 3 + b"\x00", id="in several"),
        pytest.param(number(-3) + number(3) + bytes(3) + b"\x00", id="in one with its size"),
        pytest.param(number(2**62), id="announced"),
    ],
)
def test_more_items_than_there_may_be_are_refused_unread(body: bytes) -> None:
    with pytest.raises(TooLarge) as refused:
        last_of(AvroReader(body).steps(2))
    assert refused.value.problem.code == "too_many_messages"
    assert refused.value.detail["request_messages_max"] == 2
    reader = AvroReader(body)
    with pytest.raises(TooLarge):
        [reader.sized() for _ in reader.items(2)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        number(1),
        number(1) + b"\x02",
        number(1) + b"\x01",
        number(1) + b"\x80",
        number(1) + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        number(1) + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        number(2) + b"\x00",
        b"\xff" * 64,
    ],
)
def test_what_is_not_an_array_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        last_of(AvroReader(body).steps(MANY))


def test_a_number_without_an_end_is_refused_at_its_eleventh_byte() -> None:
    """It reads no further: a number of millions of bytes would keep the server busy for days."""
    with pytest.raises(InvalidRequest, match="over 10 bytes"):
        AvroReader(b"\xff" * 10_000_000).number()


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        AvroReader(sized(b"\xff")).text()
