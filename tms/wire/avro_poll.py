"""Decodes a poll's request from Avro by hand: a library's reader took an eighth of a whole poll.

    ConsumeRequest := startFrom:   0 bytes | 1 long | 2 null
                      inclusive:   one byte, 0 or 1
                      limit:       0 int | 1 null
                      transaction: 0 bytes | 1 null

The number in front of a union says which branch follows. The schema is in `avro_bodies`; the tests
hold this reader against the library's, on valid and on any other bytes.
"""

from tms.core.errors import InvalidRequest
from tms.core.message import MORE_FOLLOWS
from tms.wire.bodies import PollRequest

_INT_BOUND = 1 << 31
_LONG_BOUND = 1 << 63


class _Reader:
    """Reads Avro's primitives from the front of a body."""

    __slots__ = ("_at", "_body")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def number(self, bound: int) -> int:
        """Return a zig-zag number from -bound to bound - 1."""
        zigzag = shift = 0
        body, at = self._body, self._at
        while at < len(body):
            byte = body[at]
            at += 1
            zigzag |= (byte & ~MORE_FOLLOWS) << shift
            if byte < MORE_FOLLOWS:
                self._at = at
                number = (zigzag >> 1) ^ -(zigzag & 1)
                if -bound <= number < bound:
                    return number
                raise _invalid("a number out of range")
            shift += 7
        raise _invalid("the body is cut off")

    def branch(self, count: int) -> int:
        """Return which of `count` branches of a union follows."""
        branch = self.number(_INT_BOUND)
        if 0 <= branch < count:
            return branch
        raise _invalid("a union without such a branch")

    def bytes(self) -> bytes:
        """Return bytes behind their length."""
        length = self.number(_LONG_BOUND)
        end = self._at + length
        if length < 0 or end > len(self._body):
            raise _invalid("the body is cut off")
        found = self._body[self._at : end]
        self._at = end
        return found

    def boolean(self) -> bool:
        """Return a boolean."""
        byte = self._body[self._at : self._at + 1]
        if byte not in (b"\x00", b"\x01"):
            raise _invalid("no boolean")
        self._at += 1
        return byte == b"\x01"

    def end(self) -> None:
        """Raise `InvalidRequest` unless all has been read."""
        if self._at != len(self._body):
            raise _invalid("bytes left over")


def _invalid(reason: str) -> InvalidRequest:
    return InvalidRequest("invalid_body", format="avro", reason=reason)


def decode_poll_request(body: bytes) -> PollRequest:
    """Return what a poll asks. Raises `InvalidRequest` (invalid_body)."""
    reader = _Reader(body)
    branch = reader.branch(3)
    start_from: bytes | int | None = None
    if branch == 0:
        start_from = reader.bytes()
    elif branch == 1:
        start_from = reader.number(_LONG_BOUND)
    inclusive = reader.boolean()
    limit = reader.number(_INT_BOUND) if reader.branch(2) == 0 else None
    transaction = reader.bytes() if reader.branch(2) == 0 else None
    reader.end()
    return PollRequest(start_from, inclusive, limit, transaction)
