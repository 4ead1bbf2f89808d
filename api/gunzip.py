"""Decompresses a gzip body while it arrives, never beyond a cap.

A body is one or more gzip members and nothing else (RFC 1952). What a few compressed bytes can make
of themselves is bounded by the cap, and the work of starting members by `MEMBERS_MAX`: each one
costs a decoder, and a member can be as short as 20 bytes.
"""

import zlib

from tms.core.errors import InvalidRequest, TooLarge

MEMBERS_MAX = 1024
_GZIP_ONLY = 16 + zlib.MAX_WBITS


class Gunzip:
    """Holds what has been decompressed so far."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._body = bytearray()
        self._members = 1
        self._decoder = zlib.decompressobj(_GZIP_ONLY)

    def __len__(self) -> int:
        return len(self._body)

    def feed(self, data: bytes) -> None:
        """Decompress the next part. Raises `InvalidRequest` (invalid_compression), `TooLarge`."""
        while data:
            if self._decoder.eof:
                self._next_member()
            room = self._bytes_max + 1 - len(self._body)
            try:
                self._body += self._decoder.decompress(data, room)
            except zlib.error as error:
                raise InvalidRequest("invalid_compression", reason=str(error)) from None
            if len(self._body) > self._bytes_max:
                raise TooLarge(
                    "request_too_large", request_bytes_max=self._bytes_max, compressed=True
                )
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
