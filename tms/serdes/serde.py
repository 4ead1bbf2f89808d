"""The interface of a compiled schema of any type, and its errors."""

import reprlib
from dataclasses import dataclass
from typing import Any, Protocol

from tms.core.schemas import AVRO, JSON, PROTOBUF


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """A schema with all that it refers to, as `compiled` takes it."""

    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    """Avro's with what it refers to in it; Protobuf's is a descriptor of the file in base64."""
    references: tuple[tuple[str, str], ...] = ()
    """Names and texts, each behind those that it needs; none of Avro's."""
    message: str = ""
    """For Protobuf: the full name of the message of values; by default the file's first one."""


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 100


def shown_value(value: object) -> str:
    """Return the beginning of a value, however deep and long it is."""
    return _REPR.repr(value)


class UnusableSchema(ValueError):
    """Raised when values cannot be encoded or decoded by a schema; it says why."""


class Unencodable(ValueError):
    """Raised when a value does not fit its schema."""

    def __init__(self, reason: str, field: str = "") -> None:
        """Say why, and of which field, if that is known."""
        super().__init__(f"{field}: {reason}" if field else reason)
        self.reason = reason
        self.field = field


class Undecodable(ValueError):
    """Raised when bytes are no value of a schema."""

    def __init__(self, reason: str, field: str = "") -> None:
        """Say why, and of which field, if that is known."""
        super().__init__(f"{field}: {reason}" if field else reason)
        self.reason = reason
        self.field = field


class Serde(Protocol):
    """A compiled schema. Any number of threads may use it at once.

    Whatever the bytes are, decoding ends soon, with a value or with `Undecodable`.
    """

    kind: str
    record_name: str
    """The full name of its record or message, the title of a JSON Schema; empty if it has none."""

    def encode(self, value: Any) -> bytes:
        """Return what stands behind the id in a payload. Raises `Unencodable`."""
        ...

    def decode(self, data: bytes, at: int) -> Any:
        """Return the value that begins at `at` and is the rest. Raises `Undecodable`."""
        ...

    def from_json(self, text: bytes) -> Any:
        """Return the value that JSON says. Raises `Unencodable`."""
        ...

    def to_json(self, value: Any) -> bytes:
        """Return JSON that says a value. Raises `Undecodable` if there is none that does."""
        ...


def compiled(source: SchemaSource) -> Serde:
    """Return what encodes and decodes by a schema. Raises `UnusableSchema`."""
    # The library of a type is loaded when it is used for the first time.
    if source.kind == AVRO:
        from tms.serdes.avro_serde import AvroSerde  # noqa: PLC0415

        return AvroSerde(source)
    if source.kind == JSON:
        from tms.serdes.json_serde import JsonSerde  # noqa: PLC0415

        return JsonSerde(source)
    if source.kind == PROTOBUF:
        from tms.serdes.proto_serde import ProtoSerde  # noqa: PLC0415

        return ProtoSerde(source)
    raise UnusableSchema(f"its type is {source.kind!r}")
