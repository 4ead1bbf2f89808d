"""Bodies about ranges of topics: JSON, both ways, for server and client."""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from tms.core.values.message import parse_id
from tms.core.values.ranges import Reach, Split, TopicRange, TopicRanges
from tms.core.values.reading import Isolation
from tms.core.values.topic import TopicId
from tms.wire.json_fields import (
    COUNT,
    MESSAGE_ID,
    TIME,
    Count,
    EndIdText,
    MessageIdText,
    TopicName,
    described_by,
)
from tms.wire.json_values import decode, encode

IsolationName = Literal["committed", "all"]


class RangesAskedBody(msgspec.Struct, forbid_unknown_fields=True):
    """The topics whose positions to return, and the messages that count."""

    topics: list[TopicName]
    isolation: IsolationName = "committed"


class TopicRangeBody(msgspec.Struct):
    """The start and end of a topic."""

    start: Annotated[
        str,
        described_by(
            {**MESSAGE_ID, "description": "The first message that has not expired, or `end`."}
        ),
    ]
    end: EndIdText
    generation: Annotated[int, described_by({**COUNT, "minimum": 1})]
    expired_before: Annotated[
        str,
        described_by(
            {
                **MESSAGE_ID,
                "description": "All messages before this id have expired, and none after it.",
            }
        ),
    ]


class RangesBody(msgspec.Struct):
    """The positions of topics, by name; null if the topic does not exist."""

    topics: dict[str, TopicRangeBody | None]
    time_ms: Annotated[int, described_by({**TIME, "description": "The server's clock."})]


class SplitBody(msgspec.Struct):
    """A part of a range."""

    start: MessageIdText
    end: EndIdText
    bytes: Annotated[int, described_by({**COUNT, "description": "An estimate; 0 if unknown."})]


class SplitsBody(msgspec.Struct):
    """The consecutive parts of a range."""

    ranges: list[SplitBody]


class ReachBody(msgspec.Struct):
    """The end of a range, and its size."""

    end: EndIdText
    messages: Count
    bytes: Count


def encode_ranges_request(names: Collection[str], isolation: Isolation) -> bytes:
    """Return the body that requests the ranges of topics."""
    return encode({"topics": list(names), "isolation": isolation})


def decode_ranges_request(body: bytes) -> tuple[list[str], Isolation]:
    """Return the requested topics, and which messages count."""
    request = decode(RangesAskedBody, body)
    return request.topics, Isolation(request.isolation)


def encode_ranges(ranges: TopicRanges) -> bytes:
    """Return the ranges of topics by name."""
    topics = {
        topic_id.name: by_topic
        and TopicRangeBody(
            by_topic.start.hex(),
            by_topic.end.hex(),
            by_topic.generation,
            ranges.expired_before[topic_id].hex(),
        )
        for topic_id, by_topic in ranges.topics.items()
    }
    return encode(RangesBody(topics, ranges.time_ms))


def decode_ranges(body: bytes, requested: Mapping[str, TopicId]) -> TopicRanges:
    """Return the ranges of the requested topics, by name."""
    decoded = decode(RangesBody, body)
    topics = {
        topic_id: None
        if (topic := decoded.topics.get(name)) is None
        else TopicRange(parse_id(topic.start), parse_id(topic.end), topic.generation)
        for name, topic_id in requested.items()
    }
    expired = {
        topic_id: parse_id(topic.expired_before)
        for name, topic_id in requested.items()
        if (topic := decoded.topics.get(name)) is not None
    }
    return TopicRanges(topics, decoded.time_ms, expired)


def encode_splits(splits: Sequence[Split]) -> bytes:
    """Return the parts of a range."""
    ranges = [SplitBody(start.hex(), end.hex(), size) for start, end, size in splits]
    return encode(SplitsBody(ranges))


def decode_splits(body: bytes) -> list[Split]:
    """Return the parts in an answer."""
    ranges = decode(SplitsBody, body).ranges
    return [Split(parse_id(part.start), parse_id(part.end), part.bytes) for part in ranges]


def encode_reach(reach: Reach) -> bytes:
    """Return how far a range reaches."""
    return encode(ReachBody(reach.end.hex(), reach.messages, reach.payload_bytes))


def decode_reach(body: bytes) -> Reach:
    """Return the reach in an answer."""
    decoded = decode(ReachBody, body)
    return Reach(parse_id(decoded.end), decoded.messages, decoded.bytes)
