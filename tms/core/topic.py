"""Topics: their names, properties, time to live and generation.

A topic's generation is 1 when it is first created and one more at each re-creation; a deleted topic
keeps its row with the generation's sign inverted. Entries of another generation than the present
one are dead. Properties are strings, as CDAP keeps them (`docs/formats.md`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tms.core.errors import InvalidRequest
from tms.core.limits import NAME_CHARS_MAX, TTL_S_MAX

TTL = "ttl"
GENERATION = "generation"

_NAMESPACE = re.compile(rf"[A-Za-z0-9_]{{1,{NAME_CHARS_MAX}}}")
_TOPIC = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_CHARS_MAX}}}")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def check_namespace(namespace: str) -> str:
    """Return `namespace`; raise `InvalidRequest` (invalid_namespace_name) if it is no name."""
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
        """Check both names, so that every `TopicId` is fit to be a key."""
        check_namespace(self.namespace)
        if not _TOPIC.fullmatch(self.name):
            raise InvalidRequest("invalid_topic_name", topic=self.name)

    def __str__(self) -> str:
        """Return `namespace:name`."""
        return f"{self.namespace}:{self.name}"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as its metadata row has it, deleted or not."""

    id: TopicId
    generation: int
    ttl_s: int
    properties: Mapping[str, str]
    """Properties other than ttl and generation, as the user gave them."""

    @property
    def exists(self) -> bool:
        """Whether the topic was not deleted."""
        return self.generation > 0

    def all_properties(self) -> dict[str, str]:
        """Return the properties with ttl and generation among them, keys sorted, all strings."""
        whole = {**self.properties, TTL: str(self.ttl_s), GENERATION: str(self.generation)}
        return dict(sorted(whole.items()))

    @classmethod
    def of(cls, topic_id: TopicId, properties: Mapping[str, str]) -> "Topic":
        """Return the topic whose row holds `properties`, as `all_properties` gave them.

        Raises `InvalidRequest` if ttl or generation is missing or not a number.
        """
        ttl_s = parse_ttl(properties.get(TTL, ""))
        generation = _parse_generation(properties.get(GENERATION, ""))
        rest = {k: v for k, v in properties.items() if k not in (TTL, GENERATION)}
        return cls(topic_id, generation, ttl_s, rest)


def parse_ttl(text: str) -> int:
    """Return the seconds `text` says. Raises `InvalidRequest` (invalid_ttl)."""
    if not _WHOLE_NUMBER.fullmatch(text) or not 0 < int(text) <= TTL_S_MAX:
        raise InvalidRequest("invalid_ttl", ttl=text)
    return int(text)


def _parse_generation(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text) or int(text) == 0:
        raise InvalidRequest("invalid_properties", generation=text)
    return int(text)


def parse_properties(given: object, ttl_s_default: int) -> tuple[int, dict[str, str]]:
    """Return the ttl in seconds and the other properties that a request body asks for.

    `given` is the decoded JSON of the body, None where there was none. Numbers become strings, as
    CDAP does it. A generation is checked and dropped: only the table gives one. Raises
    `InvalidRequest` (invalid_properties, invalid_ttl).
    """
    if given is None:
        return ttl_s_default, {}
    if not isinstance(given, Mapping):
        raise InvalidRequest("invalid_properties", given=type(given).__name__)
    properties: dict[str, str] = {}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InvalidRequest("invalid_properties", property=name)
        properties[str(name)] = str(value)
    ttl = properties.pop(TTL, None)
    ttl_s = ttl_s_default if ttl is None else parse_ttl(ttl)
    generation = properties.pop(GENERATION, None)
    if generation is not None:
        _parse_generation(generation)
    return ttl_s, properties
