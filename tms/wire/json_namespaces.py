"""Namespaces in JSON, for server and client (`docs/namespaces.md` has examples)."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import msgspec

from tms.core.errors import InvalidRequest
from tms.core.namespaces import Namespace, NamespaceRules, NamespaceSettings
from tms.wire.json_values import decode_answer


class _Settings(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    ttl_s_default: int | None = None
    ttl_s_max: int | None = None
    message_bytes_max: int | None = None
    request_bytes_max: int | None = None
    publish_messages_per_s: int | None = None
    publish_bytes_per_s: int | None = None


class _Namespace(msgspec.Struct):
    name: str
    version: int | None
    settings: dict[str, int]
    rules: NamespaceRules


_settings_decoder = msgspec.json.Decoder(_Settings)
_namespace_decoder = msgspec.json.Decoder(_Namespace)
_namespaces_decoder = msgspec.json.Decoder(list[_Namespace])


def decode_settings(body: bytes) -> NamespaceSettings:
    """Return what a body asks for; an empty one for nothing. Raises `InvalidRequest`."""
    try:
        given = _settings_decoder.decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest("invalid_namespace_settings", reason=str(error)) from None
    return NamespaceSettings(**msgspec.structs.asdict(given))


def encode_settings(settings: NamespaceSettings) -> bytes:
    """Return the body that asks for these settings."""
    return msgspec.json.encode(settings.given())


def namespace_record(namespace: Namespace) -> dict[str, Any]:
    """Return what is told of a namespace."""
    return {
        "name": namespace.name,
        "version": namespace.version,
        "settings": namespace.settings.given(),
        "rules": asdict(namespace.rules),
    }


def encode_namespace(namespace: Namespace) -> bytes:
    """Return what is told of a namespace."""
    return msgspec.json.encode(namespace_record(namespace))


def encode_namespaces(namespaces: Iterable[Namespace]) -> bytes:
    """Return the list of namespaces."""
    return msgspec.json.encode([namespace_record(namespace) for namespace in namespaces])


def decode_namespace(answer: bytes) -> Namespace:
    """Return what a server has answered. Raises `InternalError`."""
    return _namespace_of(decode_answer(_namespace_decoder, answer))


def decode_namespaces(answer: bytes) -> list[Namespace]:
    """Return what a server has answered. Raises `InternalError`."""
    return [_namespace_of(value) for value in decode_answer(_namespaces_decoder, answer)]


def _namespace_of(told: _Namespace) -> Namespace:
    known = NamespaceSettings.__slots__
    given = {name: value for name, value in told.settings.items() if name in known}
    return Namespace(
        name=told.name,
        version=told.version,
        settings=NamespaceSettings(**given),
        rules=told.rules,
    )
