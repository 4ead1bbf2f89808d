"""Reads heads, and caches their fields, so that repeated fields are not parsed again.

A client repeats itself, byte for byte: all its publishes of one size have the same fields. These do
not depend on the target, so they are cached without it, for all connections. Only fields received
twice are cached: otherwise a client that numbers its requests in a field would push out all others.

The route of a request is not cached here: it is looked up each time (`api.http.router`). Neither is
Authorization, which is cut out first, so that callers whose fields are otherwise equal share an
entry. Fields with CDAP's runtime token are not cached, because it is the authorization of a request
without the field of that name.
"""

import re

from cachetools import FIFOCache

from api.http.protocol.head import (
    HEAD_END,
    RUNTIME_TOKEN,
    Fields,
    Head,
    PartialHead,
    parse_head,
)
from tms.core.errors import TooLarge

_OF_EMPTY_LINES = (b"", b"\r", b"\n")
HEAD_BYTES_MAX = 1024
"""The fields of larger heads are parsed each time."""
_KEPT = 1024
_METHODS = {name.encode(): name for name in ("DELETE", "GET", "HEAD", "POST", "PUT")}
_AUTHORIZATION = b"\r\nAuthorization: "
_IN_LOWER_CASE = b"\r\nauthorization: "
_is_value = re.compile(rb"[!-~]+( [!-~]+)*").fullmatch
"""Values that the parser does not change: visible ASCII, with spaces in between."""
_is_safe = re.compile(rb"/[!\"$-~]*").fullmatch
"""A target that the parser accepts too: visible ASCII from its `/` on, without a fragment."""


class HeadCache:
    """The fields of heads, by their bytes. If there are too many, the oldest are dropped."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Fields] = {}
        self._seen: FIFOCache[bytes, None] = FIFOCache(_KEPT)
        """The fields received once."""

    def __len__(self) -> int:
        return len(self._kept)

    def parse(self, data: bytes, end: int) -> Head:
        """Return the head with which `data` begins, and which ends at `end`.

        Raises `InvalidRequest` (malformed_request, expectation_failed).
        """
        if end > HEAD_BYTES_MAX:
            return parse_head(data[:end])
        method_end = data.find(b" ", 0, end)
        target_end = data.find(b" ", method_end + 1, end)
        rest, authorization = data[target_end:end], None
        fields = self._kept.get(rest)  # fields with Authorization are not cached as they are
        if fields is None:
            rest, authorization = _without_authorization(rest)
            fields = self._kept.get(rest) if authorization else None
        target = data[method_end + 1 : target_end]
        if fields is not None:
            method = _METHODS.get(data[:method_end])
            is_plain = authorization is None or _is_value(authorization)
            if method is not None and is_plain and _is_safe(target):
                return method, target, fields, authorization
        parsed = parse_head(data[:end])
        # The parser accepts several spaces before a target, and values in several lines; then the
        # parts that were cut out differ from those that it found.
        is_cut_right = parsed[1] == target and parsed[3] == authorization
        if fields is None and is_cut_right and RUNTIME_TOKEN not in rest.lower():
            self._keep(rest, parsed[2])
        return parsed

    def _keep(self, rest: bytes, fields: Fields) -> None:
        """Cache fields if they were received before."""
        if rest not in self._seen:
            self._seen[rest] = None
            return
        del self._seen[rest]
        if len(self._kept) == _KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[rest] = fields


def _without_authorization(rest: bytes) -> tuple[bytes, bytes | None]:
    """Return fields without Authorization, and its value, None if it is missing."""
    at = rest.find(_AUTHORIZATION)
    if at < 0:
        at = rest.find(_IN_LOWER_CASE)
    if at < 0:
        return rest, None
    stop = rest.find(b"\r\n", at + 2)
    return rest[:at] + rest[stop:], rest[at + len(_AUTHORIZATION) : stop]


class HeadReader:
    """Reads the heads of one connection, one after the other, from the received bytes."""

    __slots__ = ("_bytes_max", "_heads", "_partial")

    def __init__(self, heads: HeadCache, bytes_max: int) -> None:
        """Look whole heads up in `heads`; a head has at most `bytes_max` bytes."""
        self._heads = heads
        self._bytes_max = bytes_max
        self._partial: PartialHead | None = None  # the head of which only a part has arrived

    def read(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return a head and the bytes after it; None until it is complete.

        Raises `InvalidRequest` (malformed_request, expectation_failed), `TooLarge`
        (head_too_large). Then nothing more may be read.
        """
        if self._partial is None:
            if data[:1] in _OF_EMPTY_LINES:
                data = data.lstrip(b"\r\n")  # empty lines before a request are ignored
                if not data:
                    return None
            end = data.find(HEAD_END) + len(HEAD_END)
            if len(HEAD_END) <= end:
                if end > self._bytes_max:
                    raise TooLarge("head_too_large", request_head_bytes_max=self._bytes_max)
                return self._heads.parse(data, end), data[end:]
            self._partial = PartialHead(self._bytes_max)
        read = self._partial.feed(data)
        if read is not None:
            self._partial = None
        return read

    def forget(self) -> None:
        """Drop a partial head: it is refused."""
        self._partial = None
