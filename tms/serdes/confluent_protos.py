"""Descriptors of the Protobuf files that Confluent's clients import without a reference.

`confluent/meta.proto` has the options for tags, docs and rules, the others types of values. They
are written here because the only package with them, Confluent's client, has much more.
"""

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto

_META = """
name: "confluent/meta.proto" package: "confluent" syntax: "proto3"
dependency: "google/protobuf/descriptor.proto"
message_type {
  name: "Meta"
  field { name: "doc" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field {
    name: "params" number: 2 label: LABEL_REPEATED
    type: TYPE_MESSAGE type_name: ".confluent.Meta.ParamsEntry"
  }
  field { name: "tags" number: 3 label: LABEL_REPEATED type: TYPE_STRING }
  field {
    name: "rules" number: 4 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".confluent.Rule"
  }
  nested_type {
    name: "ParamsEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  }
}
message_type {
  name: "Rule"
  field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "doc" number: 2 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "expr" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "sql" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING }
}
"""
_META_OPTIONS = (
    ("file_meta", "FileOptions"),
    ("message_meta", "MessageOptions"),
    ("field_meta", "FieldOptions"),
    ("enum_meta", "EnumOptions"),
    ("enum_value_meta", "EnumValueOptions"),
)
_META_NUMBER = 1088
_DECIMAL = """
name: "confluent/type/decimal.proto" package: "confluent.type" syntax: "proto3"
message_type {
  name: "Decimal"
  field { name: "value" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "precision" number: 2 label: LABEL_OPTIONAL type: TYPE_UINT32 }
  field { name: "scale" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 }
}
"""
_VARIANT = """
name: "confluent/type/variant.proto" package: "confluent.type" syntax: "proto3"
message_type {
  name: "Variant"
  field { name: "metadata" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
}
"""
_OLD_DECIMAL = """
name: "confluent/types/decimal.proto" syntax: "proto3"
dependency: "confluent/type/decimal.proto" public_dependency: 0
"""


def _meta() -> FileDescriptorProto:
    made = _parsed(_META)
    for name, extended in _META_OPTIONS:
        made.extension.add(
            name=name,
            number=_META_NUMBER,
            extendee=f".google.protobuf.{extended}",
            label="LABEL_OPTIONAL",
            type="TYPE_MESSAGE",
            type_name=".confluent.Meta",
        )
    return made


def _parsed(text: str) -> FileDescriptorProto:
    return text_format.Parse(text, FileDescriptorProto())


CONFLUENT_FILES = (_meta(), *map(_parsed, (_DECIMAL, _VARIANT, _OLD_DECIMAL)))
"""Each comes after those of them that it imports."""
