"""The interface of a compiled schema of any type, and its errors.

`tms/serdes/compiling.py` has the types.
"""

import reprlib
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """A schema with all that it refers to, as `compiled` takes it."""

    kind: str
    """The name of its type."""
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


class _Misfit(ValueError):
    """Raised when something does not fit its schema."""

    def __init__(self, reason: str, field: str = "") -> None:
        """Say why, and of which field, if that is known."""
        super().__init__(f"{field}: {reason}" if field else reason)
        self.reason = reason
        self.field = field


class Unencodable(_Misfit):
    """Raised when a value does not fit its schema."""


class Undecodable(_Misfit):
    """Raised when bytes are not a value of a schema."""


class Serde(Protocol):
    """A compiled schema. Any number of threads may use it at once.

    Whatever the bytes are, decoding ends soon, with a value or with `Undecodable`.
    """

    kind: ClassVar[str]
    has_readers: ClassVar[bool] = False
    """Whether programs may have values in the form that a schema of theirs gives them."""
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

    def with_message(self, message: str) -> "Serde":  # noqa: ARG002
        """Return a serde in which a mapping stands for another message, if there are several."""
        return self

    def read_as(self, reader: Any) -> "Serde":  # noqa: ARG002
        """Return a serde whose values have the form that `reader`, one of the type, gives them."""
        return self
