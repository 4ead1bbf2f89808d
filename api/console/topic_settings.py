"""The settings of a topic, as a form has them."""

from collections.abc import Mapping
from typing import NamedTuple

from api.console.typed import pairs_of
from tms.core.errors import InvalidRequest
from tms.core.values import topic_properties as known
from tms.core.values.topic import TTL

OTHERS = "others"
"""The field of properties that mean something to users alone, a line each."""


class Field(NamedTuple):
    """A field of the form."""

    name: str
    label: str
    choices: tuple[str, ...] = ()
    """The values that it may have; none: any text."""


FIELDS = (
    Field(TTL, "Time to live in seconds"),
    Field(known.CLEANUP, "Cleanup", ("delete", known.COMPACT)),
    Field(known.TOMBSTONE, "Time to keep tombstones, in seconds"),
    Field(known.RETENTION_MESSAGES, "Approximate maximum of messages"),
    Field(known.RETENTION_BYTES, "Approximate maximum of bytes"),
    Field(known.SUBJECT, "Subject of the payloads' schemas"),
    Field(known.KEY_SUBJECT, "Subject of the keys' schemas"),
    Field(known.SUBJECT_STRATEGY, "Subject strategy", ("topic", "record", "topic_record")),
    Field(known.SCHEMA_CHECK, "Schema check", ("off", "id", "full")),
)
_NAMES = frozenset(field.name for field in FIELDS)


def settings_of(form: Mapping[str, str]) -> dict[str, object]:
    """Return the properties that a form gives. Raises `InvalidRequest` (invalid_properties)."""
    try:
        given = dict(pairs_of(form.get(OTHERS, ""), "="))
    except ValueError as error:
        line = str(error)
        raise InvalidRequest("invalid_properties", line=line, expected="NAME=VALUE") from None
    values = {name: form.get(name, "").strip() for name in _NAMES}
    return {**given, **{name: value for name, value in values.items() if value}}


def others_of(properties: Mapping[str, str]) -> str:
    """Return the lines of the properties that have no field of their own."""
    return "\n".join(f"{name}={value}" for name, value in properties.items() if name not in _NAMES)
