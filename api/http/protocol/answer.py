"""The bytes of an answer: its head, its chunks, its compressed body. Pure."""

import http
import zlib
from collections.abc import Iterable
from functools import lru_cache

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
GZIP_BYTES_MIN = 1024
"""A smaller answer fits into one packet anyway."""

_GZIP_LEVEL = 1
"""Most of the compression for a fraction of the time: a poll is read at once, not kept."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_HEADS_KEPT = 128

Headers = Iterable[tuple[bytes, bytes]]


def _status_line(status: int) -> bytes:
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


@lru_cache(_HEADS_KEPT)
def head_start(status: int, date: bytes, content_type: bytes | None, keep_alive: bool) -> bytes:  # noqa: FBT001  a key
    """Return the first lines of an answer's head. `date` is a whole line."""
    start = _status_line(status) + date
    if content_type is not None:
        start += b"content-type: %s\r\n" % content_type
    return start if keep_alive else start + b"connection: close\r\n"


def lines(headers: Headers) -> bytes:
    """Return headers as lines of a head."""
    return b"".join([b"%s: %s\r\n" % header for header in headers])


def chunk(part: bytes) -> bytes:
    """Return a part of an answer as a chunk; empty for an empty part, which would end the body."""
    return b"%x\r\n%s\r\n" % (len(part), part) if part else b""


class Gzip:
    """Compresses one answer, whole or part by part."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)

    def part(self, part: bytes) -> bytes:
        """Return the next compressed bytes, from which the answer can be read up to here."""
        return self._compressor.compress(part) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def last(self, part: bytes) -> bytes:
        """Return the rest of the compressed answer."""
        return self._compressor.compress(part) + self._compressor.flush()
