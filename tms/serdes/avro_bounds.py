"""Bounds that fastavro lacks, so that no bytes take long to read.

1. A number ends after ten bytes. fastavro's Python reads on, in quadratic time.
2. A decimal has at most `DECIMAL_BYTES_MAX`: its time is quadratic, and a megabyte takes minutes.
   This applies to all uses of fastavro in the process, because it has one table of logical types.
"""

from decimal import Decimal
from typing import Any

import fastavro
from fastavro import _read_py
from fastavro.io.binary_decoder import BinaryDecoder
from fastavro.read import LOGICAL_READERS

DECIMAL_BYTES_MAX = 1000
"""About 2,400 digits."""
_NUMBER_BYTES_MAX = 10
_MORE_FOLLOWS = 0x80
_decimal_of = LOGICAL_READERS["bytes-decimal"]


class _Decoder(BinaryDecoder):
    """fastavro's decoder, with bounded numbers."""

    def read_long(self) -> int:
        zigzag = 0
        for place in range(_NUMBER_BYTES_MAX):
            byte: bytes = self.fo.read(1)
            if not byte:
                raise EOFError
            zigzag |= (byte[0] & ~_MORE_FOLLOWS) << 7 * place
            if byte[0] < _MORE_FOLLOWS:
                return (zigzag >> 1) ^ -(zigzag & 1)
        raise ValueError("a number of over 64 bits")

    read_int = read_long
    read_enum = read_long
    read_index = read_long


def read_nested(stream: Any, writer: Any, reader: Any) -> Any:
    """Return a value, as fastavro's `schemaless_reader` in Python does."""
    named: dict[str, dict[str, Any]] = {"writer": {}, "reader": {}}
    writer = fastavro.parse_schema(writer, named["writer"])
    if reader is not None:
        reader = fastavro.parse_schema(reader, named["reader"])
    read_data: Any = _read_py.read_data
    make: Any = _Decoder
    return read_data(make(stream), writer, named, reader, {})


def _bounded_decimal(data: bytes, writer: Any = None, reader: Any = None) -> Decimal:
    if len(data) > DECIMAL_BYTES_MAX:
        raise ValueError(f"a decimal of {len(data)} bytes")
    decimal: Decimal = _decimal_of(data, writer, reader)
    return decimal


LOGICAL_READERS.update({f"{kind}-decimal": _bounded_decimal for kind in ("bytes", "fixed")})
