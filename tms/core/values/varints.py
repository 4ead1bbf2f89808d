"""Numbers of seven bits a byte, low ones first: for Avro, Protobuf, LevelDB and our formats.

DO NOT CHANGE: on disk.
"""

LOW = 0x7F
"""The bits of the number in a byte, and the largest number of one byte."""
MORE_FOLLOWS = 0x80
"""The bit of a byte that says that another byte follows."""


def varint(value: int) -> bytes:
    """Return the encoding of a number from 0 on."""
    encoded = bytearray()
    while value > LOW:
        encoded.append(value & LOW | MORE_FOLLOWS)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(data: bytes, at: int, bytes_max: int = 10) -> tuple[int, int]:
    """Return the number at `at`, and where it ends.

    Raises `IndexError` if `data` ends before, `ValueError` if it has more than `bytes_max` bytes:
    reading on would take quadratic time.
    """
    value = shift = 0
    end = at + bytes_max
    while (byte := data[at]) > LOW:
        value |= (byte & LOW) << shift
        shift += 7
        at += 1
        if at == end:
            raise ValueError(f"a number of over {bytes_max} bytes")
    return value | byte << shift, at + 1
