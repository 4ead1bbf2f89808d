"""Finds the end of a body. Pure: each kind is fed received bytes, and returns those of the body.

A body has a length, or comes in chunks, parsed strictly by RFC 9112, 7.1: otherwise two servers
could disagree on where a body ends. Extensions of chunks and trailers are ignored, up to a size and
a number.
"""

import re
from typing import Protocol

from api.http.protocol.head import FIELDS_MAX, LINE_END, Fields, malformed

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[\t -~\x80-\xff]*)?")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*")
_LINE_BYTES_MAX = 4096
_TRAILERS_BYTES_MAX = 16 * 1024


class Framing(Protocol):
    """The rest of a body."""

    @property
    def is_done(self) -> bool:
        """Whether the whole body was fed."""
        ...

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the part of `data` in the body, and the part after it.

        Raises `InvalidRequest` (malformed_request).
        """
        ...


class Counted:
    """A body of a known length."""

    def __init__(self, body_bytes: int) -> None:
        self._left = body_bytes

    @property
    def is_done(self) -> bool:
        """Whether the whole body was fed."""
        return self._left == 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the part of `data` in the body, and the part after it."""
        remaining = self._left
        if len(data) <= remaining:
            self._left = remaining - len(data)
            return data, b""
        self._left = 0
        return data[:remaining], data[remaining:]


class Chunked:
    """A body in chunks."""

    def __init__(self) -> None:
        self.is_done = False
        self._line = bytearray()
        """The bytes of a line that has no end yet."""
        self._left = 0
        """The rest of the current chunk."""
        self._is_in_chunk = False
        self._is_after_chunk = False
        """Whether the empty line after a chunk is next."""
        self._trailers_bytes = -1
        """Their length so far, once the last chunk has arrived."""
        self._trailers = 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the part of `data` in the body, and the part after it.

        Raises `InvalidRequest` (malformed_request).
        """
        parts: list[bytes] = []
        start = 0
        while start < len(data) and not self.is_done:
            if self._is_in_chunk:
                part = data[start : start + self._left]
                parts.append(part)
                start += len(part)
                self._left -= len(part)
                if not self._left:
                    self._is_in_chunk, self._is_after_chunk = False, True
            else:
                start = self._feed_line(data, start)
        return b"".join(parts), data[start:]

    def _feed_line(self, data: bytes, start: int) -> int:
        """Process a line, or the part received; return where it ends."""
        line = self._line
        if line.endswith(b"\r") and data.startswith(b"\n", start):
            stop = start
            del line[-1:]
            end = start + 1
        else:
            stop = data.find(LINE_END, start)
            end = stop + len(LINE_END)
            if stop < 0:
                stop = end = len(data)
                line += data[start:stop]
                if len(line) > _LINE_BYTES_MAX:
                    raise malformed("a chunk's line is too long")
                return end
            line += data[start:stop]
        if len(line) > _LINE_BYTES_MAX:
            raise malformed("a chunk's line is too long")
        whole = bytes(line)
        line.clear()
        self._end_line(whole)
        return end

    def _end_line(self, line: bytes) -> None:
        if self._is_after_chunk:
            if line:
                raise malformed("a chunk is longer than its size")
            self._is_after_chunk = False
        elif self._trailers_bytes >= 0:
            self._end_trailer(line)
        else:
            size = _SIZE_LINE.fullmatch(line)
            if size is None:
                raise malformed("a chunk has no size")
            self._left = int(size[1], 16)
            self._is_in_chunk = self._left > 0
            if not self._left:
                self._trailers_bytes = 0

    def _end_trailer(self, line: bytes) -> None:
        if not line:
            self.is_done = True
            return
        self._trailers += 1
        if self._trailers > FIELDS_MAX:
            raise malformed(f"there are more than {FIELDS_MAX} trailers")
        self._trailers_bytes += len(line) + len(LINE_END)
        if not _TRAILER.fullmatch(line) or self._trailers_bytes > _TRAILERS_BYTES_MAX:
            raise malformed("the lines after the last chunk are not trailers")


def framing_of(fields: Fields) -> Framing:
    """Return the framing of a request's body."""
    return Chunked() if fields.is_chunked else Counted(fields.body_bytes)
