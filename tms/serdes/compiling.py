"""Compiles schemas of any type. The library of a type is loaded when it is used first."""

from tms.core.schemas import AVRO, JSON, PROTOBUF
from tms.serdes.serde import SchemaSource, Serde, UnusableSchema


def compiled(source: SchemaSource) -> Serde:
    """Return what encodes and decodes by a schema. Raises `UnusableSchema`."""
    if source.kind == AVRO:
        from tms.serdes.avro_serde import AvroSerde  # noqa: PLC0415

        return AvroSerde(source)
    if source.kind == JSON:
        from tms.serdes.json_serde import JsonSerde  # noqa: PLC0415

        return JsonSerde(source)
    if source.kind == PROTOBUF:
        from tms.serdes.proto_serde import ProtoSerde  # noqa: PLC0415

        return ProtoSerde(source)
    raise UnusableSchema(f"its type is {source.kind!r}")
