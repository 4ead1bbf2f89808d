"""Namespaces: their settings for topics, and the interface of their store.

The annotations of `NamespaceSettings` determine its checks, its JSON, OpenAPI, and the options of
`tms namespace set`.

A namespace need not be declared: without settings of its own, the server's limits apply. They also
cap the settings of a declared one. Deleting a namespace deletes only its settings; its topics stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Protocol, get_args

from msgspec import Meta

from tms.core.errors import InvalidRequest
from tms.core.limits import JSON_INTEGER_MAX, TTL_S_MAX, Limits

_RELATIONS = (("ttl_s_default", "ttl_s_max"), ("message_bytes_max", "request_bytes_max"))


def _number(description: str, most: int = JSON_INTEGER_MAX) -> Meta:
    schema = {"type": "integer", "minimum": 1, "maximum": most, "description": description}
    return Meta(extra_json_schema=schema)


TtlDefault = Annotated[int, _number("The ttl of topics that are created without one.", TTL_S_MAX)]
TtlMax = Annotated[int, _number("The longest ttl that a topic may be given.", TTL_S_MAX)]
MessageBytes = Annotated[int, _number("The largest message.")]
RequestBytes = Annotated[int, _number("The most bytes of all messages in one request.")]
MessagesPerS = Annotated[int, _number("The most messages a second, on average.")]
BytesPerS = Annotated[int, _number("The most bytes of messages a second, on average.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceSettings:
    """The settings of a namespace; for None, the server's limit applies.

    Making one raises `InvalidRequest` (invalid_namespace_settings) if a value is not positive, or
    two contradict each other.
    """

    ttl_s_default: TtlDefault | None = None
    ttl_s_max: TtlMax | None = None
    message_bytes_max: MessageBytes | None = None
    request_bytes_max: RequestBytes | None = None
    publish_messages_per_s: MessagesPerS | None = None
    publish_bytes_per_s: BytesPerS | None = None

    def __post_init__(self) -> None:
        """Check the values and their relations."""
        for name, value in self.given().items():
            most = SCHEMAS[name]["maximum"]
            if not 1 <= value <= most:
                raise InvalidRequest(
                    "invalid_namespace_settings", setting=name, value=value, at_most=most
                )
        for smaller, larger in _RELATIONS:
            less, more = getattr(self, smaller), getattr(self, larger)
            if less is not None and more is not None and less > more:
                raise InvalidRequest(
                    "invalid_namespace_settings", setting=smaller, value=less, at_most=more
                )

    def given(self) -> dict[str, int]:
        """Return the settings that are set, by name."""
        every = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in every if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceRules:
    """The rules of a namespace on one server."""

    ttl_s_default: TtlDefault
    ttl_s_max: TtlMax
    message_bytes_max: MessageBytes
    request_bytes_max: RequestBytes
    publish_messages_per_s: MessagesPerS | None = None
    """None for as many as the server can take."""
    publish_bytes_per_s: BytesPerS | None = None


SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    field.name: get_args(get_args(field.type)[0])[1].extra_json_schema
    for field in fields(NamespaceSettings)
}
"""The JSON schema of each setting, with its bounds and its description."""


def rules_of(settings: NamespaceSettings, limits: Limits) -> NamespaceRules:
    """Return the rules for a namespace with `settings` on a server with `limits`."""
    ttl_s_max = settings.ttl_s_max or TTL_S_MAX
    request_bytes_max = _least(settings.request_bytes_max, limits.request_bytes_max)
    return NamespaceRules(
        ttl_s_default=settings.ttl_s_default or min(limits.ttl_s_default, ttl_s_max),
        ttl_s_max=ttl_s_max,
        message_bytes_max=min(
            _least(settings.message_bytes_max, limits.message_bytes_max), request_bytes_max
        ),
        request_bytes_max=request_bytes_max,
        publish_messages_per_s=settings.publish_messages_per_s,
        publish_bytes_per_s=settings.publish_bytes_per_s,
    )


def _least(setting: int | None, limit: int) -> int:
    return limit if setting is None else min(setting, limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace, declared or not."""

    name: str
    version: int | None
    """The version of its settings: 0 when declared, plus one for each change; None if not declared.
    """
    settings: NamespaceSettings
    rules: NamespaceRules
    """The rules that apply now."""


class AsyncNamespaces(Protocol):
    """The namespaces of a server. Each method may also raise `Unavailable` and `InternalError`.

    A bad name raises `InvalidRequest` (invalid_namespace_name).
    """

    async def namespaces(self) -> Sequence[Namespace]:
        """Return the declared namespaces in the order of their names."""
        ...

    async def namespace(self, name: str) -> Namespace:
        """Return a namespace, even one that is not declared."""
        ...

    async def declare(self, name: str, settings: NamespaceSettings) -> Namespace:
        """Replace the settings of a namespace; in effect on this server on return.

        Raises `NoMetadataStore` if the server has nowhere to store them, and `TooLarge`
        (namespace_limit_reached).
        """
        ...

    async def delete(self, name: str) -> None:
        """Delete a namespace's settings. Raises `NamespaceNotDeclared`, `NoMetadataStore`."""
        ...
