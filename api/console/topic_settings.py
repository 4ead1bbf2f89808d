"""The settings of a topic as fields of a form."""

from collections.abc import Mapping
from typing import NamedTuple

from api.console.typed import pairs_of
from tms.core.errors import InvalidRequest
from tms.core.values import topic_properties as names
from tms.core.values.topic import TTL

OTHERS = "others"
"""The field for properties that only users interpret, one per line."""


class Field(NamedTuple):
    """A field of the form."""

    name: str
    label: str
    choices: tuple[str, ...] = ()
    """The values that it may have; if there are none, it takes any text."""


FIELDS = (
    Field(TTL, "Time to live in seconds"),
    Field(names.CLEANUP, "Cleanup", ("delete", names.COMPACT)),
    Field(names.TOMBSTONE, "Time to keep tombstones, in seconds"),
    Field(names.RETENTION_MESSAGES, "Approximate maximum of messages"),
    Field(names.RETENTION_BYTES, "Approximate maximum of bytes"),
    Field(names.SUBJECT, "Subject of the payloads' schemas"),
    Field(names.KEY_SUBJECT, "Subject of the keys' schemas"),
    Field(names.SUBJECT_STRATEGY, "Subject strategy", ("topic", "record", "topic_record")),
    Field(names.SCHEMA_CHECK, "Schema check", ("off", "id", "full")),
)
_NAMES = frozenset(field.name for field in FIELDS)


def settings_of(form: Mapping[str, str]) -> dict[str, object]:
    """Return the properties in a form. Raises `InvalidRequest` (invalid_properties)."""
    try:
        properties = dict(pairs_of(form.get(OTHERS, ""), "="))
    except ValueError as error:
        line = str(error)
        raise InvalidRequest("invalid_properties", line=line, expected="NAME=VALUE") from None
    values = {name: form.get(name, "").strip() for name in _NAMES}
    return {**properties, **{name: value for name, value in values.items() if value}}


def others_of(properties: Mapping[str, str]) -> str:
    """Return the properties that have no field of their own, one per line."""
    return "\n".join(f"{name}={value}" for name, value in properties.items() if name not in _NAMES)
