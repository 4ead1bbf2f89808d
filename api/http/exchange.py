"""One request and its answer, as a handler sees them.

A handler reads the body first (`api.http.request_body`) and answers once: whole, or as a stream.
An answer that did not wait for the end of the body closes the connection, because the next bytes on
it are not the next request.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Protocol

from api.http.context import Context
from api.http.door.access_control import AccessControl
from api.http.door.guarded import Guarded
from api.http.door.request import Request
from api.http.protocol.answer import GZIP_BYTES_MIN, LAST_CHUNK, Gzip, Headers, chunk, lines
from api.http.protocol.client_wire import ClientWire
from api.http.protocol.head import Fields
from api.http.protocol.media_types import (
    ArrowDecoder,
    answer_format_of,
    arrow_decoder_of,
    check_json,
    check_only_json,
    format_of,
    wants_decoded,
    wants_events,
)
from api.http.protocol.peer import Peer
from api.http.query_parameters import transaction_id_of
from api.http.request_ids import HEADER as REQUEST_ID
from api.http.request_ids import request_id_of
from tms.core.errors import InvalidRequest
from tms.core.values.caller import Caller
from tms.core.values.topic import TopicId
from tms.security.quotas import PrincipalUse
from tms.security.resources import Action, Resource
from tms.wire.bodies import BodyFormat, MessagesFormat
from tms.wire.cloud_events import CloudEventsFormat

OK = 200
NO_CONTENT = 204
SEE_OTHER = 303
NOT_MODIFIED = 304
CLIENT_GONE = 499
"""Counted, never sent: the client closed the connection before it had its answer."""
BROKEN_OFF = 500
"""Counted for a stream that failed after its 200 was sent."""

JSON_TYPE = b"application/json"
_OF_PAGES = b"access-control-"
_WITHOUT_BODY = (NO_CONTENT, NOT_MODIFIED)
_TAG_BYTES = 12
_TOPIC_IDS_KEPT = 16_384
_VARY = b"vary: accept-encoding\r\n"
_IS_GZIP = b"content-encoding: gzip\r\n"


class ClientGone(Exception):
    """Raised when the client has closed the connection, so nobody waits for the answer."""


@lru_cache(_TOPIC_IDS_KEPT)
def topic_id_of(namespace: str, name: str) -> TopicId:
    """Return the topic of these names. Raises `InvalidRequest`."""
    return TopicId(namespace, name)


class ServerSide(Protocol):
    """The endpoint of an exchange, implemented by `api.http.endpoint`."""

    @property
    def context(self) -> Context:
        """The context of the handlers."""
        ...

    @property
    def access(self) -> AccessControl | None:
        """The access control; None if everybody may do everything."""
        ...

    @property
    def is_compressed(self) -> bool:
        """Whether answers are compressed for clients that accept gzip."""
        ...

    @property
    def operation(self) -> Guarded | None:
        """The requested operation; None if there is none, or another server has it."""
        ...


def _has_version(cached: bytes, tag: bytes) -> bool:
    """Whether an If-None-Match names a version."""
    versions = [each.strip().removeprefix(b"W/") for each in cached.split(b",")]
    return tag in versions or versions == [b"*"]


class Exchange(Request):
    """A request, and the one answer to it."""

    __slots__ = (
        "_gzip",
        "_is_chunked",
        "_request_id",
        "bytes_in",
        "bytes_out",
        "context",
        "endpoint",
        "is_answered",
        "kept",
        "late_headers",
        "page_lines",
        "waited",
    )

    def __init__(
        self,
        connection: ClientWire,
        endpoint: ServerSide,
        *,
        method: str,
        path: str,
        query: bytes,
        names: Mapping[str, str],
        fields: Fields,
        authorization: bytes | None,
        whole_body: bytes | None,
    ) -> None:
        """Take a request, with its body if that is complete."""
        self.connection = connection
        self.endpoint = endpoint
        self.operation = endpoint.operation
        self.context: Context = endpoint.context
        """The context of the handlers of this application."""
        self.method = method
        self.path = path
        self.query = query
        self.names = names
        self.fields = fields
        self.headers = fields.values
        self.authorization = authorization
        self.whole_body = whole_body
        self.kept: list[bytes] | None = None
        """The parts of the body as received, if it may have to be sent again."""
        self.status = 0
        self.is_answered = False
        """Whether the whole answer was passed to the connection."""
        self.bytes_in = len(whole_body) if whole_body else 0
        self.bytes_out = 0
        self.waited = False
        """Whether the request asked to wait and did: its duration says nothing about the server."""
        self.admission = None
        self.uses = None
        self.refusal = None
        self.about = None
        self.late_headers: Callable[[], Headers] | None = None
        """Returns more headers of a whole answer, when that is sent."""
        self._gzip: Gzip | None = None
        self._is_chunked = False
        self._request_id: str | None = None
        self.page_lines = b""
        """Header lines of the answer, for a page of an allowed origin."""

    @property
    def request_id(self) -> str:
        """The id of the request, made if the caller sent none; the answer has it from then on."""
        if self._request_id is None:
            self._request_id = request_id_of(self.headers)
        return self._request_id

    @property
    def has_request_id(self) -> bool:
        """Whether the caller sent an id, or one was made."""
        return self._request_id is not None or REQUEST_ID in self.headers

    @property
    def namespace(self) -> str:
        """The namespace in the path, not checked."""
        return self.names["namespace"]

    @property
    def topic_id(self) -> TopicId:
        """The topic that the path names. Raises `InvalidRequest`."""
        return topic_id_of(self.names["namespace"], self.names["topic"])

    def topic_of(self, name: str) -> TopicId:
        """Return the topic of a name in the path's namespace. Raises `InvalidRequest`."""
        return topic_id_of(self.names["namespace"], name)

    @property
    def peer(self) -> Peer:
        """The other end of the connection, as far as the connection shows it."""
        return self.connection.peer

    @property
    def address(self) -> str:
        """The IP address of the caller, from its connection or a trusted proxy."""
        return self.context.callers.proxies.address_of(self.peer.address, self.headers)

    @property
    def caller(self) -> Caller:
        """The caller."""
        access, admission = self.endpoint.access, self.admission
        if access is None or admission is None:
            return self.fields.caller
        return access.trail.recording(self, admission.caller)

    async def touches(
        self, action: Action, topics: Sequence[TopicId], subscriptions: Sequence[str] = ()
    ) -> None:
        """Check access to the topics that the body names, with a subscription of each if any.

        Raises `NotPermitted`, `TopicNotFound` unless the caller may do the action to all of them.
        """
        if self.endpoint.access is not None:
            await self.endpoint.access.check_topics(self, action, topics, subscriptions)

    def may(self, action: Action, resource: Resource, subscription: str | None = None) -> bool:
        """Whether the caller may do `action`; always true without access control."""
        access = self.endpoint.access
        return access is None or access.may(self, action, resource, subscription)

    def check_access(
        self, action: Action, resource: Resource, subscription: str | None = None
    ) -> None:
        """Raise `NotPermitted`, `TopicNotFound` unless the caller may do `action`."""
        if self.endpoint.access is not None:
            self.endpoint.access.check(self, action, resource, subscription)

    async def check_again(self) -> None:
        """Raise as at the start if the request, which waited or took long, may not continue."""
        if self.endpoint.access is not None:
            await self.endpoint.access.check_again(self)

    @property
    def use(self) -> PrincipalUse | None:
        """The use of the caller; None if it has no limits."""
        return None if self.admission is None else self.admission.use

    @property
    def subscription(self) -> str:
        """The name of the subscription in the path, not checked."""
        return self.names["subscription"]

    @property
    def transaction_id(self) -> int:
        """The transaction that the path names. Raises `InvalidRequest`."""
        return transaction_id_of(self.names["transaction_id"])

    def body_format(self) -> BodyFormat:
        """Return the format of the body, which is the answer's too. Raises `InvalidRequest`."""
        content_type = self.headers.get(b"content-type")
        if content_type is None:
            raise InvalidRequest("unsupported_content_type", content_type=None)
        return format_of(content_type)

    def check_only_json(self, body: bytes | None = None) -> None:
        """Raise `InvalidRequest` (unsupported_content_type, not_acceptable) unless both are JSON.

        Pass the `body` if it may be empty, because an empty one needs no type.
        """
        check_only_json(self.headers, body)

    def arrow_decoder(self) -> ArrowDecoder | None:
        """Return the decoder of messages if the body is Arrow. Raises `InvalidRequest`."""
        return arrow_decoder_of(self.headers.get(b"content-type", b""))

    def answer_format(self, body_format: BodyFormat) -> MessagesFormat:
        """Return the format of a poll's answer: the body's, unless Accept requests another."""
        accept = self.headers.get(b"accept")
        if accept is None:
            return body_format
        if wants_events(accept):
            return CloudEventsFormat(self.topic_id)
        return answer_format_of(accept, body_format)

    @property
    def wants_decoded(self) -> bool:
        """Whether the answer to a poll is to be JSON of the values, decoded by their schemas."""
        accept = self.headers.get(b"accept")
        return accept is not None and wants_decoded(accept)

    def check_json(self) -> None:
        """Raise `InvalidRequest` (unsupported_content_type) if the body's type is not JSON.

        For bodies of PUT, which no page of another site can send without a preflight request. So
        they may have no type, or the default of Java and curl, which CDAP's client sends.
        """
        check_json(self.headers.get(b"content-type", b""))

    @property
    def body_unread(self) -> bool:
        """Whether there is more of the body than the handler has received."""
        return self.whole_body is None and not self.connection.is_body_read

    async def receive(self) -> bytes:
        """Return the next part of the body; empty after its end.

        Raises `ClientGone`, `InvalidRequest` (body_too_slow, malformed_request).
        """
        part = await self.connection.receive()
        if part is None:
            raise ClientGone
        self.bytes_in += len(part)
        if self.admission is not None:
            self.admission.take_part(part, is_last=not self.body_unread)
        if self.kept is not None:
            self.kept.append(part)
        return part

    async def gone(self) -> None:
        """Return when the client has closed the connection."""
        await self.connection.closed()

    async def ended(self) -> None:
        """Return when the client has closed the connection, or its side of it.

        In the second case it still gets answers, but the server need not wait for it.
        """
        await self.connection.ended()

    async def answer(
        self,
        status: int,
        body: bytes = b"",
        content_type: bytes | None = None,
        headers: Headers = (),
    ) -> None:
        """Send the whole answer."""
        connection = self.connection
        if connection.is_write_paused:
            await connection.drained()
        self.status = status
        self.bytes_out += len(body)
        if self.late_headers is not None:
            headers = (*headers, *self.late_headers())
        more = lines(headers) if headers else b""
        if self.page_lines:
            more += self.page_lines
        if self._request_id is not None or REQUEST_ID in self.headers:
            more += lines([(REQUEST_ID, self.request_id.encode())])
        if self.endpoint.is_compressed and len(body) >= GZIP_BYTES_MIN:
            more += _VARY
            if self.fields.takes_gzip:
                body = Gzip().last(body)
                more += _IS_GZIP
        head = connection.head_start(status, content_type, more)
        self.is_answered = True
        if status in _WITHOUT_BODY:
            connection.write_last(head + b"\r\n")
        elif self.method == "HEAD":
            connection.write_last(b"%scontent-length: %d\r\n\r\n" % (head, len(body)))
        else:
            connection.write_last(b"%scontent-length: %d\r\n\r\n%s" % (head, len(body), body))

    async def answer_tagged(self, body: bytes, content_type: bytes = JSON_TYPE) -> None:
        """Send a whole answer with its ETag; only its head if the client has this version."""
        tag = b'"%s"' % blake2b(body, digest_size=_TAG_BYTES).hexdigest().encode()
        cached = self.headers.get(b"if-none-match")
        headers = [(b"etag", tag)]
        if cached is not None and _has_version(cached, tag):
            await self.answer(NOT_MODIFIED, headers=headers)
        else:
            await self.answer(OK, body, content_type, headers)

    async def send_elsewhere(self, address: str) -> None:
        """Redirect a browser to the same page of another server."""
        query = b"?" + self.query if self.query else b""
        place = address.rstrip("/").encode() + self.path.encode("latin-1") + query
        await self.answer(SEE_OTHER, b"", None, [(b"location", place)])

    @property
    def is_begun(self) -> bool:
        """Whether the answer has begun: it can no longer become an error."""
        return self.status != 0

    async def start_stream(self, content_type: bytes, headers: Headers = ()) -> None:
        """Start an answer of unknown length; `send_part` sends its body.

        Raises `ClientGone`, also if the client has ended its side.
        """
        more = lines(headers) if headers else b""
        if self.endpoint.is_compressed:
            more += _VARY
            if self.fields.takes_gzip:
                self._gzip = Gzip()
                more += _IS_GZIP
        await self._start(OK, content_type, more, is_counted=False)
        if self.endpoint.access is not None:
            await self.endpoint.access.trail.report_uses(self)  # the stream may last long

    async def start_forwarded(self, status: int, headers: Headers) -> None:
        """Start the answer of another server; `send_part` sends its body.

        Raises `ClientGone` if its length is unknown and the client has ended its side.
        """
        headers = [each for each in headers if not each[0].lower().startswith(_OF_PAGES)]
        is_counted = b"content-length" in [name.lower() for name, _ in headers]
        is_counted = is_counted or status in _WITHOUT_BODY
        await self._start(status, None, lines(headers), is_counted=is_counted)

    async def _start(
        self, status: int, content_type: bytes | None, more: bytes, *, is_counted: bool
    ) -> None:
        connection = self.connection
        if connection.is_write_paused:
            await connection.drained()
        if not is_counted and not connection.start_stream():
            raise ClientGone
        self.status = status
        if self.has_request_id and REQUEST_ID not in more.lower():
            more += lines([(REQUEST_ID, self.request_id.encode())])
        more += self.page_lines
        if not is_counted and self.fields.is_http_10:
            connection.close_after()  # the end of the connection ends the answer
        elif not is_counted:
            self._is_chunked = True
            more += b"transfer-encoding: chunked\r\n"
        connection.write_later(connection.head_start(status, content_type, more) + b"\r\n")

    def send_head(self) -> None:
        """Send the head now, instead of together with the first part."""
        self.connection.write(b"")

    async def send_part(self, part: bytes, *, more: bool) -> None:
        """Send the next part of a stream once the connection has taken the earlier ones.

        Raises `ClientGone`.
        """
        connection = self.connection
        if connection.is_write_paused:
            await connection.drained()
        if connection.is_lost:
            raise ClientGone
        self.write_part(part, more=more)

    def write_part(self, part: bytes, *, more: bool) -> None:
        """Send the next part of a stream, whether or not the connection has taken the others."""
        connection = self.connection
        self.bytes_out += len(part)
        if self._gzip is not None:
            part = self._gzip.part(part) if more else self._gzip.last(part)
        if self._is_chunked:
            part = chunk(part) if more else chunk(part) + LAST_CHUNK
        if self.method == "HEAD":
            part = b""
        if more:
            connection.write(part)
        else:
            self.is_answered = True
            connection.write_last(part)
