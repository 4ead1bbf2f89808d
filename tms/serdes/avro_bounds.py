"""Bounds that fastavro lacks, so that no bytes take long to read, or crash the process.

1. Values of a schema that contains itself are nested at most `LEVELS_MAX` deep, because fastavro's
   C code has no limit and crashes the process. The bytes are checked before it reads them.
2. A decimal has at most `DECIMAL_BYTES_MAX`: its time is quadratic, and a megabyte takes minutes.
3. In a union with other types, a date is not written as text or as a moment: fastavro would refuse
   any other text, and cut a moment down to its date.

2 and 3 apply to all uses of fastavro in the process, because it has one table of logical types.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
from fastavro.read import LOGICAL_READERS
from fastavro.write import LOGICAL_WRITERS

from tms.serdes.avro_tree import INNER, RECORDS, kind_of

LEVELS_MAX = 180
"""How many records, arrays and maps may be within each other."""
DECIMAL_BYTES_MAX = 1000
"""About 2,400 digits."""
HAS_OTHERS = "tms.hasOthers"
"""An attribute that marks a date as one of several types, beside null."""
_NUMBER_BYTES_MAX = 10
_MORE_FOLLOWS = 0x80
_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_decimal_of = LOGICAL_READERS["bytes-decimal"]
_write_date = LOGICAL_WRITERS["int-date"]


def check_levels(value: Any, left: int = LEVELS_MAX) -> None:
    """Raise `RecursionError` for a value that is nested too deeply."""
    if not left:
        raise RecursionError
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return
    for each in value:
        check_levels(each, left - 1)


def read_nested(stream: BytesIO, writer: Any, named: Mapping[str, Any], reader: Any) -> Any:
    """Return a value of a parsed schema that contains itself, as fastavro's `schemaless_reader`.

    Raises `RecursionError` if it is nested too deeply.
    """
    _Skipping(stream.getvalue(), stream.tell(), named).skip(writer, LEVELS_MAX)
    return fastavro.schemaless_reader(stream, writer, reader)


class _Skipping:
    """Reads past values without making them.

    Its methods raise `EOFError` or `IndexError` at the end of the data, `ValueError` for wrong
    bytes, and `RecursionError`.
    """

    def __init__(self, data: bytes, at: int, named: Mapping[str, Any]) -> None:
        self._data = data
        self._at = at
        self._named = named

    def skip(self, node: Any, left: int) -> None:
        """Read past a value that may have `left` levels."""
        if not left:
            raise RecursionError
        node = self._named.get(node, node) if isinstance(node, str) else node
        kind = kind_of(node)
        if kind in RECORDS:
            for field in node["fields"]:
                self.skip(field["type"], left - 1)
        elif kind == "union":
            self.skip(node[self._number(len(node) - 1)], left)
        elif kind in ("int", "long", "enum"):
            self._number()
        elif kind in ("bytes", "string"):
            self._pass(self._number())
        elif kind in INNER:
            self._skip_blocks(node[INNER[kind]], left - 1, has_keys=kind == "map")
        else:
            self._pass(node["size"] if kind == "fixed" else _BYTES[kind])

    def _skip_blocks(self, node: Any, left: int, *, has_keys: bool) -> None:
        while count := self._number():
            if count < 0:  # the size of the block follows
                self._number()
            for _ in range(abs(count)):
                if has_keys:
                    self._pass(self._number())
                self.skip(node, left)

    def _pass(self, count: int) -> None:
        if count < 0:
            raise ValueError("a size below zero")
        self._at += count
        if self._at > len(self._data):
            raise EOFError

    def _number(self, largest: int | None = None) -> int:
        zigzag = 0
        for place in range(_NUMBER_BYTES_MAX):
            byte = self._data[self._at]
            self._at += 1
            zigzag |= (byte & ~_MORE_FOLLOWS) << 7 * place
            if byte < _MORE_FOLLOWS:
                number = (zigzag >> 1) ^ -(zigzag & 1)
                if largest is not None and not 0 <= number <= largest:
                    raise ValueError("a union has no such branch")
                return number
        raise ValueError("a number of over 64 bits")


def _bounded_decimal(data: bytes, writer: Any = None, reader: Any = None) -> Decimal:
    if len(data) > DECIMAL_BYTES_MAX:
        raise ValueError(f"a decimal of {len(data)} bytes")
    decimal: Decimal = _decimal_of(data, writer, reader)
    return decimal


LOGICAL_READERS.update({f"{kind}-decimal": _bounded_decimal for kind in ("bytes", "fixed")})


def _written_date(value: Any, schema: Any) -> Any:
    if HAS_OTHERS in schema and isinstance(value, str | dt.datetime):
        return value
    return _write_date(value, schema)


LOGICAL_WRITERS["int-date"] = _written_date
