"""The messaging interface over REST, with Avro bodies.

Which calls are repeated after a failure: those that read, `rollback` and `update_topic`, for
they may be done twice; the others only where they certainly were not carried out. Where the
connection broke after one of those was sent, `OutcomeUnknown` leaves the decision to the caller.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from tms.client.http import Http
from tms.client.reading import Part, Parts, read_on
from tms.client.retry import may_pass, repeat, was_not_done
from tms.core.errors import InternalError, InvalidRequest, OutcomeUnknown
from tms.core.message import MessageBlock
from tms.core.messaging import RollbackRange
from tms.core.topic import Topic, TopicId
from tms.core.transaction import Transaction
from tms.wire.avro_bodies import AVRO, AvroPollDecoder
from tms.wire.bodies import PollRequest, PublishRequest
from tms.wire.transaction_codec import encode_transaction

_JSON = "application/json"
_INT64_MAX = 2**63 - 1

Result = TypeVar("Result")


class RemoteMessaging:
    """What a server offers, as `tms.core.messaging.Messaging`."""

    def __init__(self, url: str, *, timeout_s: float, retry_for_s: float, compress: bool) -> None:
        """Make no connection yet. Raises `ValueError` where `url` is not a URL."""
        self._http = Http(url, timeout_s=timeout_s, compress=compress)
        self._retry_for_s = retry_for_s

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def create_topic(
        self, topic_id: TopicId, properties: Mapping[str, object] | None = None
    ) -> None:
        """Create a topic. Raises `TopicExists`, `InvalidRequest` (invalid_properties, _ttl)."""
        body = b"" if properties is None else _encode_properties(properties)
        await self._send_once("PUT", _path(topic_id), body, _JSON)

    async def update_topic(self, topic_id: TopicId, properties: Mapping[str, object]) -> None:
        """Replace all properties of a topic. Raises `TopicNotFound`, `InvalidRequest`."""
        path = f"{_path(topic_id)}/properties"
        await self._send_safely("PUT", path, _encode_properties(properties), _JSON)

    async def topic(self, topic_id: TopicId) -> Topic:
        """Return a topic's metadata. Raises `TopicNotFound`."""
        answer = await self._send_safely("GET", _path(topic_id))
        return Topic.of(topic_id, _decode_properties(answer))

    async def topics(self, namespace: str) -> list[str]:
        """Return the names of a namespace's topics in the order of their row keys."""
        answer = await self._send_safely("GET", f"v1/namespaces/{namespace}/topics")
        return _decode_json(answer, list[str])

    async def delete_topic(self, topic_id: TopicId) -> None:
        """Delete a topic and so all of its messages. Raises `TopicNotFound`."""
        await self._send_once("DELETE", _path(topic_id))

    async def publish(
        self, topic_id: TopicId, payloads: Sequence[bytes], write_pointer: int | None = None
    ) -> RollbackRange | None:
        """Publish `payloads` in order; durable when it returns. Raises as `Messaging.publish`."""
        body = _encode_publish(payloads, write_pointer)
        answer = await self._send_once(
            "POST", f"{_path(topic_id)}/publish", body, AVRO.content_type
        )
        with _of_the_server():
            return AVRO.decode_range(answer) if answer else None

    async def store(self, topic_id: TopicId, payloads: Sequence[bytes], write_pointer: int) -> None:
        """Store `payloads` under a write pointer. Raises as `Messaging.store`."""
        body = _encode_publish(payloads, write_pointer)
        await self._send_once("POST", f"{_path(topic_id)}/store", body, AVRO.content_type)

    async def rollback(self, topic_id: TopicId, published: RollbackRange) -> None:
        """Roll back what one publish wrote. Raises `TopicNotFound`, `RollbackRefused`."""
        body = AVRO.encode_range(published)
        await self._send_safely("POST", f"{_path(topic_id)}/rollback", body, AVRO.content_type)

    async def poll(
        self,
        topic_id: TopicId,
        position: bytes,
        *,
        limit: int | None = None,
        transaction: Transaction | None = None,
        wait_s: float = 0.0,
    ) -> AsyncIterator[MessageBlock]:
        """Give the messages from `position` on as they arrive. Raises as `Messaging.poll`."""
        raw = None if transaction is None else encode_transaction(transaction)

        def open_poll(position: bytes, limit: int | None) -> Parts[MessageBlock]:
            request = PollRequest(position, limit=limit, transaction=raw)
            return self._poll_once(topic_id, request, wait_s)

        blocks = read_on(open_poll, position, limit, when=may_pass, for_s=self._retry_for_s)
        try:
            async for part in blocks:
                yield part.run
        finally:
            await blocks.aclose()

    async def _poll_once(
        self, topic_id: TopicId, request: PollRequest, wait_s: float
    ) -> Parts[MessageBlock]:
        decoder = AvroPollDecoder()
        path, body = f"{_path(topic_id)}/poll", AVRO.encode_poll(request)
        async with self._http.stream(path, body, AVRO.content_type, wait_s) as parts:
            async for data in parts:
                with _of_the_server():
                    block = decoder.feed(data)
                if block.count:
                    yield Part(block, block.count, decoder.last_id)
        try:
            decoder.close()
        except InvalidRequest as error:
            raise OutcomeUnknown(url=self._http.url, **error.detail) from None

    async def _send_safely(
        self, method: str, path: str, body: bytes = b"", content_type: str | None = None
    ) -> bytes:
        """Send a request that may be carried out twice."""
        return await self._send(may_pass, method, path, body, content_type)

    async def _send_once(
        self, method: str, path: str, body: bytes = b"", content_type: str | None = None
    ) -> bytes:
        """Send a request that must not be carried out twice."""
        return await self._send(was_not_done, method, path, body, content_type)

    async def _send(self, when: Callable[[BaseException], bool], *request: Any) -> bytes:
        async def call() -> bytes:
            return await self._http.send(*request)

        return await repeat(call, when=when, for_s=self._retry_for_s)


def _path(topic_id: TopicId) -> str:
    return f"v1/namespaces/{topic_id.namespace}/topics/{topic_id.name}"


@contextmanager
def _of_the_server() -> Iterator[None]:
    """Blame the server, not the caller, for an answer that cannot be understood."""
    try:
        yield
    except InvalidRequest as error:
        raise InternalError(**error.detail) from None


def _encode_publish(payloads: Sequence[bytes], write_pointer: int | None) -> bytes:
    """Return the body of a publish or store.

    A pointer that Avro's long cannot hold is refused here, with the error that a server has for it.
    """
    if write_pointer is not None and not 0 < write_pointer <= _INT64_MAX:
        raise InvalidRequest("invalid_write_pointer", write_pointer=write_pointer)
    return AVRO.encode_publish(PublishRequest(write_pointer, payloads))


def _encode_properties(properties: Mapping[str, object]) -> bytes:
    try:
        return msgspec.json.encode(properties)
    except (TypeError, msgspec.MsgspecError) as error:
        raise InvalidRequest("invalid_properties", reason=str(error)) from None


def _decode_properties(answer: bytes) -> Mapping[str, str]:
    """Return the properties of either form: the seed's, which nests them, and CDAP's flat one."""
    value = _decode_json(answer, dict[str, Any])
    nested = value.get("properties")
    properties = nested if isinstance(nested, dict) else value
    return {name: str(text) for name, text in properties.items()}


def _decode_json(answer: bytes, kind: type[Result]) -> Result:
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.MsgspecError as error:
        raise InternalError(reason=str(error)) from None
