"""Avro's primitives, by hand.

A library reads a whole array of messages before its size can be refused. It takes twice as long for
messages of one length, and for the request of a poll an eighth of the whole poll.

    number := zig-zag, seven bits a byte, low first, at most ten bytes
    bytes, string := length, bytes
    array := (count, item*)*, 0; after a negative count comes the items' size in bytes
    union, enum := the number of the branch, of the symbol

The schemas are in the codecs that use this; tests compare the codecs with the library.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import lru_cache
from struct import Struct

from tms.core.errors import InvalidRequest
from tms.core.values.avro_lengths import avro_length
from tms.core.values.varints import MORE_FOLLOWS, varint
from tms.wire.bodies import too_many_messages

INT_BOUND = 1 << 31
LONG_BOUND = 1 << 63
_SHIFT_MAX = 63
"""The shift of a number's tenth byte."""

_EQUAL_RUN_MIN = 4
"""The least number of messages of one length that are cut at once."""
_CUT_ITEMS = 16
"""Items of one length that one call cuts, in a quarter of the time of single items."""
_CUTS_KEPT = 64

NULL = b"\x02"
"""The second branch of a union, which is null in all of our unions of two."""
END = b"\x00"
"""The end of an array."""


def number(value: int) -> bytes:
    """Return the encoding of a number of 64 bits."""
    return varint((value << 1) ^ (value >> _SHIFT_MAX))


def sized(value: bytes) -> bytes:
    """Return the encoding of bytes."""
    return avro_length(len(value)) + value


def boolean(*, value: bool) -> bytes:
    """Return the encoding of a boolean."""
    return b"\x01" if value else b"\x00"


def optional(value: bytes | None) -> bytes:
    """Return a union of something and null; `value` is the encoding of the something."""
    return NULL if value is None else b"\x00" + value


def array(items: Sequence[bytes]) -> bytes:
    """Return an array of encoded items, in one block."""
    return b"".join((number(len(items)), *items, END)) if items else END


def bytes_array(values: Sequence[bytes]) -> bytes:
    """Return an array of bytes, in one block."""
    return array([sized(value) for value in values])


@lru_cache(_CUTS_KEPT)
def _cut_of(head_bytes: int, length: int) -> Callable[[bytes, int], tuple[bytes, ...]]:
    """Return a function that cuts `_CUT_ITEMS` items from a place in a body."""
    return Struct(f"{head_bytes}x{length}s" * _CUT_ITEMS).unpack_from


class AvroReader:
    """Reads from the front of a body. Each method may raise `InvalidRequest` (invalid_body)."""

    __slots__ = ("_at", "_body")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def number(self, bound: int = LONG_BOUND) -> int:
        """Return a number from -bound to bound - 1."""
        zigzag = shift = 0
        body, at = self._body, self._at
        try:
            byte = body[at]
            if byte < MORE_FOLLOWS:  # most numbers, within any bound
                self._at = at + 1
                return (byte >> 1) ^ -(byte & 1)
            while byte >= MORE_FOLLOWS:
                zigzag |= (byte & ~MORE_FOLLOWS) << shift
                shift += 7
                at += 1
                byte = body[at]
                if shift > _SHIFT_MAX:
                    raise invalid("a number of over 10 bytes")
        except IndexError:
            raise invalid("the body is cut off") from None
        self._at = at + 1
        zigzag |= byte << shift
        value = (zigzag >> 1) ^ -(zigzag & 1)
        if -bound <= value < bound:
            return value
        raise invalid("a number out of range")

    def branch(self, count: int) -> int:
        """Return which of `count` branches of a union, or symbols of an enum, comes next."""
        branch = self.number(INT_BOUND)
        if 0 <= branch < count:
            return branch
        raise invalid("a union or enum without such a branch")

    def has_value(self) -> bool:
        """Return whether the value of a union with null is not null."""
        if self._body[self._at : self._at + 1] == NULL:
            self._at += 1
            return False
        return self.branch(2) == 0

    def sized(self) -> bytes:
        """Return bytes after their length."""
        length = self.number()
        end = self._at + length
        if length < 0 or end > len(self._body):
            raise invalid("the body is cut off")
        value = self._body[self._at : end]
        self._at = end
        return value

    def text(self) -> str:
        """Return a string."""
        try:
            return self.sized().decode()
        except UnicodeDecodeError as error:
            raise invalid(str(error)) from None

    def boolean(self) -> bool:
        """Return a boolean."""
        byte = self._body[self._at : self._at + 1]
        if byte not in (b"\x00", b"\x01"):
            raise invalid("no boolean")
        self._at += 1
        return byte == b"\x01"

    def items(self, messages_max: int | None = None) -> Iterator[int]:
        """Yield the number, from 0 on, of each item of an array; the caller reads the item.

        Items have a byte each at least, so an array ends with the body. Raises `TooLarge` before
        the first item of a block that would exceed `messages_max` if each has at least one message.
        """
        total = 0
        while count := self._block(messages_max, total):
            yield from range(total, total + count)
            total += count

    def steps(self, messages_max: int, before: int = 0) -> Generator[None, None, list[bytes]]:
        """Return an array of messages, which are bytes, in one step.

        Raises `TooLarge` if they exceed `messages_max` together with the `before` earlier ones of
        the request.
        """
        yield from ()
        decoded: list[bytes] = []
        while count := self._block(messages_max, before + len(decoded)):
            self._add_bytes(count, decoded)
        return decoded

    def _block(self, messages_max: int | None, before: int) -> int:
        """Return how many items the next block of an array has; 0 at its end."""
        if self._body[self._at : self._at + 1] == END:
            self._at += 1
            return 0
        count = self.number()
        if count < 0:
            count = -count
            self.number()
        if messages_max is not None and before + count > messages_max:
            raise too_many_messages(before + count, messages_max)
        return count

    def _add_bytes(self, count: int, items: list[bytes]) -> None:
        run = self._equal_run(count) if count >= _EQUAL_RUN_MIN else []
        items += run
        append, body, at = items.append, self._body, self._at
        try:
            for _ in range(count - len(run)):
                zigzag = body[at]
                at += 1
                if zigzag >= MORE_FOLLOWS:
                    high = body[at]
                    if high >= MORE_FOLLOWS:
                        self._at = at - 1
                        append(self.sized())
                        at = self._at
                        continue
                    zigzag = high << 7 | zigzag & ~MORE_FOLLOWS
                    at += 1
                if zigzag & 1:
                    raise invalid("a negative length")
                end = at + (zigzag >> 1)
                append(body[at:end])
                at = end
        except IndexError:
            raise invalid("the body is cut off") from None
        if at > len(body):
            raise invalid("the body is cut off")
        self._at = at

    def _equal_run(self, count: int) -> list[bytes]:
        """Return the leading items, of `count`, that have one length, cut at once."""
        body, start = self._body, self._at
        length = self.number()
        if length < 0:
            raise invalid("a negative length")
        head = body[start : self._at]
        size = len(head) + length
        equal = min(count, (len(body) - start) // size)
        stop = start + equal * size
        for at, byte in enumerate(head):
            bytes_there = body[start + at : stop : size]
            others = bytes_there.lstrip(bytes((byte,)))
            equal = min(equal, len(bytes_there) - len(others))
        self._at = start + equal * size
        run: list[bytes] = []
        for _ in range(equal // _CUT_ITEMS):
            run += _cut_of(len(head), length)(body, start)
            start += _CUT_ITEMS * size
        first, rest = start + len(head), equal % _CUT_ITEMS
        run += [body[at : at + length] for at in range(first, first + rest * size, size)]
        return run

    def rest(self) -> bytes:
        """Return the remaining bytes."""
        start, self._at = self._at, len(self._body)
        return self._body[start:]

    def end(self) -> None:
        """Raise `InvalidRequest` unless everything was read."""
        if self._at != len(self._body):
            raise invalid("bytes left over")


def invalid(reason: str) -> InvalidRequest:
    """Return the error of a body that does not match its schema."""
    return InvalidRequest("invalid_body", format="avro", reason=reason)
