"""Reads heads, and keeps what their fields say: fields that came before are not parsed again.

A client repeats itself, byte for byte: all its publishes of one size have the same fields. What is
behind the target in a head says the same whatever the target is, so it is kept alone, for all
connections. Only fields that came twice are kept: a client that numbers its requests in a field
would push out all others.

Nothing is kept of where a request leads: that is looked up for each (`api.http.router`). Nor is
anything of Authorization, which is cut out first: callers who send the same but for that share what
is kept.
"""

import re

from cachetools import FIFOCache

from api.http.protocol.head import HEAD_END, Fields, Head, PartialHead, parse_head
from tms.core.errors import TooLarge

_OF_EMPTY_LINES = (b"", b"\r", b"\n")
HEAD_BYTES_MAX = 1024
"""The fields of larger heads are parsed each time."""
_KEPT = 1024
_METHODS = {name.encode(): name for name in ("DELETE", "GET", "HEAD", "POST", "PUT")}
_AUTHORIZATION = b"\r\nAuthorization: "
_IN_LOWER_CASE = b"\r\nauthorization: "
_is_value = re.compile(rb"[!-~]+( [!-~]+)*").fullmatch
"""Values that the parser does not change: visible ASCII, with blanks between."""
_is_safe = re.compile(rb"/[!\"$-~]*").fullmatch
"""A target that the parser takes too: visible ASCII from its `/` on, without a fragment."""


class HeadCache:
    """The fields of heads, by their bytes. Of too many, the oldest go."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Fields] = {}
        self._seen: FIFOCache[bytes, None] = FIFOCache(_KEPT)
        """The fields that came once."""

    def __len__(self) -> int:
        return len(self._kept)

    def parse(self, data: bytes, end: int) -> Head:
        """Return what the head says that `data` begins with and that ends at `end`.

        Raises `InvalidRequest` (malformed_request, expectation_failed).
        """
        if end > HEAD_BYTES_MAX:
            return parse_head(data[:end])
        method_end = data.find(b" ", 0, end)
        target_end = data.find(b" ", method_end + 1, end)
        behind, authorization = data[target_end:end], None
        fields = self._kept.get(behind)  # what has Authorization in it is not kept as it is
        if fields is None:
            behind, authorization = _without_authorization(behind)
            fields = self._kept.get(behind) if authorization else None
        target = data[method_end + 1 : target_end]
        if fields is not None:
            method = _METHODS.get(data[:method_end])
            is_plain = authorization is None or _is_value(authorization)
            if method is not None and is_plain and _is_safe(target):
                return method, target, fields, authorization
        parsed = parse_head(data[:end])
        # The parser takes several spaces before a target, and values in several lines; then what
        # was cut out is not what it found.
        if fields is None and parsed[1] == target and parsed[3] == authorization:
            self._keep(behind, parsed[2])
        return parsed

    def _keep(self, behind: bytes, fields: Fields) -> None:
        """Keep fields if they came before."""
        if behind not in self._seen:
            self._seen[behind] = None
            return
        del self._seen[behind]
        if len(self._kept) == _KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[behind] = fields


def _without_authorization(behind: bytes) -> tuple[bytes, bytes | None]:
    """Return fields without Authorization, and what that says; None if it is not there."""
    at = behind.find(_AUTHORIZATION)
    if at < 0:
        at = behind.find(_IN_LOWER_CASE)
    if at < 0:
        return behind, None
    stop = behind.find(b"\r\n", at + 2)
    return behind[:at] + behind[stop:], behind[at + len(_AUTHORIZATION) : stop]


class HeadReader:
    """Reads the heads of one connection, one after the other, out of the bytes that come."""

    __slots__ = ("_bytes_max", "_heads", "_partial")

    def __init__(self, heads: HeadCache, bytes_max: int) -> None:
        """Look whole heads up in `heads`; a head has `bytes_max` bytes at most."""
        self._heads = heads
        self._bytes_max = bytes_max
        self._partial: PartialHead | None = None  # the head that is coming, if part of it has come

    def read(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return a head and what comes behind it; None until its end has come.

        Raises `InvalidRequest` (malformed_request, expectation_failed), `TooLarge`
        (head_too_large). Then nothing more may be read.
        """
        if self._partial is None:
            if data[:1] in _OF_EMPTY_LINES:
                data = data.lstrip(b"\r\n")  # empty lines before a request are passed over
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
        """Keep nothing of a head that is coming: it is refused."""
        self._partial = None
