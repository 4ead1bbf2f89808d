"""Protobuf schemas compared with protoc.

Stored texts mean the same to it, and schemas that are said to be compatible read earlier data.
"""

import base64
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.registry.proto_files import File, FileField, files, pairs
from tests.registry.protoc import classes, described
from tests.scale import scaled
from tms.registry.protobuf.proto_schemas import parse

QUICK = settings(suppress_health_check=list(HealthCheck), max_examples=scaled(150))
SLOW_READS = settings(QUICK, max_examples=scaled(400))


def in_order(found: descriptor_pb2.FileDescriptorProto | None) -> str:
    """Return a descriptor as text, independent of the order of declarations."""
    assert found is not None
    made = descriptor_pb2.FileDescriptorProto()
    made.CopyFrom(found)
    made.ClearField("name")
    made.ClearField("syntax")
    for message in made.message_type:
        sort(message)
    return str(made)


def sort(message: Any) -> None:
    oneofs = [each.name for each in message.oneof_decl]
    for field in message.field:
        if field.HasField("oneof_index"):
            # The order of oneofs is that of their fields, which may have moved.
            field.json_name = f"{field.json_name}@{oneofs[field.oneof_index]}"
            field.ClearField("oneof_index")
    message.oneof_decl.sort(key=lambda each: each.name)
    message.field.sort(key=lambda each: each.number)
    message.nested_type.sort(key=lambda each: each.name)
    for each in message.nested_type:
        sort(each)


@QUICK
@given(files())
def test_what_is_kept_means_the_same_to_protoc(file: File) -> None:
    schema = parse(file.text)
    assert parse(schema.text).text == schema.text
    assert parse(schema.normalized).normalized == schema.normalized
    assert parse(schema.text).normalized == schema.normalized
    wanted = in_order(described(file.text))
    assert in_order(described(schema.text)) == wanted
    assert in_order(described(schema.normalized)) == wanted
    raw = base64.b64decode(schema.in_form("serialized"))
    sent = descriptor_pb2.FileDescriptorProto.FromString(raw)
    again = parse(base64.b64encode(sent.SerializeToString()).decode())
    assert not again.incompatibilities(schema)
    assert not schema.incompatibilities(again)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), st.integers(-(2**31), 2**31 - 1)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), st.integers(-(2**63), 2**63 - 1)),
    **dict.fromkeys(("uint32", "fixed32"), st.integers(0, 2**32 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), st.integers(0, 2**64 - 1)),
    **dict.fromkeys(("float", "double"), st.sampled_from([0.0, 1.5, -2.0])),
    "bool": st.booleans(),
    "string": st.text(max_size=3),
    "bytes": st.text(max_size=3).map(str.encode),
    "E": st.sampled_from([0, 1]),
}


def fill(draw: st.DrawFn, message: Any, fields: Any, file: File) -> None:
    """Set fields of a message: all required ones, and some others."""
    for each in fields:
        kind = each.type.rpartition(".")[2]
        if each.label != "required" and not draw(st.booleans()):
            continue
        holder: Any = getattr(message, each.name, None)
        if kind.startswith("map"):
            key, value = kind.removeprefix("map<").removesuffix(">").split(", ")
            entry = draw(VALUES[key])
            if value == "In":
                fill(draw, holder[entry], file.inner, file)
            else:
                holder[entry] = draw(VALUES[value])
        elif kind in ("In", "M"):
            made = holder.add() if is_many(each) else holder
            fill(draw, made, file.inner if kind == "In" else required(file), file)
            made.SetInParent()
        elif is_many(each):
            holder.extend(draw(st.lists(VALUES[kind], max_size=2)))
        else:
            setattr(message, each.name, draw(VALUES[kind]))


def is_many(given: FileField) -> bool:
    return given.label == "repeated" and not given.oneof


def required(file: File) -> list[Any]:
    return [each for each in file.fields if each.label == "required" and not each.oneof]


@SLOW_READS
@given(st.data(), pairs())
def test_what_fits_reads_what_was_written(data: st.DataObject, pair: tuple[File, File]) -> None:
    old, new = pair
    assume(described(old.text) is not None and described(new.text) is not None)
    assume(not parse(new.text).incompatibilities(parse(old.text)))
    written = classes(old.text)["M"]()
    data.draw(st.composite(lambda draw: fill(draw, written, old.fields, old))())
    read = classes(new.text)["M"].FromString(written.SerializeToString())
    left: Any = UnknownFieldSet(read)
    unknown = {each.field_number for each in left}
    kept = {each.tag: each for each in old.fields}
    for each in new.fields:
        before = kept.get(each.tag)
        if before is None or is_many(before) != is_many(each):
            continue
        if each.type != "E":  # an unknown number of an enum is kept aside
            assert each.tag not in unknown
        if before.type == each.type and each.type in VALUES:
            assert getattr(read, each.name) == getattr(written, each.name)
