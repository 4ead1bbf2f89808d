"""The plan of a typed reader, without Spark and without a server."""

import pickle

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, IsNotNull, Not
from pyspark.sql.types import IntegerType, StructType

from tests.serdes.compiling import record
from tests.spark.typed.typed_values import avro_source
from tms.core.errors import InvalidRequest
from tms.core.services.schemas import LATEST
from tms.spark.columns import typed_arrow_schema, typed_schema
from tms.spark.options import batch_read, batch_write, stream_read
from tms.spark.reader import PushdownReader
from tms.spark.typed.names import column_of, field_of
from tms.spark.typed.registered import KnownSchema
from tms.spark.typed.schema import ReaderSchema
from tms.spark.typed.writing import check_typed

READ = {"url": "http://localhost:11015", "subscribe": "a"}
READER = ReaderSchema(avro_source(record("R", topic="string", _x="int")), gives_damaged=False)
TOPIC: Filter = EqualTo(("_topic",), "a")
OTHERS: list[Filter] = [
    EqualTo(("topic",), "a"),
    GreaterThan(("_topic", "x"), 1),
    IsNotNull(("_topic",)),
    Not(TOPIC),
]


def test_filters_on_fields_are_not_taken_for_those_on_messages() -> None:
    schema = typed_arrow_schema(typed_schema(READER.default_columns()), READER.columns())
    reader = PushdownReader(batch_read({**READ, "schema": "latest"}), schema, READER)

    assert list(reader.pushFilters([TOPIC, *OTHERS])) == OTHERS
    assert reader.topics == frozenset({"a"})


def test_a_field_is_found_by_its_column_and_no_field_is_another_column() -> None:
    for field in ("topic", "_topic", "__topic", "value"):
        assert field_of(column_of(field)) == field
    assert field_of("_topic") is None
    assert list(READER.columns())[:3] == ["topic", "__x", "_topic"]


def test_damaged_rows_have_columns_only_if_they_are_given() -> None:
    gives = ReaderSchema(READER.source, gives_damaged=True)

    assert {*gives.columns()} - {*READER.columns()} == {"_payload", "_error"}
    assert pickle.loads(pickle.dumps(gives)) == gives


@pytest.mark.parametrize(
    ("name", "said"), [("topic", "topic is string"), ("x", "there are the columns")]
)
def test_other_columns_are_refused(name: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        typed_arrow_schema(StructType().add(name, IntegerType()), READER.columns())


def test_a_column_that_is_not_in_the_schema_is_reported_with_those_that_are() -> None:
    known = KnownSchema(1, READER.source)
    with pytest.raises(InvalidRequest, match=r"unknown_columns=.'other'") as caught:
        check_typed(["topic", "__x", "_topic", "other"], None, known)

    assert "fields of the schema (topic, __x), and _topic, " in str(caught.value)
    assert "payload, bytes or text" not in str(caught.value)


@pytest.mark.parametrize("text", ["newest", "0", "-1", "1.5", "", "\u0663"])
def test_other_schemas_are_refused(text: str) -> None:
    for parse in (batch_read, stream_read):
        with pytest.raises(InvalidRequest, match="option=schema"):
            parse({**READ, "schema": text})


def test_schemas_that_there_are() -> None:
    assert batch_read({**READ, "schema": "7"}).schema == 7
    assert batch_write({"url": READ["url"], "schema": LATEST}).schema == LATEST
    assert batch_read({**READ, "schema": ' {"type": "int"} '}).schema == '{"type": "int"}'
    with pytest.raises(InvalidRequest, match="it needs schema"):
        batch_read({**READ, "damaged": "give"})
