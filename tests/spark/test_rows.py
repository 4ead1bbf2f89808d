"""Conversion of rows between the server's form and Spark's, and Arrow streams in pieces."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.framed_messages import CONTENTS
from tms.arrow.published import decode_bodies
from tms.core.errors import InvalidRequest, OutcomeUnknown
from tms.core.values.frame import bodies_of
from tms.core.values.message import Message
from tms.spark import rows
from tms.spark.arrow_stream import batches_of, stream_of
from tms.spark.rows import (
    DEFAULT_COLUMNS,
    TYPES,
    by_topic,
    check_written,
    hexadecimal,
    requests_of,
    spark_rows,
)

ids = st.binary(min_size=20, max_size=20)


@given(st.lists(ids), st.integers(0, 3))
def test_ids_are_written_in_hexadecimal(raw: list[bytes], skipped: int) -> None:
    given_ids = pa.array([b"\xff" * 20] * skipped + raw, pa.binary(20)).slice(skipped)

    assert [one.hex() for one in raw] == hexadecimal(given_ids).to_pylist()


@given(
    st.lists(st.text(max_size=20)),
    st.sampled_from([pa.binary(), pa.string(), pa.large_binary(), pa.large_string()]),
    st.integers(0, 3),
    st.integers(1, 60),
    st.integers(1, 5),
)
def test_requests_have_all_payloads_in_order_and_are_bounded(
    texts: list[str], kind: pa.DataType, skipped: int, bytes_max: int, rows_max: int
) -> None:
    payloads = [text.encode() for text in texts]
    column = pa.array(["skipped"] * skipped + texts, kind).slice(skipped)
    rows_of_it = pa.record_batch({"payload": column})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "STORE_BYTES_MAX", bytes_max)
        patch.setattr(rows, "STORE_ROWS_MAX", rows_max)
        parts = [part.column("payload").to_pylist() for part in requests_of(rows_of_it)]

    assert payloads == [payload for part in parts for payload in part]
    assert all(1 <= len(part) <= rows_max for part in parts)
    assert all(len(part) == 1 or sum(map(len, part)) <= bytes_max for part in parts)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=5)), min_size=1))
def test_rows_go_to_their_topics_in_order(drawn: list[tuple[str, str]]) -> None:
    topics, payloads = zip(*drawn, strict=True)
    batch = pa.record_batch({"topic": pa.array(topics), "value": pa.array(payloads)})
    found = {
        topic: part.column("payload").to_pylist() for topic, part in by_topic(batch, "value", None)
    }

    assert found == {
        topic: [payload for one, payload in drawn if one == topic] for topic in set(topics)
    }


@pytest.mark.parametrize(
    ("columns", "topic", "said"),
    [
        (["topic"], None, "payload, or value"),
        (["payload", "value"], "t", "payload, or value"),
        (["payload"], None, "a column topic"),
        (["payload", "partition"], "t", "partition"),
        (["key"], "t", "payload, or value"),
    ],
)
def test_columns_that_cannot_be_written(columns: list[str], topic: str | None, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_written(columns, topic)

    assert caught.value.problem.code == "invalid_row"
    assert said in str(caught.value)


def test_what_was_read_can_be_written() -> None:
    assert check_written(list(DEFAULT_COLUMNS), None) == "payload"
    assert check_written([name for name in TYPES if name != "payload"], None) == "value"


LIST = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@given(
    st.lists(CONTENTS.filter(lambda m: not m.is_tombstone or m.key is not None)),
    st.integers(1, 300),
    st.sampled_from([rows.HEADERS, LIST]),
)
def test_requests_have_keys_and_headers_and_are_bounded(
    messages: list[Message], bytes_max: int, kind: pa.DataType
) -> None:
    pairs = [list(message.headers.items()) or None for message in messages]
    headers = pa.array(pairs, rows.HEADERS)
    if kind is LIST:
        structs = [[{"key": n, "value": v} for n, v in row or ()] for row in pairs]
        headers = pa.array(structs, LIST)
    batch = pa.record_batch(
        {
            "value": pa.array(
                [None if m.is_tombstone else m.payload for m in messages], pa.binary()
            ),
            "key": pa.array([message.key for message in messages], pa.large_binary()),
            "headers": headers,
        }
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "STORE_BYTES_MAX", bytes_max)
        [(_, whole)] = by_topic(batch, "value", "t")
        parts = [decode_bodies(stream_of(part), 1000) for part in requests_of(whole)]

    assert [body for part in parts for body in part] == bodies_of([m.body() for m in messages])
    assert all(
        len(part) == 1 or sum(map(len, part)) <= bytes_max + 20 * len(part) for part in parts
    )


NAMES = st.sampled_from(["a", "b", None])
PAIRS = st.lists(st.tuples(NAMES, st.sampled_from([b"1", None])), max_size=3) | st.none()


@given(st.lists(PAIRS, max_size=6), st.integers(0, 2), st.sampled_from([pa.binary(), pa.string()]))
def test_the_first_row_with_wrong_headers_is_named(
    headers: list[list[tuple[str | None, bytes | None]] | None], skipped: int, kind: pa.DataType
) -> None:
    structs = [
        None if row is None else [{"key": name, "value": value} for name, value in row]
        for row in headers
    ]
    batch = pa.record_batch(
        {
            "payload": pa.array([b"p"] * len(headers), pa.binary()),
            "key": pa.array([b"%d" % row for row in range(len(headers))], pa.binary()),
            "headers": pa.array(
                structs, pa.list_(pa.struct([("key", pa.string()), ("value", kind)]))
            ),
        }
    ).slice(skipped)
    bad = [
        row
        for row, pairs in enumerate(headers)
        if row >= skipped
        and any(None in pair for pair in pairs or ())
        | (len({name for name, _ in pairs or ()}) < len(pairs or ()))
    ]
    if not bad:
        assert sum(part.num_rows for _, part in by_topic(batch, "payload", "t")) == batch.num_rows
        return
    with pytest.raises(InvalidRequest) as caught:
        list(by_topic(batch, "payload", "t"))

    assert caught.value.problem.code == "invalid_body"
    assert caught.value.detail["key"] == repr(b"%d" % bad[0])
    assert caught.value.detail["row"] == bad[0] - skipped
    assert "or occurs twice" in str(caught.value)


def test_wrong_headers_of_a_map_are_named_too() -> None:
    headers = pa.array([[("a", b"1")], [("b", b"1"), ("a", None)]], rows.HEADERS)
    batch = pa.record_batch({"value": pa.array([b"p", b"q" * 999]), "headers": headers})
    with pytest.raises(InvalidRequest, match="header=a, row=1, payload=b'qqq") as caught:
        list(by_topic(batch, "value", "t"))

    assert len(str(caught.value)) < 400


def test_a_row_needs_a_payload_or_a_key() -> None:
    nothing = pa.array([None, b"p"], pa.binary())
    batch = pa.record_batch({"payload": nothing, "key": nothing})
    with pytest.raises(InvalidRequest, match="rows_with_null=1"):
        list(by_topic(batch, "payload", "t"))
    with pytest.raises(InvalidRequest, match="column=key"):
        list(by_topic(pa.record_batch({"payload": [b"p"], "key": [1]}), "payload", "t"))


@pytest.mark.parametrize("column", ["payload", "topic"])
def test_a_row_without_payload_or_topic_is_refused(column: str) -> None:
    batch = pa.record_batch({"topic": pa.array(["a"]), "payload": pa.array([b"x"])})
    nulls = pa.array([None], batch.schema.field(column).type)
    batch = batch.set_column(batch.schema.names.index(column), column, nulls)

    with pytest.raises(InvalidRequest, match="rows_with_null=1"):
        list(by_topic(batch, "payload", None))


def test_rows_have_the_columns_that_are_asked_for() -> None:
    served = pa.record_batch(
        {
            "message_id": pa.array([b"\x00" * 19 + b"\x01"], pa.binary(20)),
            "timestamp": pa.array([5], pa.timestamp("ms", "UTC")),
            "seq": pa.array([7], pa.int32()),
            "payload": pa.array([b"p"]),
            "key": pa.array([b"k"]),
            "headers": pa.array([[("h", b"v")]], rows.HEADERS),
            "payload_timestamp": pa.array([None], pa.timestamp("ms", "UTC")),
            "payload_seq": pa.array([None], pa.int32()),
        }
    )
    schema = pa.schema([(name, TYPES[name]) for name in reversed(TYPES)])
    [row] = spark_rows(served, "orders", schema).to_pylist()

    assert list(row) == list(reversed(TYPES))
    assert (row["topic"], row["seq"], row["payload"]) == ("orders", 7, b"p")
    assert (row["value"], row["key"], row["headers"]) == (b"p", b"k", [("h", b"v")])
    assert row["message_id"] == "00" * 19 + "01"
    assert row["timestamp"].timestamp() == 0.005


@given(st.lists(st.binary(max_size=30), min_size=1), st.integers(1, 40))
def test_a_stream_is_read_in_whatever_parts_it_comes(payloads: list[bytes], size: int) -> None:
    stream = stream_of(pa.record_batch({"payload": pa.array(payloads, pa.binary())}))
    parts = iter([stream[at : at + size] for at in range(0, len(stream), size)])
    [batch] = batches_of(lambda: next(parts, b""))

    assert batch.column("payload").to_pylist() == payloads


@given(st.integers(0, 1000))
def test_a_stream_that_breaks_off_in_a_batch_is_an_outcome_unknown(cut: int) -> None:
    stream = stream_of(pa.record_batch({"payload": pa.array([b"x" * 100] * 50, pa.binary())}))
    parts = iter([stream[: 200 + cut]])

    with pytest.raises(OutcomeUnknown):
        list(batches_of(lambda: next(parts, b"")))


def test_an_error_while_a_stream_arrives_is_raised_as_it_is() -> None:
    def fail() -> bytes:
        raise OutcomeUnknown(reason="cut")

    with pytest.raises(OutcomeUnknown, match="cut"):
        list(batches_of(fail))
