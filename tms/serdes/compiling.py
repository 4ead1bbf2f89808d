"""The serdes by type of schema, one row each.

The library of a type is loaded on its first use.
"""

from collections.abc import Callable, Mapping

from tms.core.values.schema_types import AVRO, JSON, PROTOBUF
from tms.serdes.serde import SchemaSource, Serde, UnusableSchema


def _avro(source: SchemaSource) -> Serde:
    from tms.serdes.avro_serde import AvroSerde  # noqa: PLC0415  its library

    return AvroSerde(source)


def _json(source: SchemaSource) -> Serde:
    from tms.serdes.json_serde import JsonSerde  # noqa: PLC0415  its library

    return JsonSerde(source)


def _proto(source: SchemaSource) -> Serde:
    from tms.serdes.proto_serde import ProtoSerde  # noqa: PLC0415  its library

    return ProtoSerde(source)


_SERDES: Mapping[str, Callable[[SchemaSource], Serde]] = {
    AVRO: _avro,
    JSON: _json,
    PROTOBUF: _proto,
}


def compiled(source: SchemaSource) -> Serde:
    """Return the serde of a schema. Raises `UnusableSchema`."""
    made = _SERDES.get(source.kind)
    if made is None:
        raise UnusableSchema(f"its type is {source.kind!r}")
    return made(source)
