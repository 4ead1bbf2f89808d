"""Bodies about ranges of topics: JSON, both ways, for server and client."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec

from tms.core.message import FIRST_ID, parse_id
from tms.core.ranges import Reach, Split, TopicRange, TopicRanges
from tms.core.topic import TopicId
from tms.wire.json_values import decode, encode

Isolation = Literal["committed", "all"]


class _AskedBody(msgspec.Struct, forbid_unknown_fields=True):
    topics: list[str]
    isolation: Isolation = "committed"


class _RangeBody(msgspec.Struct):
    start: str
    end: str
    generation: int
    expired_before: str = FIRST_ID.hex()
    """Servers before this was told do not tell it."""


class _RangesBody(msgspec.Struct):
    topics: dict[str, _RangeBody | None]
    time_ms: int


class _SplitBody(msgspec.Struct):
    start: str
    end: str
    bytes: int


class _SplitsBody(msgspec.Struct):
    ranges: list[_SplitBody]


class _ReachBody(msgspec.Struct):
    end: str
    messages: int
    bytes: int


_asked_decoder = msgspec.json.Decoder(_AskedBody)
_ranges_decoder = msgspec.json.Decoder(_RangesBody)
_splits_decoder = msgspec.json.Decoder(_SplitsBody)
_reach_decoder = msgspec.json.Decoder(_ReachBody)


def encode_asked(names: Collection[str], *, committed: bool) -> bytes:
    """Return the body that asks for the ranges of the topics of these names."""
    return encode({"topics": list(names), "isolation": "committed" if committed else "all"})


def decode_asked(body: bytes) -> tuple[list[str], bool]:
    """Return the names of topics asked for, and whether what is committed is meant."""
    asked = decode(_asked_decoder, body)
    return asked.topics, asked.isolation == "committed"


def encode_ranges(ranges: TopicRanges) -> bytes:
    """Return the ranges of topics by name."""
    topics = {
        topic_id.name: found
        and _RangeBody(
            found.start.hex(),
            found.end.hex(),
            found.generation,
            ranges.expired_before[topic_id].hex(),
        )
        for topic_id, found in ranges.topics.items()
    }
    return encode(_RangesBody(topics, ranges.time_ms))


def decode_ranges(body: bytes, asked: Mapping[str, TopicId]) -> TopicRanges:
    """Return what was told of the topics asked for, by name."""
    told = decode(_ranges_decoder, body)
    topics = {
        topic_id: None
        if (found := told.topics.get(name)) is None
        else TopicRange(parse_id(found.start), parse_id(found.end), found.generation)
        for name, topic_id in asked.items()
    }
    expired = {
        topic_id: parse_id(found.expired_before)
        for name, topic_id in asked.items()
        if (found := told.topics.get(name)) is not None
    }
    return TopicRanges(topics, told.time_ms, expired)


def encode_splits(splits: Sequence[Split]) -> bytes:
    """Return the parts of a range."""
    ranges = [_SplitBody(start.hex(), end.hex(), size) for start, end, size in splits]
    return encode(_SplitsBody(ranges))


def decode_splits(body: bytes) -> list[Split]:
    """Return the parts that were told."""
    ranges = decode(_splits_decoder, body).ranges
    return [Split(parse_id(part.start), parse_id(part.end), part.bytes) for part in ranges]


def encode_reach(reach: Reach) -> bytes:
    """Return how far a range reaches."""
    return encode(_ReachBody(reach.end.hex(), reach.messages, reach.payload_bytes))


def decode_reach(body: bytes) -> Reach:
    """Return how far a range was told to reach."""
    told = decode(_reach_decoder, body)
    return Reach(parse_id(told.end), told.messages, told.bytes)
