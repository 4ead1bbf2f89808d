"""Namespaces in JSON, for server and client (`docs/namespaces.md` has examples)."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Annotated, Any

import msgspec

from tms.core.values.namespaces import SCHEMAS, Namespace, NamespaceRules, NamespaceSettings
from tms.wire.json_fields import COUNT, NULL, described_by, one_of
from tms.wire.json_values import decode, decode_answer

SettingsBody = msgspec.defstruct(
    "SettingsBody",
    [(field.name, field.type, None) for field in fields(NamespaceSettings)],
    namespace={"__doc__": "The settings; if one is null or missing, the server's limit applies."},
    forbid_unknown_fields=True,
)


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
                    "The namespace's own settings; for others, the server's limits apply."
                ),
                "properties": SCHEMAS,
                "additionalProperties": False,
            }
        ),
    ]
    rules: NamespaceRules


def decode_settings(body: bytes) -> NamespaceSettings:
    """Return the settings in a body; none for an empty body. Raises `InvalidRequest`."""
    settings = decode(SettingsBody, body or b"{}", code="invalid_namespace_settings")
    return NamespaceSettings(**msgspec.structs.asdict(settings))


def encode_settings(settings: NamespaceSettings) -> bytes:
    """Return the body that sets these settings."""
    return msgspec.json.encode(settings.given())


def _body_of(namespace: Namespace) -> NamespaceBody:
    return NamespaceBody(
        namespace.name,
        namespace.version,
        namespace.settings.given(),
        namespace.rules,
    )


def namespace_record(namespace: Namespace) -> dict[str, Any]:
    """Return a namespace as values for JSON."""
    record: dict[str, Any] = msgspec.to_builtins(_body_of(namespace))
    return record


def encode_namespace(namespace: Namespace) -> bytes:
    """Return the answer that shows a namespace."""
    return msgspec.json.encode(_body_of(namespace))


def encode_namespaces(namespaces: Iterable[Namespace]) -> bytes:
    """Return the list of namespaces."""
    return msgspec.json.encode([_body_of(namespace) for namespace in namespaces])


def decode_namespace(answer: bytes) -> Namespace:
    """Return the namespace in an answer. Raises `InternalError`."""
    return _namespace_of(decode_answer(NamespaceBody, answer))


def decode_namespaces(answer: bytes) -> list[Namespace]:
    """Return the namespaces in an answer. Raises `InternalError`."""
    return [_namespace_of(value) for value in decode_answer(list[NamespaceBody], answer)]


def _namespace_of(body: NamespaceBody) -> Namespace:
    settings = {name: value for name, value in body.settings.items() if name in SCHEMAS}
    return Namespace(
        name=body.name,
        version=body.version,
        settings=NamespaceSettings(**settings),
        rules=body.rules,
    )
