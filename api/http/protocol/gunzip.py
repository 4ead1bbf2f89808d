"""Decompresses a gzip body while it arrives, never beyond a cap.

A body is one or more gzip members and nothing else (RFC 1952). Two more bounds prevent a few bytes
from causing much work: a body over `FREE_BYTES` is at most `ratio_max` times as long as its
compressed form, and it has at most `MEMBERS_MAX` members, because each costs a decoder.
"""

import zlib

from tms.core.errors import InvalidRequest, TooLarge

MEMBERS_MAX = 1024
FREE_BYTES = 1024 * 1024
"""A body up to this size may have any ratio of compression."""
_GZIP_ONLY = 16 + zlib.MAX_WBITS


class Gunzip:
    """Holds the bytes decompressed so far."""

    def __init__(self, bytes_max: int, ratio_max: int) -> None:
        self._bytes_max = bytes_max
        self._ratio_max = ratio_max
        self._fed = 0
        self._body = bytearray()
        self._members = 1
        self._decoder = zlib.decompressobj(_GZIP_ONLY)

    def __len__(self) -> int:
        return len(self._body)

    def feed(self, data: bytes) -> None:
        """Decompress the next part. Raises `InvalidRequest` (invalid_compression), `TooLarge`."""
        self._fed += len(data)
        expected_max = max(FREE_BYTES, self._fed * self._ratio_max)
        bytes_max = min(self._bytes_max, expected_max)
        while data:
            if self._decoder.eof:
                self._next_member()
            room = bytes_max + 1 - len(self._body)
            try:
                self._body += self._decoder.decompress(data, room)
            except zlib.error as error:
                raise InvalidRequest("invalid_compression", reason=str(error)) from None
            if len(self._body) > self._bytes_max:
                raise TooLarge(
                    "request_too_large", request_bytes_max=self._bytes_max, compressed=True
                )
            if len(self._body) > bytes_max:
                raise TooLarge("request_too_compressed", request_gzip_ratio_max=self._ratio_max)
            data = self._decoder.unused_data if self._decoder.eof else b""

    def finish(self) -> bytes:
        """Return the whole body. Raises `InvalidRequest` (invalid_compression) if it is cut off."""
        if not self._decoder.eof:
            raise InvalidRequest("invalid_compression", reason="the end is missing")
        return bytes(self._body)

    def _next_member(self) -> None:
        self._members += 1
        if self._members > MEMBERS_MAX:
            raise InvalidRequest("invalid_compression", members_max=MEMBERS_MAX)
        self._decoder = zlib.decompressobj(_GZIP_ONLY)
