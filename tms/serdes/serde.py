"""The interface of a compiled schema of any type, and its errors.

`tms/serdes/compiling.py` lists the types.
"""

import reprlib
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """A schema with everything it refers to, as `compiled` needs it."""

    kind: str
    """The name of its type."""
    text: str
    """For Avro, with everything it refers to; for Protobuf, the file's descriptor in base64."""
    references: tuple[tuple[str, str], ...] = ()
    """Names and texts, each after those that it needs; none for Avro."""
    message: str = ""
    """For Protobuf: the full name of the message of values; by default the file's first one."""


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 100


def shown_value(value: object) -> str:
    """Return the start of a value, however deep and long it is."""
    return _REPR.repr(value)


class UnusableSchema(ValueError):
    """Raised when values cannot be encoded or decoded by a schema; it says why."""


class _Misfit(ValueError):
    """Raised when something does not fit its schema."""

    def __init__(self, reason: str, field: str = "") -> None:
        """Say why, and for which field if it is known."""
        super().__init__(f"{field}: {reason}" if field else reason)
        self.reason = reason
        self.field = field


class Unencodable(_Misfit):
    """Raised when a value does not fit its schema."""


class Undecodable(_Misfit):
    """Raised when bytes are not a value of a schema."""


class Serde(Protocol):
    """A compiled schema. Any number of threads may use it at once.

    For any bytes, decoding ends soon, with a value or with `Undecodable`.
    """

    kind: ClassVar[str]
    has_readers: ClassVar[bool] = False
    """Whether programs may read values by a schema of their own."""
    record_name: str
    """The full name of its record or message, or a JSON Schema's title; empty without one."""

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a payload after the id. Raises `Unencodable`."""
        ...

    def decode(self, data: bytes, at: int) -> Any:
        """Return the value from `at` to the end. Raises `Undecodable`."""
        ...

    def from_json(self, text: bytes) -> Any:
        """Return the value of JSON. Raises `Unencodable`."""
        ...

    def to_json(self, value: Any) -> bytes:
        """Return the JSON of a value. Raises `Undecodable` if it has none."""
        ...

    def with_message(self, message: str) -> "Serde":  # noqa: ARG002
        """Return a serde in which a mapping represents another message, if there are several."""
        return self

    def read_as(self, reader: Any) -> "Serde":  # noqa: ARG002
        """Return a serde whose values have the form of `reader`, a serde of the same type."""
        return self
