"""The properties of topics that mean something to the server.

    cleanup             "delete" (default) | "compact"
    tombstone_s         how long a compact topic keeps a message without payload, in seconds
    retention_messages  about how many messages a topic keeps
    retention_bytes     about how many bytes of messages it keeps
    subject             the subject of the registry that has the schemas of the payloads
    key_subject         the same of the keys
    subject_strategy    "topic" (default) | "record" | "topic_record": the subject, if none is named
    trace_header        "off" (default) | "on": messages get the `traceparent` of their request
    schema_check        "off" (default) | "id" | "full": how payloads are checked when published
    names that begin with "retention_" or "schema_": reserved
    names that begin with "tms.", and live_from_ms: hidden, the server's own

`ttl` and `generation` are in `tms.core.values.topic`. In a store of an older format users could
give all of these names; there they are read as the user's own (`with_user_names`).
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tms.core.errors import InvalidRequest
from tms.core.limits import TTL_S_MAX
from tms.core.text.credentials import shortened

CLEANUP = "cleanup"
COMPACT = "compact"
TOMBSTONE = "tombstone_s"
RETENTION_MESSAGES = "retention_messages"
RETENTION_BYTES = "retention_bytes"
SUBJECT = "subject"
KEY_SUBJECT = "key_subject"
SUBJECT_STRATEGY = "subject_strategy"
SCHEMA_CHECK = "schema_check"
TRACE_HEADER = "trace_header"
ON = "on"
LIVE_FROM = "live_from_ms"
HIDDEN = "tms."
HAS_SCHEDULE = f"{HIDDEN}scheduled"
"""The prefix of the names of hidden properties. `live_from_ms` is older than that rule."""
TOMBSTONE_S_DEFAULT = 24 * 3600

_RESERVED = "retention_", "schema_", HIDDEN
_USERS = "user."
_SUBJECT_CHARS_MAX = 1024
_CHARS_SHOWN = 100
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _may_be_subject(text: str) -> bool:
    return 0 < len(text) <= _SUBJECT_CHARS_MAX and text.isprintable()


_FORMS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    CLEANUP: (lambda text: text in {"delete", COMPACT}, 'it is "delete" or "compact"'),
    TOMBSTONE: (
        lambda text: _is_number(text) and int(text) <= TTL_S_MAX,
        "it is a whole number of seconds",
    ),
    RETENTION_MESSAGES: (lambda text: _is_number(text) and text != "0", "it is a whole number"),
    RETENTION_BYTES: (lambda text: _is_number(text) and text != "0", "it is a whole number"),
    SUBJECT: (_may_be_subject, "it is a subject of the registry"),
    KEY_SUBJECT: (_may_be_subject, "it is a subject of the registry"),
    SUBJECT_STRATEGY: (
        lambda text: text in {"topic", "record", "topic_record"},
        'it is "topic", "record" or "topic_record"',
    ),
    TRACE_HEADER: (lambda text: text in {"off", ON}, 'it is "off" or "on"'),
    SCHEMA_CHECK: (lambda text: text in {"off", "id", "full"}, 'it is "off", "id" or "full"'),
}
"""For each name, whether a value is allowed, and the error if it is not."""
_NO_VALUE: tuple[Callable[[str], bool], str] = (
    lambda _: False,
    "the name is reserved for the server",
)


class Retention(NamedTuple):
    """Approximately how much a topic keeps. None for no bound."""

    messages: int | None
    bytes: int | None


def check_meaning(properties: Mapping[str, str]) -> None:
    """Raise `InvalidRequest` (invalid_properties) if a value is invalid for its name."""
    for name, value in properties.items():
        if name in _FORMS:
            may_be, reason = _FORMS[name]
        elif name.startswith(_RESERVED):
            may_be, reason = _NO_VALUE
        else:
            continue
        if not may_be(value):
            raise InvalidRequest(
                "invalid_properties",
                property=name,
                value=shortened(value, _CHARS_SHOWN),
                reason=reason,
            )


def is_of_the_server(name: str) -> bool:
    """Whether a property name has a meaning for the server, or is reserved for it."""
    return name == LIVE_FROM or name in _FORMS or name.startswith(_RESERVED)


def with_user_names(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a topic's properties with `user.NAME` for each NAME of the server's.

    If that is taken, it is `user.user.NAME`, and so on, so no other property of the user changes.
    The result has no names of the server's, so doing it twice is the same as once.
    """
    kept = {name: value for name, value in properties.items() if not is_of_the_server(name)}
    for name in sorted(properties.keys() - kept.keys()):
        new = _USERS + name
        while new in kept:
            new = _USERS + new
        kept[new] = properties[name]
    return kept


def tombstone_s_of(properties: Mapping[str, str]) -> int:
    """Return how long a topic keeps messages without payload, in seconds."""
    number = _number_of(properties, TOMBSTONE)
    return TOMBSTONE_S_DEFAULT if number is None else number


def retention_of(properties: Mapping[str, str]) -> Retention:
    """Return approximately how much a topic keeps."""
    return Retention(
        _number_of(properties, RETENTION_MESSAGES), _number_of(properties, RETENTION_BYTES)
    )


def _number_of(properties: Mapping[str, str], name: str) -> int | None:
    text = properties.get(name)
    return int(text) if text is not None and _FORMS[name][0](text) else None
