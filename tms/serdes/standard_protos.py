"""The files that come with Protobuf, which a schema may import without a reference."""

from collections.abc import Mapping

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)

STANDARD_FILES: Mapping[str, bytes] = {
    module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
    for module in (
        *(any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, source_context_pb2),
        *(struct_pb2, timestamp_pb2, wrappers_pb2, type_pb2, api_pb2),
    )
}
"""Serialized, by their names, each behind those that it imports."""
