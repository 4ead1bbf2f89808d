"""Namespaces in JSON, for server and client (`docs/namespaces.md` has examples)."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import msgspec

from tms.core.limits import TTL_S_MAX
from tms.core.namespaces import SETTING_MAX, Namespace, NamespaceRules, NamespaceSettings
from tms.wire.json_fields import COUNT, NULL, Json, described_by, one_of
from tms.wire.json_values import decode, decode_answer


def _number(description: str, most: int = SETTING_MAX) -> Json:
    return {"type": "integer", "minimum": 1, "maximum": most, "description": description}


_RATE = _number("On average; a burst of one second is allowed.")
_NUMBERS = {
    "ttl_s_default": _number(
        "The ttl of topics that are created without one; in seconds.", TTL_S_MAX
    ),
    "ttl_s_max": _number("The longest ttl that a topic may be given.", TTL_S_MAX),
    "message_bytes_max": _number("The largest message."),
    "request_bytes_max": _number("The most bytes of all messages in one request."),
    "publish_messages_per_s": _RATE,
    "publish_bytes_per_s": _RATE,
}
_TtlDefault = Annotated[int, described_by(_NUMBERS["ttl_s_default"])]
_TtlMax = Annotated[int, described_by(_NUMBERS["ttl_s_max"])]
_MessageMax = Annotated[int, described_by(_NUMBERS["message_bytes_max"])]
_RequestMax = Annotated[int, described_by(_NUMBERS["request_bytes_max"])]
_Rate = Annotated[int, described_by(_RATE)]


class SettingsBody(msgspec.Struct, forbid_unknown_fields=True):
    """The settings of a namespace; for null, or nothing, the server's limit applies."""

    ttl_s_default: _TtlDefault | None = None
    ttl_s_max: _TtlMax | None = None
    message_bytes_max: _MessageMax | None = None
    request_bytes_max: _RequestMax | None = None
    publish_messages_per_s: _Rate | None = None
    publish_bytes_per_s: _Rate | None = None


class RulesBody(msgspec.Struct):
    """The limits that apply, from the settings and the server's own limits."""

    ttl_s_default: _TtlDefault
    ttl_s_max: _TtlMax
    message_bytes_max: _MessageMax
    request_bytes_max: _RequestMax
    publish_messages_per_s: _Rate | None
    publish_bytes_per_s: _Rate | None


class NamespaceBody(msgspec.Struct):
    """A namespace, declared or not."""

    name: str
    version: Annotated[
        int | None,
        described_by(
            {
                **one_of(COUNT, NULL),
                "description": (
                    "The version, which grows by one with each change; null if the namespace is "
                    "not declared."
                ),
            }
        ),
    ]
    settings: Annotated[
        dict[str, int],
        described_by(
            {
                "type": "object",
                "description": (
                    "The settings that were given; for others, the server's limits apply."
                ),
                "properties": _NUMBERS,
                "additionalProperties": False,
            }
        ),
    ]
    rules: RulesBody


def decode_settings(body: bytes) -> NamespaceSettings:
    """Return what a body asks for; an empty one for nothing. Raises `InvalidRequest`."""
    given = decode(SettingsBody, body or b"{}", code="invalid_namespace_settings")
    return NamespaceSettings(**msgspec.structs.asdict(given))


def encode_settings(settings: NamespaceSettings) -> bytes:
    """Return the body that asks for these settings."""
    return msgspec.json.encode(settings.given())


def _body_of(namespace: Namespace) -> NamespaceBody:
    return NamespaceBody(
        namespace.name,
        namespace.version,
        namespace.settings.given(),
        RulesBody(**asdict(namespace.rules)),
    )


def namespace_record(namespace: Namespace) -> dict[str, Any]:
    """Return what is told of a namespace, as values for JSON."""
    record: dict[str, Any] = msgspec.to_builtins(_body_of(namespace))
    return record


def encode_namespace(namespace: Namespace) -> bytes:
    """Return what is told of a namespace."""
    return msgspec.json.encode(_body_of(namespace))


def encode_namespaces(namespaces: Iterable[Namespace]) -> bytes:
    """Return the list of namespaces."""
    return msgspec.json.encode([_body_of(namespace) for namespace in namespaces])


def decode_namespace(answer: bytes) -> Namespace:
    """Return what a server has answered. Raises `InternalError`."""
    return _namespace_of(decode_answer(NamespaceBody, answer))


def decode_namespaces(answer: bytes) -> list[Namespace]:
    """Return what a server has answered. Raises `InternalError`."""
    return [_namespace_of(value) for value in decode_answer(list[NamespaceBody], answer)]


def _namespace_of(told: NamespaceBody) -> Namespace:
    known = NamespaceSettings.__slots__
    given = {name: value for name, value in told.settings.items() if name in known}
    return Namespace(
        name=told.name,
        version=told.version,
        settings=NamespaceSettings(**given),
        rules=NamespaceRules(**msgspec.structs.asdict(told.rules)),
    )
