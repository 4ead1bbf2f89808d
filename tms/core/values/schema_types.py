"""The types of schemas: everything about a type that needs no library.

A type is a row of `SCHEMA_TYPES`. Its values have a row in `tms/serdes/compiling.py`, its checks in
`tms/registry/checking/kinds.py`, its columns in Spark in `tms/spark/typed/forms.py`. Only these
four files depend on the name of a type; all others use its row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

AVRO: Final = "AVRO"
"""The type of a schema that does not name one."""
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class SchemaType:
    """One type of schemas."""

    name: str
    """The name in the registry's interface."""
    suffix: str = ""
    """The suffix of its files."""
    forms: tuple[str, ...] = ()
    """The other forms of its texts."""
    value_form: str = ""
    """The form by which values are encoded; empty for the text as stored."""
    is_form_whole: bool = False
    """Whether `value_form` includes everything that a schema refers to. Then two schemas are the
    same if they are equal in the forms `resolved_ordered` and `resolved_normalized`.
    """
    has_messages: bool = False
    """Whether a schema may have several messages, each with values of its own."""


SCHEMA_TYPES: Mapping[str, SchemaType] = {
    each.name: each
    for each in (
        SchemaType(AVRO, ".avsc", ("resolved",), "resolved", is_form_whole=True),
        SchemaType(JSON, ".json"),
        SchemaType(
            PROTOBUF,
            ".proto",
            ("serialized", "ignore_extensions"),
            "serialized",
            has_messages=True,
        ),
    )
}


def type_of(name: str) -> SchemaType:
    """Return a type; an unknown one has no other forms."""
    return SCHEMA_TYPES.get(name, SchemaType(name))
