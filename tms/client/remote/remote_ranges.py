"""Ranges of topics over REST. All calls only look, so they are repeated after any failure."""

from collections.abc import Collection, Sequence
from urllib.parse import urlencode

from tms.client.remote.calls import JSON, Remote, of_the_server
from tms.client.remote.remote_messaging import topic_path
from tms.core.values.ranges import Reach, Split, TopicRange, TopicRanges, check_count, check_range
from tms.core.values.reading import Isolation
from tms.core.values.topic import TopicId
from tms.wire.json_ranges import (
    decode_ranges,
    decode_reach,
    decode_splits,
    encode_ranges_request,
)


class RemoteRanges(Remote):
    """The ranges of a server, as `tms.core.values.ranges.Ranges`."""

    async def ranges(
        self, topic_ids: Collection[TopicId], isolation: Isolation = Isolation.COMMITTED
    ) -> TopicRanges:
        """Return the range of each topic, by one request for each namespace."""
        by_namespace: dict[str, dict[str, TopicId]] = {}
        for topic_id in topic_ids:
            by_namespace.setdefault(topic_id.namespace, {})[topic_id.name] = topic_id
        topics: dict[TopicId, TopicRange | None] = {}
        expired: dict[TopicId, bytes] = {}
        time_ms = 0
        for namespace, requests in by_namespace.items():
            path = self._calls.listing(f"v1/namespaces/{namespace}/positions")
            body = encode_ranges_request(requests, isolation)
            answer = await self._calls.safely("POST", path, body, JSON)
            with of_the_server():
                decoded = decode_ranges(answer, requests)
            topics.update(decoded.topics)
            expired.update(decoded.expired_before)
            time_ms = decoded.time_ms
        return TopicRanges(topics, time_ms, expired)

    async def splits(
        self, topic_id: TopicId, start: bytes, end: bytes, parts: int
    ) -> Sequence[Split]:
        """Return at most `parts` ranges of about equal size that make up start <= id < end."""
        check_range(start, end)
        check_count("parts", parts)
        query = urlencode({"start": start.hex(), "end": end.hex(), "parts": parts})
        return await self._get(f"{topic_path(topic_id)}/splits?{query}", decode_splits)

    async def reach(
        self,
        topic_id: TopicId,
        start: bytes,
        end: bytes,
        *,
        messages: int | None = None,
        payload_bytes: int | None = None,
        isolation: Isolation = Isolation.COMMITTED,
    ) -> Reach:
        """Return the furthest end, at most `end`, within these numbers of messages and bytes."""
        check_range(start, end)
        check_count("messages", messages)
        check_count("bytes", payload_bytes)
        query: dict[str, str | int] = {"start": start.hex(), "end": end.hex()}
        query["isolation"] = isolation
        if messages is not None:
            query["messages"] = messages
        if payload_bytes is not None:
            query["bytes"] = payload_bytes
        return await self._get(f"{topic_path(topic_id)}/reach?{urlencode(query)}", decode_reach)
