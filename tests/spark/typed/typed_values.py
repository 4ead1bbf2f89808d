"""Schemas and payloads for tests of typed rows; needs neither Spark nor a server."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tests.serdes.compiling import descriptor
from tms.core.values.schema_types import AVRO, JSON, PROTOBUF
from tms.serdes.serde import SchemaSource, Undecodable
from tms.serdes.wire_format import start_of
from tms.spark.typed.decoding import Decoded, PayloadDecoder
from tms.spark.typed.encoding import RowEncoder
from tms.spark.typed.registered import KnownSchema


def avro_source(schema: Any) -> SchemaSource:
    """Return an Avro schema."""
    return SchemaSource(AVRO, json.dumps(schema))


def json_source(schema: Any) -> SchemaSource:
    """Return a JSON Schema."""
    return SchemaSource(JSON, json.dumps(schema))


def proto_source(text: str) -> SchemaSource:
    """Return a Protobuf file."""
    return SchemaSource(PROTOBUF, descriptor(text))


def payload(schema_id: int, data: bytes) -> bytes:
    """Return data as a payload."""
    return start_of(schema_id) + data


def decoded(
    reader: SchemaSource,
    writers: Mapping[int, SchemaSource],
    payloads: Sequence[bytes | None],
    wanted: Sequence[str] | None = None,
) -> Decoded:
    """Return the rows of payloads, by a reader's schema."""

    def find(schema_id: int) -> SchemaSource:
        if schema_id not in writers:
            raise Undecodable(f"schema {schema_id} is not there")
        return writers[schema_id]

    return PayloadDecoder(reader, find, wanted).decode(payloads)


def encoded(schema: SchemaSource, columns: Mapping[str, pa.Array], count: int) -> list[bytes]:
    """Return the payloads of rows, without the leading schema id."""
    found = RowEncoder(KnownSchema(1, schema)).payloads(columns, count)
    return [each.removeprefix(start_of(1)) for each in found]


def one(found: Decoded) -> dict[str, Any]:
    """Return the only row. Fails if it is damaged."""
    assert found.errors == [None]
    return {name: column.to_pylist()[0] for name, column in found.columns.items()}
