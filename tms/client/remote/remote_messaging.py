"""The messaging interface over REST. Messages are in Avro; with acks, in JSON.

Calls that are repeated after any failure, because they may be done twice: those that read,
`rollback`, `update_topic`, and `publish_all` with an owner and a sequence. The others are repeated
only if they certainly were not carried out. If the connection broke after one of those was sent,
`OutcomeUnknown` leaves the decision to the caller.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from time import monotonic
from typing import Any

import msgspec

from tms.client.remote.calls import JSON, Remote, of_the_server
from tms.client.remote.resume import AnswerPart, Parts, read_on
from tms.client.remote.retry import may_pass
from tms.core.errors import InvalidRequest, OutcomeUnknown
from tms.core.limits import INT64_MAX
from tms.core.services.commits import NOTHING, CommitRequest
from tms.core.services.messaging import (
    AT_END,
    EMPTY,
    NEXT_POSITION,
    NO_IDS,
    STOPPED_AT,
    AllPublished,
    Passed,
    Published,
    RollbackRange,
    Stopped,
)
from tms.core.services.transactions import check_owner
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.frame import framed_of
from tms.core.values.message import MessageBlock, id_after, parse_id
from tms.core.values.reading import Isolation, Reading
from tms.core.values.topic import TopicId, TopicMetadata
from tms.core.values.transaction import Transaction
from tms.wire.avro_bodies import AVRO, AvroFormat
from tms.wire.avro_frames import AVRO_FRAMES
from tms.wire.avro_runs import AvroRunsDecoder
from tms.wire.bodies import PollRequest, PublishAllRequest, PublishRequest
from tms.wire.json_bodies import JSON as JSON_BODIES
from tms.wire.json_values import decode_answer
from tms.wire.transaction_codec import encode_transaction


class RemoteMessaging(Remote):
    """Topics and messages of a server, as `tms.core.services.messaging.Messaging`."""

    async def create_topic(
        self,
        topic_id: TopicId,
        properties: Mapping[str, object] | None = None,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        """Create a topic. Raises `TopicExists`, `InvalidRequest` (invalid_properties, _ttl)."""
        body = b"" if properties is None else _encode_properties(properties)
        await self._calls.once("PUT", topic_path(topic_id), body, JSON, caller)

    async def update_topic(
        self, topic_id: TopicId, properties: Mapping[str, object], *, caller: Caller = ANYBODY
    ) -> None:
        """Replace all properties of a topic. Raises `TopicNotFound`, `InvalidRequest`."""
        path = f"{topic_path(topic_id)}/properties"
        await self._calls.safely("PUT", path, _encode_properties(properties), JSON, caller)

    async def trim_topic(
        self, topic_id: TopicId, before_ms: int, *, caller: Caller = ANYBODY
    ) -> None:
        """Expire the messages written before a time. Raises as `Messaging.trim_topic`."""
        body = msgspec.json.encode({"before": before_ms})
        await self._calls.safely("POST", f"{topic_path(topic_id)}/trim", body, JSON, caller)

    async def topic(self, topic_id: TopicId) -> TopicMetadata:
        """Return a topic's metadata. Raises `TopicNotFound`."""
        answer = await self._calls.safely("GET", topic_path(topic_id))
        return TopicMetadata.of(topic_id, _decode_properties(answer))

    async def topics(self, namespace: str) -> list[str]:
        """Return the names of a namespace's topics in the order of their row keys."""
        path = self._calls.listing(f"v1/namespaces/{namespace}/topics")
        answer = await self._calls.safely("GET", path)
        return decode_answer(list[str], answer)

    async def delete_topic(self, topic_id: TopicId, *, caller: Caller = ANYBODY) -> None:
        """Delete a topic and so all of its messages. Raises `TopicNotFound`."""
        await self._calls.once("DELETE", topic_path(topic_id), caller=caller)

    async def publish(
        self,
        topic_id: TopicId,
        payloads: Sequence[bytes],
        write_pointer: int | None = None,
        *,
        if_last: bytes | None = None,
        caller: Caller = ANYBODY,
    ) -> Published:
        """Publish `payloads` in order; durable when it returns. Raises as `Messaging.publish`."""
        body_format = format_of(payloads)
        body = encode_publish(body_format, payloads, write_pointer)
        path = f"{topic_path(topic_id)}/publish?ids=true"
        if if_last is not None:
            path += f"&if_last={if_last.hex() or EMPTY}"
        answer = await self._calls.once("POST", path, body, body_format.content_type, caller)
        with of_the_server():
            return AVRO.decode_published(answer, len(payloads)) if answer else NO_IDS

    async def store(
        self,
        topic_id: TopicId,
        payloads: Sequence[bytes],
        write_pointer: int,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        """Store `payloads` under a write pointer. Raises as `Messaging.store`."""
        body_format = format_of(payloads)
        body = encode_publish(body_format, payloads, write_pointer)
        path = f"{topic_path(topic_id)}/store"
        await self._calls.once("POST", path, body, body_format.content_type, caller)

    async def rollback(
        self, topic_id: TopicId, published: RollbackRange, *, caller: Caller = ANYBODY
    ) -> None:
        """Roll back what one publish wrote. Raises `TopicNotFound`, `RollbackRefused`."""
        body = AVRO.encode_range(published)
        path = f"{topic_path(topic_id)}/rollback"
        await self._calls.safely("POST", path, body, AVRO.content_type, caller)

    async def publish_all(
        self,
        publications: Mapping[TopicId, Sequence[bytes]],
        *,
        owner: str | None = None,
        sequence: int | None = None,
        request: CommitRequest = NOTHING,
        caller: Caller = ANYBODY,
    ) -> AllPublished:
        """Publish to several topics of one namespace at once. Raises as `Messaging.publish_all`."""
        check_owner(owner, sequence)
        if not publications:
            raise InvalidRequest("empty_publish")
        [namespace] = {topic_id.namespace for topic_id in publications}
        topics = {topic_id.name: payloads for topic_id, payloads in publications.items()}
        # Avro has no place for the other work of a commit.
        body_format = format_of(*topics.values()) if request == NOTHING else JSON_BODIES
        body = body_format.encode_publish_all(PublishAllRequest(topics, owner, sequence, request))
        send = self._calls.once if sequence is None else self._calls.safely
        path = f"v1/namespaces/{namespace}/publish"
        answer = await send("POST", path, body, body_format.content_type, caller)
        with of_the_server():
            return body_format.decode_published_all(answer)

    async def poll(
        self,
        topic_id: TopicId,
        reading: Reading,
        wait_s: float = 0.0,
        stopped: Stopped | None = None,
        *,
        passed: Passed | None = None,
    ) -> AsyncIterator[MessageBlock]:
        """Yield the requested messages as they arrive. Raises as `Messaging.poll`."""
        view, raw = reading.view, None
        query: dict[str, str | int] = {}
        if isinstance(view, Transaction):
            raw = encode_transaction(view)
        elif isinstance(view, int):
            query["transaction_id"] = view
        elif view is Isolation.COMMITTED:
            query["isolation"] = view.value
        if reading.end is not None:
            query["end"] = reading.end.hex()
        if wait_s:
            query["wait"] = f"{wait_s:.3f}"
        place = None
        if reading.filter is not None:
            query["filter"] = reading.filter.text
            place = _Place(reading.position, passed)

        def open_poll(position: bytes, limit: int | None) -> Parts[MessageBlock]:
            request = PollRequest(position, limit=limit, transaction=raw)
            if place is None:
                return self._poll_once(topic_id, request, query, wait_s, stopped)
            return self._poll_on(topic_id, request, query, wait_s, stopped, place=place)

        for_s = self._calls.retry_for_s
        blocks = read_on(open_poll, reading.position, reading.limit, when=may_pass, for_s=for_s)
        try:
            async for part in blocks:
                yield part.run
        finally:
            await blocks.aclose()

    async def _poll_on(
        self,
        topic_id: TopicId,
        request: PollRequest,
        query: Mapping[str, Any],
        wait_s: float,
        stopped: Stopped | None,
        *,
        place: "_Place",
    ) -> Parts[MessageBlock]:
        """Poll with a filter to the end or the limit: an answer may end before both."""
        assert isinstance(request.start_from, bytes)
        place.move(request.start_from)
        until_s, limit = monotonic() + wait_s, request.limit
        while True:
            if wait_s and monotonic() >= until_s:
                wait_s = 0.0
                query = _without_wait(query)
            request = request._replace(start_from=place.position, limit=limit)
            answer = self._poll_once(topic_id, request, query, wait_s, stopped, place=place)
            async with aclosing(answer) as parts:
                async for part in parts:
                    yield part
                    limit = None if limit is None else limit - part.size
                    until_s = 0.0
            if place.is_at_end or limit == 0:
                return

    async def _poll_once(
        self,
        topic_id: TopicId,
        request: PollRequest,
        query: Mapping[str, Any],
        wait_s: float,
        stopped: Stopped | None,
        *,
        place: "_Place | None" = None,
    ) -> Parts[MessageBlock]:
        decoder = AvroRunsDecoder()
        path, body = f"{topic_path(topic_id)}/poll", AVRO_FRAMES.encode_poll(request)
        http, content_type = self._calls.http, AVRO_FRAMES.content_type
        stopped_at = None
        try:
            async with http.stream(path, body, content_type, query, wait_s) as (headers, parts):
                stopped_at = _pointer_in(headers)
                if stopped_at is not None and stopped is not None:
                    stopped(stopped_at)
                async for data in parts:
                    with of_the_server():
                        block = decoder.feed(data)
                    if block.count:
                        yield AnswerPart(block, block.count, decoder.last_id)
            try:
                decoder.close()
            except InvalidRequest as error:
                raise OutcomeUnknown(url=http.url, **error.detail) from None
            if place is not None:
                place.read(headers, decoder.last_id)
        except OutcomeUnknown:
            if stopped_at is None or not wait_s or decoder.last_id:
                raise
        else:
            return
        # The reader waited at a transaction, in an answer that had begun, and which therefore
        # could not say why the reader may not continue: ask again for the reason.
        query = _without_wait(query)
        answer = self._poll_once(topic_id, request, query, 0.0, stopped, place=place)
        async with aclosing(answer) as again:
            async for part in again:
                yield part


class _Place:
    """Where a poll with a filter continues."""

    def __init__(self, position: bytes, passed: Passed | None) -> None:
        self.position = position
        self.is_at_end = False
        self._passed = passed

    def move(self, position: bytes) -> None:
        """Move it forward to `position`, never back."""
        self.position = max(self.position, position)

    def read(self, headers: Mapping[str, str], last_id: bytes) -> None:
        """Move it after a whole answer, whose last message is `last_id`, if there is one."""
        self.is_at_end = headers.get(AT_END) != "false"
        with of_the_server():
            self.move(parse_id(headers.get(NEXT_POSITION, "")))
        if last_id:
            self.move(id_after(last_id))
        if self._passed is not None:
            self._passed(self.position)


def _without_wait(query: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in query.items() if name != "wait"}


def _pointer_in(headers: Mapping[str, str]) -> int | None:
    """Return where a reader has stopped, from an answer's headers; None if it has not."""
    said = headers.get(STOPPED_AT, "")
    return int(said) if said.isascii() and said.isdigit() else None


def topic_path(topic_id: TopicId) -> str:
    """Return a topic's path."""
    return f"v1/namespaces/{topic_id.namespace}/topics/{topic_id.name}"


def format_of(*publications: Sequence[bytes]) -> AvroFormat:
    """Return the format to send bodies in: that of CDAP's, if none has a key or headers."""
    return AVRO_FRAMES if any(map(framed_of, publications)) else AVRO


def encode_publish(
    body_format: AvroFormat, payloads: Sequence[bytes], write_pointer: int | None
) -> bytes:
    """Return the body of a publish or store.

    A pointer that Avro's long cannot hold is refused here, with the error that a server has for it.
    """
    if write_pointer is not None and not 0 < write_pointer <= INT64_MAX:
        raise InvalidRequest("invalid_write_pointer", write_pointer=write_pointer)
    return body_format.encode_publish(PublishRequest(write_pointer, payloads))


def _encode_properties(properties: Mapping[str, object]) -> bytes:
    try:
        return msgspec.json.encode(properties)
    except (TypeError, msgspec.MsgspecError) as error:
        raise InvalidRequest("invalid_properties", reason=str(error)) from None


def _decode_properties(answer: bytes) -> Mapping[str, str]:
    """Decode properties in either form: the seed's, which nests them, and CDAP's flat one."""
    value = decode_answer(dict[str, Any], answer)
    nested = value.get("properties")
    properties = nested if isinstance(nested, dict) else value
    return {name: str(text) for name, text in properties.items()}
