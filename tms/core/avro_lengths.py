"""Avro's lengths and counts: doubled (zig-zag), seven bits a byte, the low ones first."""

MORE_FOLLOWS = 0x80
"""The bit of a byte of an Avro number that says that another byte follows."""

_ZIGZAG_MAX = (1 << 64) - 1
_SHIFT_MAX = 63
"""The shift of a number's tenth byte."""


def avro_varint(rest: int) -> bytes:
    """Return Avro's encoding of a number that is zig-zag already: seven bits a byte, low first."""
    out = bytearray()
    while rest >= MORE_FOLLOWS:
        out.append(rest & ~MORE_FOLLOWS & 0xFF | MORE_FOLLOWS)
        rest >>= 7
    out.append(rest)
    return bytes(out)


LENGTHS = tuple(avro_varint(length << 1) for length in range(4096))
"""The encodings of the lengths that most payloads have."""


def avro_length(length: int) -> bytes:
    """Return Avro's encoding of a length or count >= 0."""
    return LENGTHS[length] if length < len(LENGTHS) else avro_varint(length << 1)


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """Return the length at `at` and where it ends.

    Raises `IndexError` if `data` ends before, `ValueError` if it is not a length. A number of over
    ten bytes is refused at once: to read on would take time by the square of its bytes.
    """
    byte = data[at]
    if byte < MORE_FOLLOWS and not byte & 1:  # most of them
        return byte >> 1, at + 1
    zigzag = shift = 0
    while (byte := data[at]) >= MORE_FOLLOWS:
        zigzag |= (byte & ~MORE_FOLLOWS) << shift
        shift += 7
        at += 1
        if shift > _SHIFT_MAX:
            raise ValueError("a number of over 10 bytes")
    zigzag |= byte << shift
    if zigzag & 1 or zigzag > _ZIGZAG_MAX:
        raise ValueError("a negative length" if zigzag & 1 else "a number of over 64 bits")
    return zigzag >> 1, at + 1
