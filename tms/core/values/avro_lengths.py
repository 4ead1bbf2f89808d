"""Avro's lengths and counts: zig-zag, seven bits a byte, the low ones first."""

from tms.core.values.varints import MORE_FOLLOWS, read_varint, varint

_ZIGZAG_MAX = (1 << 64) - 1

LENGTHS = tuple(varint(length << 1) for length in range(4096))
"""The encodings of the lengths of most payloads."""


def avro_length(length: int) -> bytes:
    """Return Avro's encoding of a length or count >= 0."""
    return LENGTHS[length] if length < len(LENGTHS) else varint(length << 1)


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """Return the length at `at` and where it ends.

    Raises `IndexError` if `data` ends before, `ValueError` if it is not a length. A number of more
    than ten bytes is refused at once, because reading on would take quadratic time.
    """
    byte = data[at]
    if byte < MORE_FOLLOWS and not byte & 1:  # most of them
        return byte >> 1, at + 1
    zigzag, end = read_varint(data, at)
    if zigzag & 1 or zigzag > _ZIGZAG_MAX:
        raise ValueError("a negative length" if zigzag & 1 else "a number of over 64 bits")
    return zigzag >> 1, end
