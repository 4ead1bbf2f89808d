"""Checks payloads by their schemas, and converts them from and to JSON, in a server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tms.core.runtime.extras import install_command
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.frame import NO_HEADERS
from tms.core.values.message import Message
from tms.core.values.topic_schemas import TopicSchemas


@dataclass(frozen=True, slots=True)
class ValueToEncode:
    """A message to publish, whose payload is given as JSON."""

    value: bytes | None
    """JSON; None if it is a tombstone."""
    key: bytes | None = None
    key_value: bytes | None = None
    """The key as JSON, if keys have schemas."""
    headers: Mapping[str, bytes] = field(default_factory=lambda: NO_HEADERS)


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """A decoded message."""

    value: bytes | None = None
    """JSON; None for a tombstone or a payload that cannot be decoded."""
    key_value: bytes | None = None
    """The key as JSON, if keys have schemas."""
    schema_id: int | None = None
    error: str | None = None
    """Why it cannot be decoded."""


class PayloadValues(Protocol):
    """Payloads and keys, by the schemas of the registry.

    Each method raises `SchemasUnavailable` if the registry does not answer. `caller` learns only of
    schemas that it may read.
    """

    async def check(
        self, topic: TopicSchemas, bodies: Sequence[bytes], *, caller: Caller = ANYBODY
    ) -> None:
        """Raise `PayloadRefused` unless all bodies pass the topic's `schema_check`.

        Raises `NotPermitted` if the caller may neither read nor write the subject.
        """
        ...

    async def encoded(
        self,
        topic: TopicSchemas,
        values: Mapping[int, ValueToEncode],
        *,
        caller: Caller = ANYBODY,
    ) -> dict[int, tuple[bytes, bool]]:
        """Return the bodies of messages given as values, each with whether it is framed.

        They are encoded by the latest schemas of the subjects. Raises `PayloadRefused`, which names
        a value by its number, and `NotPermitted`.
        """
        ...

    async def decoded(
        self, topic: TopicSchemas, messages: Sequence[Message], *, caller: Caller = ANYBODY
    ) -> list[DecodedValue]:
        """Return the values of messages."""
        ...


def no_registry() -> str:
    """Return why payloads cannot be decoded without a registry."""
    return f"this server has no schema registry: {install_command('registry')}"
