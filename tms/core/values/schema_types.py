"""The types of schemas: all that can be said of a type without its library.

A type is a row of `SCHEMA_TYPES`. Its values have a row in `tms/serdes/compiling.py`, its checks in
`tms/registry/checking/kinds.py`, its columns in Spark in `tms/spark/typed/forms.py`. These four
files alone ask for the name of a type; all others ask what its row says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

AVRO: Final = "AVRO"
"""The type of a schema that names none."""
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class SchemaType:
    """One type of schemas."""

    name: str
    """As the registry's interface has it."""
    suffix: str = ""
    """The end of the names of its files."""
    forms: tuple[str, ...] = ()
    """The other forms in which its texts are shown."""
    value_form: str = ""
    """The form by which values are encoded; empty for the text as it is kept."""
    is_form_whole: bool = False
    """Whether `value_form` has in it all that a schema refers to. Then two schemas are the same if
    they are so in the forms `resolved_ordered` and `resolved_normalized`."""
    has_messages: bool = False
    """Whether a schema has several messages, of which values are."""


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
    """Return a type; one that is not known here has no other forms."""
    return SCHEMA_TYPES.get(name, SchemaType(name))
