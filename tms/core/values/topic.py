"""Topics: their names, properties, time to live and generation.

A topic's generation is 1 when it is first created and one more at each re-creation; a deleted topic
keeps its row with the generation's sign inverted. Entries of another generation than the present
one are dead. Properties are strings, as CDAP keeps them (`docs/formats.md`).

An expired or trimmed message stays expired, even if the time to live is raised later. So the row
records the earliest time of live entries. Readers, the cache and cleanup all use the one rule
`TopicMetadata.first_live_ms`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tms.core.errors import InvalidRequest
from tms.core.limits import MS_PER_S, NAME_CHARS_MAX, TTL_S_MAX
from tms.core.values.topic_properties import (
    CLEANUP,
    COMPACT,
    HAS_SCHEDULE,
    LIVE_FROM,
    check_meaning,
)

TTL = "ttl"
GENERATION = "generation"
_YES = "true"

_NAMESPACE = re.compile(rf"[A-Za-z0-9_]{{1,{NAME_CHARS_MAX}}}")
_TOPIC = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_CHARS_MAX}}}")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_LIVE_FROM = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


def check_namespace(namespace: str) -> str:
    """Return `namespace`. Raises `InvalidRequest` (invalid_namespace_name) if it is not valid."""
    if not _NAMESPACE.fullmatch(namespace):
        raise InvalidRequest("invalid_namespace_name", namespace=namespace)
    return namespace


@dataclass(frozen=True, slots=True, order=True)
class TopicId:
    """A topic's name within a namespace.

    Making one raises `InvalidRequest` (invalid_namespace_name, invalid_topic_name).
    """

    namespace: str
    name: str

    def __post_init__(self) -> None:
        """Check both names, so that every `TopicId` can be part of a key."""
        check_namespace(self.namespace)
        if not _TOPIC.fullmatch(self.name):
            raise InvalidRequest("invalid_topic_name", topic=self.name)

    def __str__(self) -> str:
        """Return `namespace:name`."""
        return f"{self.namespace}:{self.name}"


def topic_id_of(text: str, namespace: str) -> TopicId:
    """Return the topic of `NAME`, in `namespace`, or of `NAMESPACE:NAME`. Raises as `TopicId`."""
    other, colon, name = text.partition(":")
    return TopicId(other, name) if colon else TopicId(namespace, text)


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic as its metadata row describes it, deleted or not."""

    id: TopicId
    generation: int
    ttl_s: int
    properties: Mapping[str, str]
    """Properties other than ttl and generation, as the user gave them."""
    live_from_ms: int = 0
    """Messages from before this time have expired, because of a raised ttl or a trim; in ms."""
    has_schedule: bool = False
    """Whether messages were ever scheduled, so that a server that starts looks for them."""

    @property
    def exists(self) -> bool:
        """Whether the topic is not deleted."""
        return self.generation > 0

    @property
    def is_compact(self) -> bool:
        """Whether only the newest message of each key must be kept (`cleanup.compaction`)."""
        return self.properties.get(CLEANUP) == COMPACT

    def first_live_ms(self, now_ms: int) -> int:
        """Return the earliest time of live entries at `now_ms`; earlier ones have expired.

        Both are in ms since 1970.
        """
        return max(now_ms - self.ttl_s * MS_PER_S, self.live_from_ms)  # which is not below 0

    def dies_ms(self, written_ms: int) -> int:
        """Return the first time at which an entry written at `written_ms` has expired.

        Both are in ms since 1970. 0 if it had already expired when the ttl was raised.
        """
        return 0 if written_ms < self.live_from_ms else written_ms + self.ttl_s * MS_PER_S + 1

    def changed(self, ttl_s: int, properties: Mapping[str, str], now_ms: int) -> "TopicMetadata":
        """Return the topic with another ttl and other properties, set at `now_ms`.

        Messages that have expired by then do not come back, even with a long new ttl.
        """
        is_raised = ttl_s > self.ttl_s
        live_from_ms = self.first_live_ms(now_ms) if is_raised else self.live_from_ms
        return replace(self, ttl_s=ttl_s, properties=properties, live_from_ms=live_from_ms)

    def trimmed(self, before_ms: int) -> "TopicMetadata":
        """Return the topic after all entries before `before_ms`, ms since 1970, expire."""
        return replace(self, live_from_ms=max(self.live_from_ms, before_ms))

    def with_schedule(self) -> "TopicMetadata":
        """Return the topic with messages that are scheduled."""
        return replace(self, has_schedule=True)

    def deleted(self) -> "TopicMetadata":
        """Return the topic in its deleted state."""
        return replace(self, generation=-self.generation)

    def all_properties(self) -> dict[str, str]:
        """Return what callers see of the topic: its properties, ttl and generation, by name."""
        whole = {**self.properties, TTL: str(self.ttl_s), GENERATION: str(self.generation)}
        return dict(sorted(whole.items()))

    def stored_properties(self) -> dict[str, str]:
        """Return the contents of the topic's row: `all_properties` and the hidden ones."""
        stored = self.all_properties()
        if self.has_schedule:
            stored[HAS_SCHEDULE] = _YES
        if self.live_from_ms:
            stored[LIVE_FROM] = str(self.live_from_ms)
        return dict(sorted(stored.items()))

    @classmethod
    def of(cls, topic_id: TopicId, properties: Mapping[str, str]) -> "TopicMetadata":
        """Return the topic with a row of `properties`, as from `stored_properties`.

        Raises `InvalidRequest` if ttl or generation is missing or not a number.
        """
        rest = dict(properties)
        ttl_s = parse_ttl(rest.pop(TTL, ""))
        generation = _parse_generation(rest.pop(GENERATION, ""))
        # Earlier versions stored a user's property of this name, not always a number.
        has_live_from = _LIVE_FROM.fullmatch(rest.get(LIVE_FROM, "")) is not None
        live_from_ms = int(rest.pop(LIVE_FROM)) if has_live_from else 0
        has_schedule = rest.pop(HAS_SCHEDULE, None) == _YES
        return cls(topic_id, generation, ttl_s, rest, live_from_ms, has_schedule)


def parse_ttl(text: str) -> int:
    """Return the seconds `text` says. Raises `InvalidRequest` (invalid_ttl)."""
    if not _WHOLE_NUMBER.fullmatch(text) or not 0 < int(text) <= TTL_S_MAX:
        raise InvalidRequest("invalid_ttl", ttl=text)
    return int(text)


def _parse_generation(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text) or int(text) == 0:
        raise InvalidRequest("invalid_properties", generation=text)
    return int(text)


def _text(value: object) -> str:
    """Return a name or value as text. Raises `InvalidRequest` if it cannot be stored as text."""
    try:
        text = str(value)
        text.encode()
    except ValueError as error:  # too many digits, or half of a surrogate pair
        raise InvalidRequest("invalid_properties", reason=str(error)) from None
    return text


def parse_properties(body: object, ttl_s_default: int) -> tuple[int, dict[str, str]]:
    """Return the ttl in seconds and the other properties in a request body.

    `body` is the decoded JSON, None without a body. Numbers become strings, as in CDAP. A
    generation is checked and dropped, and `live_from_ms` is dropped, because only the table sets
    them. Raises `InvalidRequest` (invalid_properties, invalid_ttl).
    """
    if body is None:
        return ttl_s_default, {}
    if not isinstance(body, Mapping):
        raise InvalidRequest("invalid_properties", given=type(body).__name__)
    properties: dict[str, str] = {}
    for name, value in body.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InvalidRequest("invalid_properties", property=name)
        properties[_text(name)] = _text(value)
    ttl = properties.pop(TTL, None)
    ttl_s = ttl_s_default if ttl is None else parse_ttl(ttl)
    properties.pop(LIVE_FROM, None)
    check_meaning(properties)
    generation = properties.pop(GENERATION, None)
    if generation is not None:
        _parse_generation(generation)
    return ttl_s, properties
