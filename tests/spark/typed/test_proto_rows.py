"""Protobuf messages as columns and back, by the same file and by later files."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tests.serdes.avro_samples import DOUBLES, FLOATS, INTS, LONGS, TEXTS
from tests.serdes.compiling import proto
from tests.spark.typed.typed_values import decoded, encoded, one, payload, proto_source
from tms.serdes.serde import Unencodable

ORDER = """
    syntax = "proto3"; package shop;
    import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
    import "google/protobuf/struct.proto";
    message Order {
      string id = 1; int32 count = 2; optional int64 weight = 3; uint32 floor = 4;
      uint64 big = 5; bool is_gift = 6; float rate = 7; double price = 8; bytes raw = 9;
      Line line = 10; repeated Line more = 11; map<string, int32> by_name = 12;
      map<int32, Line> by_number = 13; repeated Size sizes = 14;
      google.protobuf.Timestamp at = 15; google.protobuf.StringValue note = 16;
      google.protobuf.Struct what = 17; Tree tree = 18; oneof one { string a = 19; int32 b = 20; }
      message Line { string article = 1; }
    }
    message Tree { repeated Tree kids = 1; int32 n = 2; }
    enum Size { SMALL = 0; BIG = 1; }
"""
LINES = st.fixed_dictionaries({"article": TEXTS})
TREES = st.recursive(
    st.fixed_dictionaries({"n": INTS}),
    lambda kid: st.fixed_dictionaries({"kids": st.lists(kid, max_size=2), "n": INTS}),
    max_leaves=4,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "id": TEXTS,
    "count": INTS,
    "weight": LONGS,
    "floor": st.integers(0, (1 << 32) - 1),
    "big": st.integers(0, (1 << 64) - 1),
    "is_gift": st.booleans(),
    "rate": FLOATS,
    "price": DOUBLES,
    "raw": st.sampled_from(["", "AAE="]),
    "line": LINES,
    "more": st.lists(LINES, max_size=3),
    "by_name": st.dictionaries(TEXTS, INTS, max_size=3),
    "by_number": st.dictionaries(INTS, LINES, max_size=3),
    "sizes": st.lists(st.sampled_from(["SMALL", "BIG", 7]), max_size=3),
    "at": st.sampled_from(["1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"]),
    "note": TEXTS,
    "what": st.dictionaries(TEXTS, TEXTS | st.none(), max_size=2),
    "tree": TREES,
    "a": TEXTS,
}
ORDERS = st.fixed_dictionaries({}, optional=FIELDS)
SERDE, SOURCE = proto(ORDER), proto_source(ORDER)
LATER = proto_source("""
    syntax = "proto3"; package shop;
    message Order { string name = 1; string new = 40; int64 count = 2; }
""")


@settings(max_examples=scaled(100))
@given(st.lists(ORDERS, max_size=3))
def test_values_come_back_from_their_columns(values: list[Any]) -> None:
    datas = [SERDE.encode(value) for value in values]
    found = decoded(SOURCE, {1: SOURCE}, [payload(1, each) for each in datas])
    again = encoded(SOURCE, found.columns, len(datas))

    assert found.errors == [None] * len(datas)
    assert [SERDE.decode(each, 0) for each in again] == [SERDE.decode(each, 0) for each in datas]


@settings(max_examples=scaled(50))
@given(ORDERS)
def test_older_messages_are_columns_of_a_later_file_by_their_numbers(value: Any) -> None:
    found = decoded(LATER, {1: SOURCE}, [payload(1, SERDE.encode(value))])

    assert one(found) == {"name": value.get("id", ""), "new": "", "count": value.get("count", 0)}


def test_each_type_has_its_column() -> None:
    value = {"big": 1 << 63, "sizes": ["BIG", 7], "what": {"x": "y"}, "tree": {"kids": [{"n": 1}]}}
    row = one(decoded(SOURCE, {1: SOURCE}, [payload(1, SERDE.encode(value))]))

    assert row["big"] == 1 << 63
    assert row["sizes"] == ["BIG", "7"]
    assert row["what"] == '{"x": "y"}'
    assert row["tree"] == {"kids": ['{"n": 1}'], "n": 0}
    assert (row["weight"], row["note"], row["line"], row["at"], row["a"]) == (None,) * 5
    assert (row["count"], row["id"], row["more"]) == (0, "", [])


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"count": pa.array(["x"])}, "count: it is string, and int32 is expected"),
        ({"floor": pa.array([-1])}, "floor: "),
        ({"sizes": pa.array([["MIDDLE"]])}, "sizes: Size has no 'MIDDLE'"),
        ({"more": pa.array([[None]], pa.list_(pa.struct([("article", pa.string())])))}, "more: "),
        ({"what": pa.array(["no JSON"])}, "what: "),
        ({"size": pa.array([1])}, "size: the schema has no such field"),
    ],
)
def test_a_row_that_does_not_fit_is_reported_by_its_field(columns: Any, reason: str) -> None:
    with pytest.raises(Unencodable, match=reason):
        encoded(SOURCE, columns, 1)


def test_another_message_of_the_file_is_reported() -> None:
    data = SERDE.with_message("shop.Tree").encode({"n": 1})
    found = decoded(SOURCE, {1: SOURCE}, [payload(1, data), payload(1, b"\x02\x0e")])

    assert found.errors == [
        "it is a shop.Tree, but another message of the file is read",
        "its schema has no message to read at [7]",
    ]


@pytest.mark.parametrize(
    ("name", "value"), [("shop.Tree", {"n": 1}), ("shop.Order.Line", {"article": "x"})]
)
def test_any_message_of_a_file_is_read_and_written_by_its_name(name: str, value: Any) -> None:
    chosen = replace(SOURCE, message=name)
    data = SERDE.with_message(name).encode(value)
    first = SERDE.encode({"id": "x"})
    found = decoded(chosen, {1: SOURCE}, [payload(1, data), payload(1, first)])
    rows = {field: column.slice(0, 1) for field, column in found.columns.items()}

    assert found.errors[0] is None
    assert "it is a shop.Order" in str(found.errors[1])
    assert {field: column.to_pylist()[0] for field, column in rows.items()}.items() >= value.items()
    assert encoded(chosen, rows, 1) == [data]
