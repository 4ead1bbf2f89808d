"""Avro's values: random schemas, their JSON, and the errors for values that do not fit."""

import datetime as dt
import io
import json
import math
from array import array
from typing import Any

import pytest
from avro.io import BinaryDecoder, DatumReader
from avro.schema import parse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tests.serdes.avro_samples import (
    DATE,
    INTS,
    LOGICAL,
    LONGS,
    TEXTS,
    TREE,
    schemas_with_value,
    trees,
)
from tests.serdes.compiling import avro, record
from tms.core.values.schema_types import AVRO
from tms.serdes.compiling import compiled
from tms.serdes.serde import SchemaSource, Undecodable, Unencodable, UnusableSchema

few = settings(max_examples=scaled(150))
Drawn = tuple[Any, Any]
ORDER = record(
    "Order",
    id="int",
    name="string",
    note=["null", "string"],
    home=record("Home", street="string", number="int"),
    tags={"type": "array", "items": "string"},
    sums={"type": "map", "values": "long"},
)
GIVEN = {
    "id": 1,
    "name": "Ada",
    "note": None,
    "home": {"street": "High", "number": 2},
    "tags": ["a"],
    "sums": {"a": 1},
}


@few
@given(schemas_with_value())
def test_what_is_encoded_is_decoded_and_reported_in_json_and_back(drawn: Drawn) -> None:
    schema, value = drawn
    serde = avro(schema)
    encoded = serde.encode(value)
    assert serde.decode(encoded, 0) == value
    assert serde.decode(b"start" + encoded, 5) == value

    told = serde.to_json(value)
    assert serde.encode(serde.from_json(told)) == encoded
    assert serde.to_json(serde.from_json(told)) == told


@few
@given(schemas_with_value(logical=False))
def test_avros_own_library_reads_what_is_encoded(drawn: Drawn) -> None:
    schema, value = drawn
    text = json.dumps(schema)
    decoder = BinaryDecoder(io.BytesIO(avro(schema).encode(value)))

    assert DatumReader(parse(text), parse(text)).read(decoder) == value


@settings(max_examples=scaled(50))
@given(trees)
def test_values_within_themselves_are_encoded_and_reported(tree: Any) -> None:
    serde = avro(TREE)
    encoded = serde.encode(tree)

    assert serde.decode(encoded, 0) == tree
    assert serde.from_json(serde.to_json(tree)) == tree


@few
@given(schemas_with_value())
def test_all_of_a_schema_that_contains_itself_is_checked_before_it_is_read(drawn: Drawn) -> None:
    schema, value = drawn
    itself = ["null", "Itself"]
    serde = avro(record("Itself", before=itself, value=schema, after=itself))
    inner = {"before": None, "value": value, "after": None}
    outer = {"before": inner, "value": value, "after": inner}
    encoded = serde.encode(outer)
    assert serde.decode(encoded, 0) == outer
    for end in {len(encoded) - 1, len(encoded) // 2}:
        with pytest.raises(Undecodable):
            serde.decode(encoded[:end], 0)


@pytest.mark.parametrize(("levels", "fits"), [(179, True), (180, False)])
def test_a_value_may_have_this_many_levels(levels: int, fits: bool) -> None:  # noqa: FBT001
    serde = avro(record("N", next=["null", "N"]))
    value: Any = None
    for _ in range(levels):
        value = {"next": value}
    data = b"\x02" * (levels - 1) + b"\x00"
    if fits:
        assert serde.encode(value) == data
        assert serde.decode(data, 0) == value
        return
    with pytest.raises(Unencodable, match="too deeply"):
        serde.encode(value)
    with pytest.raises(Undecodable, match="too deeply"):
        serde.decode(data, 0)


@few
@given(schemas_with_value())
def test_bytes_left_behind_a_value_are_an_error(drawn: Drawn) -> None:
    schema, value = drawn
    serde = avro(schema)

    with pytest.raises(Undecodable, match=r"^bytes left after the value: 2$"):
        serde.decode(serde.encode(value) + b"ab", 0)


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"id": "x"}, "id", "'x' is not of type int"),
        ({"id": 1 << 31}, "id", "2147483648 is not of type int"),
        ({"id": -(1 << 31) - 1}, "id", "-2147483649 is not of type int"),
        ({"id": True}, "id", "True is not of type int"),
        ({"name": b"x"}, "name", "b'x' is not of type string"),
        ({"note": 5}, "note", "5 is not of type null or string"),
        ({"home": {"street": "High", "number": None}}, "number", "None is not of type int"),
        ({"home": {"number": 2}}, "street", "it is missing"),
        ({"home": 5}, "home", "5 is not of type Home"),
        ({"tags": [5]}, "tags", "5 is not of type string"),
        ({"sums": {"a": 1 << 63}}, "sums", "9223372036854775808 is not of type long"),
        ({"more": 1}, "", "record contains more fields than the schema specifies: more"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_field(
    change: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(Unencodable) as raised:
        avro(ORDER).encode(GIVEN | change)

    assert (raised.value.field, raised.value.reason) == (field, reason)


@few
@given(st.sampled_from(list(LOGICAL)), st.one_of(INTS, LONGS, TEXTS))
@example(("string", "uuid"), "customer 7")
@example(("int", "date"), 10**9)
@example(("int", "time-millis"), 90_000_000)
@example(("long", "timestamp-millis"), 1 << 62)
def test_what_could_not_be_decoded_is_refused(kind: tuple[str, str], value: Any) -> None:
    serde = avro(record("R", a={"type": kind[0], "logicalType": kind[1]}))
    try:
        encoded = serde.encode({"a": value})
    except Unencodable:
        return
    serde.decode(encoded, 0)


@pytest.mark.parametrize("infinite", [math.inf, -math.inf])
def test_a_number_too_large_for_a_float_is_refused(infinite: float) -> None:
    serde = avro(record("R", a="float", b={"type": "array", "items": ["null", "float"]}))
    large = math.copysign(1e300, infinite)
    for value in ({"a": large, "b": []}, {"a": 1.0, "b": [None, infinite, large]}):
        with pytest.raises(Unencodable, match="e\\+300"):
            serde.encode(value)
    for values in ([infinite, math.nan, 3.4e38], array("f", [infinite])):
        decoded = serde.decode(serde.encode({"a": infinite, "b": values}), 0)
        assert decoded["a"] == decoded["b"][0] == infinite


def test_a_value_that_could_not_be_decoded_is_refused_with_its_field() -> None:
    serde = avro(record("R", a="int", b=["null", {"type": "string", "logicalType": "uuid"}]))
    with pytest.raises(Unencodable) as raised:
        serde.encode({"a": 1, "b": "customer 7"})
    assert (raised.value.field, raised.value.reason) == (
        "b",
        "badly formed hexadecimal UUID string",
    )


@pytest.mark.parametrize("name", list(GIVEN))
def test_a_field_that_is_missing_is_named(name: str) -> None:
    rest = {each: value for each, value in GIVEN.items() if each != name}
    serde = avro(ORDER)
    for refuse in (lambda: serde.encode(rest), lambda: serde.from_json(json.dumps(rest).encode())):
        with pytest.raises(Unencodable) as raised:
            refuse()
        assert (raised.value.field, raised.value.reason) == (name, "it is missing")


@pytest.mark.parametrize("given", [None, 5, "x", [], [GIVEN], b""])
def test_what_is_not_a_record_is_refused(given: Any) -> None:
    with pytest.raises(Unencodable, match=r"is not of type Order$"):
        avro(ORDER).encode(given)


@pytest.mark.parametrize("damaged", range(1, 7))
def test_damaged_bytes_are_reported_with_their_field(damaged: int) -> None:
    fields: Any = {f"f{n}": "string" for n in range(1, 7)}
    serde = avro(record("R", **fields))
    whole = b"".join(b"\x02" + (b"\xff" if n == damaged else b"a") for n in range(1, 7))

    with pytest.raises(Undecodable) as raised:
        serde.decode(whole, 0)
    assert raised.value.field == f"f{damaged}"
    with pytest.raises(Undecodable) as raised:
        serde.decode(b"x" + serde.encode(dict.fromkeys(fields, "a"))[: damaged * 2 - 1], 1)
    assert (raised.value.field, raised.value.reason) == (f"f{damaged}", "it is cut off")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ('"id":"x"', "id"),
        ('"id":1.5', "id"),
        ('"id":2147483648', "id"),
        ('"note":"plain"', "note"),
        ('"note":{"int":1}', "note"),
        ('"note":{}', "note"),
        ('"home":5', "home"),
        ('"home":{"street":"x","number":1,"more":1}', "more"),
        ('"home":{"street":"x","number":"1"}', "number"),
        ('"tags":{}', "tags"),
        ('"tags":[1]', "tags"),
        ('"sums":{"a":null}', "sums"),
        ('"more":1', "more"),
    ],
)
def test_json_that_does_not_fit_is_refused_with_its_field(change: str, field: str) -> None:
    serde = avro(ORDER)
    text = json.dumps(GIVEN)[:-1].encode()
    assert serde.from_json(text + b"}") == GIVEN

    with pytest.raises(Unencodable) as raised:
        serde.from_json(text + b"," + change.encode() + b"}")
    assert raised.value.field == field


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"a":1}x', b"1" * 5000])
def test_what_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(Unencodable):
        avro({"type": "map", "values": "long"}).from_json(text)


def test_numbers_that_json_does_not_have_are_null() -> None:
    serde = avro(record("R", a="double", b="float", c=["null", "double"], d="string"))
    value = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": "NaN, Infinity"}

    told = serde.to_json(serde.decode(serde.encode(value), 0))

    assert told == b'{"a":null,"b":null,"c":{"double":null},"d":"NaN, Infinity"}'


@pytest.mark.parametrize(
    ("text", "index"),
    [
        (b"null", 0),
        (b'{"int":5}', 1),
        (b'{"long":5}', 2),
        (b'{"First":{"n":1}}', 3),
        (b'{"Second":{"n":1}}', 4),
        (b'{"map":{"n":1}}', 5),
    ],
)
def test_json_says_which_branch_of_a_union_is_encoded(text: bytes, index: int) -> None:
    records = record("First", n="int"), record("Second", n="int")
    serde = avro(["null", "int", "long", *records, {"type": "map", "values": "int"}])

    assert serde.encode(serde.from_json(text))[0] == index * 2


@pytest.mark.parametrize("value", [dt.date(2020, 1, 2), "soon", "2020-01-02", None])
@pytest.mark.parametrize("is_date_first", [True, False])
@pytest.mark.parametrize(
    "text", ["string", {"type": "enum", "name": "E", "symbols": ["soon", "never"]}]
)
def test_text_beside_a_date_stays_text(value: Any, is_date_first: bool, text: Any) -> None:  # noqa: FBT001
    serde = avro(["null", DATE, text] if is_date_first else ["null", text, DATE])
    if value == "2020-01-02" and text != "string":
        with pytest.raises(Unencodable, match="'2020-01-02' is not of type null or "):
            serde.encode(value)
        return
    assert serde.decode(serde.encode(value), 0) == value
    assert serde.from_json(serde.to_json(value)) == value


def test_a_moment_is_not_cut_down_to_a_date() -> None:
    moment = dt.datetime(2020, 1, 2, 3, tzinfo=dt.UTC)
    serde = avro([DATE, {"type": "long", "logicalType": "timestamp-millis"}])
    assert serde.decode(serde.encode(moment), 0) == moment
    for alone in (DATE, ["null", DATE]):
        encoded = avro(alone).encode("2020-01-02")
        assert avro(alone).decode(encoded, 0) == dt.date(2020, 1, 2)


def test_a_default_is_what_its_json_says() -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    schema = record(
        "R",
        b=("bytes", "\u00ff"),
        d=({"type": "int", "logicalType": "date"}, 1),
        m=(decimal, "\u0001"),
        r=(record("S", x="int", y=("bytes", "a")), {"x": 1}),
        u=(["double", "null"], 1),
        a=({"type": "array", "items": "bytes"}, ["a"]),
    )
    serde = avro(schema)

    encoded = serde.encode({})

    assert serde.encode(serde.from_json(b"{}")) == encoded
    assert json.loads(serde.to_json({})) == json.loads(serde.to_json(serde.decode(encoded, 0)))
    assert serde.decode(encoded, 0) == avro(record("R")).read_as(serde).decode(b"", 0)


@pytest.mark.parametrize(
    "schema",
    [
        "{",
        "{}",
        '"nosuch"',
        '{"type":"record","name":"R"',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"S"}]}',
        '{"type":"enum","name":"E"}',
        '[["int"]]',
        "5",
        "null",
    ],
)
def test_what_is_not_a_schema_is_unusable(schema: str) -> None:
    with pytest.raises(UnusableSchema):
        compiled(SchemaSource(AVRO, schema))


def test_an_ill_typed_default_does_not_keep_values_away() -> None:
    serde = avro(record("R", a=("int", "x"), b=(["null", "int"], "y")))

    assert serde.decode(serde.encode({"a": 1, "b": None}), 0) == {"a": 1, "b": None}
