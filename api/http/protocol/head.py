"""Parses the head of a request. Pure: bytes in, values out; the parser is httptools'.

A head is the request line and the fields, up to and including the empty line. Its target is kept
apart from its fields, because clients repeat the fields byte for byte and the target is routed each
time (`api.http.protocol.head_cache`). So is Authorization, which differs between callers. CDAP's
client sends `X-CDAP-Runtime-Token: TYPE TOKEN` instead: without Authorization that is read as
`Bearer TOKEN`.

A head is refused unless
- its version is HTTP/1.0 or HTTP/1.1,
- in HTTP/1.1 it has exactly one Host,
- it has at most `FIELDS_MAX` fields,
- fields that frame the body or name the caller occur once, with one value.

`Upgrade` is a field like others: the server supports only HTTP/1.1.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from api.http.protocol.media_types import takes_gzip
from api.http.protocol.numbers import whole_number
from tms.core.errors import InvalidRequest, TooLarge
from tms.core.text.credentials import shortened
from tms.core.values.caller import ANYBODY, PART_HEADER, Caller

FIELDS_MAX = 100
"""The most fields of a head, and the most trailers."""
HEAD_END = b"\r\n\r\n"
LINE_END = b"\r\n"
MESSAGE_HEADER = b"tms-header-"
"""Before the name of a message's header, whose case counts."""

_VERSIONS = {b" HTTP/1.1": False, b" HTTP/1.0": True}
_PART = PART_HEADER.lower().encode()
_AUTHORIZATION = b"authorization"
RUNTIME_TOKEN = b"x-cdap-runtime-token"
_CREDENTIALS = frozenset((_AUTHORIZATION, RUNTIME_TOKEN))
_ONCE = frozenset(
    (
        _AUTHORIZATION,
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"host",
        b"origin",
        _PART,
        RUNTIME_TOKEN,
        b"transfer-encoding",
    )
)


class Fields(NamedTuple):
    """The fields of a head after its target."""

    values: Mapping[bytes, bytes]
    """By names in lower case; repeated fields are joined by commas. Not to be changed."""
    lines: tuple[tuple[bytes, bytes], ...]
    """As received, names in lower case, except that of a message's header after `tms-header-`.
    Neither has the fields that name the caller."""
    body_bytes: int
    """The length of the body; 0 if there is none, or if it comes in chunks."""
    is_chunked: bool
    is_http_10: bool
    keep_alive: bool
    takes_gzip: bool
    expects_continue: bool
    is_of_page: bool
    """Whether a browser says from which page the request comes."""
    caller: Caller
    """The caller."""
    passed: set[object]
    """The `Callers` that have accepted it: cached fields are not checked again."""


Head = tuple[str, bytes, Fields, bytes | None]
"""Method, target and fields of one request, and the value of Authorization, if any."""


def malformed(reason: str) -> InvalidRequest:
    """Return the error that says why bytes are not an HTTP/1.1 request."""
    return InvalidRequest("malformed_request", reason=reason)


class _Seen:
    """Records what a parser finds. It does not refer to the parser, so there is no cycle."""

    __slots__ = ("is_complete", "lines", "target")

    def __init__(self) -> None:
        self.target = bytearray()
        self.lines: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_url(self, part: bytes) -> None:
        """Record a part of the target."""
        self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Record a field. Raises `TooLarge`, which ends the parser, if there are too many."""
        if len(self.lines) == FIELDS_MAX:
            raise _too_many_fields()
        self.lines.append((_known(name), value))

    def on_headers_complete(self) -> None:
        """Record the end of the head."""
        self.is_complete = True


def _known(name: bytes) -> bytes:
    """Return a field's name in lower case, but keep the case of a message header's name."""
    lower = name.lower()
    return (
        MESSAGE_HEADER + name[len(MESSAGE_HEADER) :] if lower.startswith(MESSAGE_HEADER) else lower
    )


def _too_many_fields() -> TooLarge:
    return TooLarge("head_too_large", request_head_fields_max=FIELDS_MAX)


class HeadParser:
    """Parses one head, which may arrive in parts."""

    def __init__(self) -> None:
        self._seen = _Seen()
        self._parser = HttpRequestParser(self._seen)

    def feed(self, part: bytes) -> None:
        """Parse the next part.

        Raises `InvalidRequest` (malformed_request), `TooLarge` (head_too_large).
        """
        try:
            self._parser.feed_data(part)
        except HttpParserUpgrade:
            pass  # it requests another protocol, which the server does not support
        except HttpParserError as error:
            if isinstance(error.__context__, TooLarge):
                raise _too_many_fields() from None
            raise malformed(str(error)) from None

    def head(self, request_line: bytes) -> Head:
        """Return the head after all of it was fed. Raises `InvalidRequest` (malformed_request).

        `request_line` is its first line: the parser accepts those of other protocols too.
        """
        is_http_10 = _VERSIONS.get(request_line[-9:])
        seen = self._seen
        if is_http_10 is None or not seen.is_complete:
            raise malformed("the version is neither HTTP/1.1 nor HTTP/1.0")
        values = _joined(seen.lines)
        authorization, token = (values.pop(each, None) for each in (_AUTHORIZATION, RUNTIME_TOKEN))
        if authorization is None and token is not None:
            authorization = _bearer(token)
        if not is_http_10 and b"host" not in values:
            raise malformed("Host is missing")
        encoding = values.get(b"transfer-encoding")
        if encoding is not None and (is_http_10 or encoding.strip().lower() != b"chunked"):
            raise malformed("the only valid Transfer-Encoding is chunked, in HTTP/1.1")
        expected = values.get(b"expect", b"").lower()
        if expected not in (b"", b"100-continue"):
            raise InvalidRequest(
                "expectation_failed", expect=shortened(expected.decode("latin-1"), 80)
            )
        fields = Fields(
            values,
            tuple(line for line in seen.lines if line[0] not in _CREDENTIALS),
            _body_bytes(values.get(b"content-length", b"0")),
            is_chunked=encoding is not None,
            is_http_10=is_http_10,
            keep_alive=not is_http_10 and not _says_close(values.get(b"connection", b"")),
            takes_gzip=takes_gzip(values.get(b"accept-encoding", b"")),
            expects_continue=expected != b"" and not is_http_10,
            is_of_page=b"origin" in values or b"sec-fetch-site" in values,
            caller=_caller_of(values),
            passed=set(),
        )
        method = self._parser.get_method().decode()
        return _in_origin_form((method, bytes(seen.target), fields, authorization))


def _body_bytes(length: bytes) -> int:
    size = whole_number(length.strip(b" \t").decode("latin-1"))
    if size is None:
        raise malformed("Content-Length is not a number of bytes")
    return size


def _bearer(token: bytes) -> bytes:
    """Return the value of Authorization for a token of CDAP's client; the token's type is ignored.

    A token of another form is returned unchanged: it is an invalid credential.
    """
    kind, blank, value = token.strip(b" \t").partition(b" ")
    return b"Bearer " + (value.strip(b" \t") if blank and kind else kind)


def _caller_of(values: Mapping[bytes, bytes]) -> Caller:
    part = values.get(_PART)
    return ANYBODY if part is None else Caller(part=part.decode("latin-1"))


def _says_close(connection: bytes) -> bool:
    """Whether a Connection field says that the request is the last one, whatever else it says."""
    return any(each.strip(b" \t") == b"close" for each in connection.lower().split(b","))


def _joined(lines: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    values: dict[bytes, list[bytes]] = {}
    for name, value in lines:
        if name not in values:
            values[name] = [value]
        elif name in _ONCE:
            raise malformed(f"{name.decode('latin-1')} occurs twice")
        else:
            values[name].append(value)
    return {name: b", ".join(several) for name, several in values.items()}


def _in_origin_form(head: Head) -> Head:
    """Return a head whose target is a path and a query, or `*`.

    A target may be a whole URL, whose host then counts (RFC 9112, 3.2.2).
    """
    method, target, fields, authorization = head
    if b"#" in target:
        raise malformed("a target must not have a fragment")
    if target.startswith(b"/") or target == b"*":
        return head
    scheme, _, rest = target.partition(b"://")
    if scheme.lower() not in (b"http", b"https") or not rest:
        raise malformed("the target is neither a path nor a URL")
    host = re.split(rb"[/?]", rest, maxsplit=1)[0]
    path = rest[len(host) :]
    values = {**fields.values, b"host": host.rpartition(b"@")[2]}
    path = path if path.startswith(b"/") else b"/" + path
    return method, path, fields._replace(values=values), authorization


def parse_head(head: bytes) -> Head:
    """Return what a whole head says.

    Raises `InvalidRequest` (malformed_request, expectation_failed), `TooLarge` (head_too_large).
    """
    parser = HeadParser()
    parser.feed(head)
    return parser.head(head[: head.find(LINE_END)])


class PartialHead:
    """A head that arrives in parts. An error in it is raised as soon as its bytes arrive."""

    def __init__(self, bytes_max: int) -> None:
        """Accept a head of at most `bytes_max` bytes."""
        self._bytes_max = bytes_max
        self._come = bytearray()
        self._parser = HeadParser()

    def feed(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return the head and the bytes after it; None until it is complete.

        Raises `InvalidRequest` (malformed_request, expectation_failed), `TooLarge`
        (head_too_large).
        """
        before = len(self._come)
        self._come += data
        end = self._come.find(HEAD_END, max(0, before - len(HEAD_END) + 1))
        stop = end + len(HEAD_END) if end >= 0 else len(self._come)
        if stop > self._bytes_max:
            raise TooLarge("head_too_large", request_head_bytes_max=self._bytes_max)
        self._parser.feed(data[: stop - before])
        if end < 0:
            return None
        request_line = bytes(self._come[: self._come.find(LINE_END)])
        return self._parser.head(request_line), data[stop - before :]
