"""One request and its answer, over raw ASGI, and what all handlers share.

A handler reads the body first (`api.request_body`) and answers once. If it answers while a body is
still on its way, the client would either not see the answer (a socket closed with unread bytes is
reset) or, had it sent `Expect: 100-continue`, put its next request where the body is expected. So
such an answer closes the connection, and only after what comes was taken in for a moment.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from prometheus_client import CollectorRegistry
from starlette.types import Receive, Scope, Send

from api.arriving import ArrivingBytes
from api.content import ArrowDecoder, answer_format_of, arrow_decoder_of, format_of, is_json
from api.deadlines import Deadlines
from api.query import transaction_id_of
from tms.core.clock import Clock
from tms.core.cluster import Cluster
from tms.core.errors import InvalidRequest
from tms.core.limits import Limits
from tms.core.services import ServerServices
from tms.core.topic import TopicId
from tms.wire.avro_bodies import AVRO
from tms.wire.bodies import BodyFormat, MessagesFormat
from tms.wire.json_bodies import JSON

OK = 200
CLIENT_GONE = 499
"""Counted, never sent: the client closed the connection before it had its answer."""
BROKEN_OFF = 500
"""Counted for a stream that failed after its 200 was sent."""

LINGER_S = 2.0
"""How long bytes are taken in after an answer that did not wait for them."""

JSON_TYPE = b"application/json"
_TOPIC_IDS_KEPT = 16_384

TopicInfo = Literal["seed", "flat"]


class ClientGone(Exception):
    """Raised when the client has closed the connection: there is nobody to answer."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the handlers of one application work with."""

    services: ServerServices
    limits: Limits
    clock: Clock
    registry: CollectorRegistry
    topic_info: TopicInfo
    body_deadlines: Deadlines
    arriving: ArrivingBytes
    openapi: bytes
    cluster: Cluster | None = None
    """None where the server is alone."""


@lru_cache(_TOPIC_IDS_KEPT)
def _topic_id(namespace: str, name: str) -> TopicId:
    return TopicId(namespace, name)


class Exchange:
    """A request, and the one answer to it."""

    __slots__ = (
        "_send",
        "body_unread",
        "bytes_in",
        "bytes_out",
        "context",
        "headers",
        "receive",
        "scope",
        "status",
        "waited",
        "whole_body",
    )

    def __init__(
        self,
        context: Context,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: dict[bytes, bytes],
        *,
        whole_body: bytes | None = None,
    ) -> None:
        """Take a request, with its body where that came with the head."""
        self.context = context
        self.scope = scope
        self.headers = headers
        self.receive = receive
        self._send = send
        self.status = 0
        """Of the answer; 0 before there is one."""
        self.bytes_in = len(whole_body) if whole_body else 0
        self.bytes_out = 0
        self.waited = False
        """Whether the request asked to wait and did: its time is no measure of the server."""
        self.body_unread = whole_body is None and (
            headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        )
        self.whole_body = whole_body
        """None where it has to be received."""

    @property
    def namespace(self) -> str:
        """The namespace in the path, not checked."""
        return str(self.scope["path_params"]["namespace"])

    @property
    def topic_id(self) -> TopicId:
        """The topic that the path names. Raises `InvalidRequest`."""
        names = self.scope["path_params"]
        return _topic_id(names["namespace"], names["topic"])

    def topic_of(self, name: str) -> TopicId:
        """Return the topic of a name in the path's namespace. Raises `InvalidRequest`."""
        return _topic_id(self.namespace, name)

    @property
    def subscription(self) -> str:
        """The name of the subscription in the path, not checked."""
        return str(self.scope["path_params"]["subscription"])

    @property
    def transaction_id(self) -> int:
        """The transaction that the path names. Raises `InvalidRequest`."""
        return transaction_id_of(self.scope["path_params"]["transaction_id"])

    def body_format(self) -> BodyFormat:
        """Return the format of the body, which is the answer's too. Raises `InvalidRequest`."""
        content_type = self.headers.get(b"content-type")
        if content_type is None:
            raise InvalidRequest("unsupported_content_type", content_type=None)
        return format_of(content_type)

    def format_of_optional(self, body: bytes) -> BodyFormat:
        """Return the format of a body that may be empty, and then need not say: it is JSON."""
        if not body and b"content-type" not in self.headers:
            return JSON
        return self.body_format()

    def arrow_decoder(self) -> ArrowDecoder | None:
        """Return what decodes a body of messages that is Arrow. Raises `InvalidRequest`."""
        return arrow_decoder_of(self.headers.get(b"content-type", b""))

    def answer_format(self, body_format: BodyFormat) -> MessagesFormat:
        """Return the format of a poll's answer: the body's, unless Accept asks for Arrow."""
        accept = self.headers.get(b"accept")
        return body_format if accept is None else answer_format_of(accept, body_format)

    def range_format(self) -> BodyFormat:
        """Return the format of a rollback's body: Avro unless it says JSON, as CDAP takes it."""
        content_type = self.headers.get(b"content-type", b"")
        return format_of(content_type) if is_json(content_type) else AVRO

    async def answer(
        self,
        status: int,
        body: bytes = b"",
        content_type: bytes | None = None,
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        """Send the whole answer."""
        fields = [(b"content-length", b"%d" % len(body)), *headers]
        if content_type is not None:
            fields.append((b"content-type", content_type))
        if self.body_unread:
            fields.append((b"connection", b"close"))
        self.status = status
        self.bytes_out += len(body)
        await self._send({"type": "http.response.start", "status": status, "headers": fields})
        if self.body_unread:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
            await self._linger()
            body = b""
        await self._send({"type": "http.response.body", "body": body})

    async def start_stream(self, content_type: bytes) -> None:
        """Start an answer of unknown length; `send_part` gives its body."""
        self.status = OK
        fields = [(b"content-type", content_type)]
        await self._send({"type": "http.response.start", "status": OK, "headers": fields})

    async def start_forwarded(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Start the answer that another server gives; `send_part` gives its body."""
        self.status = status
        fields = list(headers)
        if self.body_unread:
            fields.append((b"connection", b"close"))
        await self._send({"type": "http.response.start", "status": status, "headers": fields})

    async def send_part(self, part: bytes, *, more: bool) -> None:
        """Send the next part of a stream once the connection has taken what came before."""
        self.bytes_out += len(part)
        await self._send({"type": "http.response.body", "body": part, "more_body": more})

    async def _linger(self) -> None:
        try:
            async with asyncio.timeout(LINGER_S):
                while self.body_unread:
                    message = await self.receive()
                    self.body_unread = message.get("more_body", False)
        except TimeoutError:
            pass


Handler = Callable[[Exchange], Awaitable[None]]
"""Reads what it needs of the exchange and answers it, or raises."""
