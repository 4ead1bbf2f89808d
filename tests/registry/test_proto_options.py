"""Options of Protobuf files, at every place: none is lost, compared with protoc."""

import base64
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from hypothesis import HealthCheck, assume, given, settings

from tests.registry.proto_options_files import OPTIONS, OPTIONS_NAME, files_with_options
from tests.registry.protoc import described
from tests.scale import scaled
from tms.registry.protobuf.proto_schemas import ProtoSchema, parse

IMPORTED = {OPTIONS_NAME: OPTIONS}
QUICK = settings(suppress_health_check=list(HealthCheck), max_examples=scaled(40))


def known(found: descriptor_pb2.FileDescriptorProto) -> Any:
    """Return a descriptor in which options have names."""
    pool = descriptor_pool.DescriptorPool()
    for module in (descriptor_pb2, any_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    options = described(OPTIONS)
    assert options is not None
    options.name = OPTIONS_NAME
    pool.Add(options)
    pool.Add(found)
    kind: Any = message_factory.GetMessageClass(
        pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto")
    )
    return kind.FromString(found.SerializeToString())


def in_order(found: descriptor_pb2.FileDescriptorProto | None) -> str:
    """Return a descriptor as text, with fields, types and ranges in order."""
    assert found is not None
    made = known(found)
    made.ClearField("name")
    made.dependency.sort()
    made.extension.sort(key=lambda each: each.number)
    made.enum_type.sort(key=lambda each: each.name)
    sort_messages(made.message_type)
    for method in (method for service in made.service for method in service.method):
        if not method.options.ListFields():  # empty braces
            method.ClearField("options")
    return str(made)


def sort_messages(messages: Any) -> None:
    messages.sort(key=lambda each: each.name)
    for each in messages:
        each.field.sort(key=lambda field: field.number)
        sort_messages(each.nested_type)


@QUICK
@given(files_with_options())
def test_no_option_is_lost(text: str) -> None:
    compiled = described(text, IMPORTED)
    assume(compiled is not None)
    wanted = in_order(compiled)
    schema = parsed(text)

    raw = base64.b64decode(schema.in_form("serialized"))
    sent = descriptor_pb2.FileDescriptorProto.FromString(raw)
    assert in_order(sent) == wanted
    assert in_order(described(schema.text, IMPORTED)) == wanted
    assert in_order(described(schema.normalized, IMPORTED)) == wanted
    assert parsed(schema.text).text == schema.text
    assert parsed(schema.text).normalized == schema.normalized
    assert compiled is not None
    as_descriptor = parsed(base64.b64encode(compiled.SerializeToString()).decode())
    assert in_order(described(as_descriptor.text, IMPORTED)) == wanted
    assert parsed(as_descriptor.normalized).normalized == as_descriptor.normalized


def parsed(text: str) -> ProtoSchema:
    return parse(text, [*IMPORTED.items()])
