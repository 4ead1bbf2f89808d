"""Dead letters: messages that a group gave up, as messages in another topic.

A dead letter has the key, payload and headers of its message, and its own headers, which say where
the message came from and why it failed. They replace headers of the same names, which a message has
that was a dead letter of another group.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from tms.core.errors import InvalidRequest
from tms.core.values.message import Message, parse_id
from tms.core.values.topic import TopicId

SUFFIX: Final = "--dead"
"""The default topic of dead letters is named after its topic, with this suffix, so both are in one
shard.
"""
_PREFIX: Final = "tms-dead-"
_CREATED: Final = f"{_PREFIX}created"


class Disposition(StrEnum):
    """The reason why a message became a dead letter."""

    ATTEMPTS = "attempts"
    """Its last attempt was nacked."""
    REJECTED = "rejected"
    """Its member rejected it."""
    UNACKNOWLEDGED = "unacknowledged"
    """The lease of its last attempt ended."""

    @property
    def stored(self) -> int:
        """The number that is stored. DO NOT CHANGE: on disk."""
        return _STORED.index(self)

    @classmethod
    def of_stored(cls, number: int) -> "Disposition":
        """Return the disposition with a stored number. Raises `IndexError`."""
        return _STORED[number]


_STORED: Final = (Disposition.ATTEMPTS, Disposition.REJECTED, Disposition.UNACKNOWLEDGED)


@dataclass(frozen=True, slots=True)
class LetterOrigin:
    """The origin of a dead letter and why it failed: its own headers."""

    topic: str
    group: str
    id: bytes
    """The id of the message in its topic."""
    disposition: Disposition
    attempts: int
    reason: str
    """The reason that its member gave; empty if it gave none."""
    member: str
    """The last member that held it; empty if unknown."""
    at_ms: int
    """When its last attempt failed, ms since 1970."""

    def headers(self) -> dict[str, bytes]:
        """Return the headers."""
        values = {
            "topic": self.topic,
            "group": self.group,
            "id": self.id.hex(),
            "disposition": self.disposition,
            "attempts": str(self.attempts),
            "reason": self.reason,
            "member": self.member,
            "at": str(self.at_ms),
        }
        return {_PREFIX + name: value.encode() for name, value in values.items()}


def origin_of(headers: Mapping[str, bytes]) -> LetterOrigin | None:
    """Return the origin in a message's headers; None if it is not a dead letter."""
    try:
        fields = {
            name.removeprefix(_PREFIX): value.decode()
            for name, value in headers.items()
            if name.startswith(_PREFIX)
        }
        return LetterOrigin(
            fields["topic"],
            fields["group"],
            parse_id(fields["id"]),
            Disposition(fields["disposition"]),
            int(fields["attempts"]),
            fields["reason"],
            fields["member"],
            int(fields["at"]),
        )
    except (KeyError, ValueError, InvalidRequest):
        return None


class DeadLetter(NamedTuple):
    """A dead letter."""

    id: bytes
    """Its own id, in the topic of dead letters."""
    origin: LetterOrigin
    message: Message
    """The original message, with the id that it had in its topic."""


def dead_letter_of(letter: Message) -> DeadLetter | None:
    """Return a message as a dead letter; None if it is not one."""
    origin = origin_of(letter.headers)
    if origin is None:
        return None
    return DeadLetter(letter.id, origin, without_origin(letter)._replace(id=origin.id))


def dead_letter(message: Message, origin: LetterOrigin, created: int) -> Message:
    """Return the dead letter of a message; `created`, in µs since 1970, identifies its group."""
    headers = {**origin.headers(), _CREATED: str(created).encode()}
    return message._replace(headers={**_own_headers(message), **headers})


def created_of(letter: Message) -> int | None:
    """Return when the group of a dead letter was created; None if an earlier version wrote it."""
    try:
        return int(letter.headers.get(_CREATED, b""))
    except ValueError:
        return None


def without_origin(letter: Message) -> Message:
    """Return the original message of a dead letter."""
    return letter._replace(headers=_own_headers(letter))


def _own_headers(message: Message) -> Mapping[str, bytes]:
    return {n: value for n, value in message.headers.items() if not n.startswith(_PREFIX)}


def default_topic(topic_id: TopicId) -> TopicId:
    """Return the default topic of a topic's dead letters.

    Raises `InvalidRequest` if the caller must name one: the topic holds dead letters itself, or its
    name is too long.
    """
    if topic_id.name.endswith(SUFFIX):
        raise InvalidRequest(
            "invalid_group",
            dead_letter="",
            reason=f"topic {topic_id.name} has dead letters itself: name a topic for its own",
        )
    return TopicId(topic_id.namespace, topic_id.name + SUFFIX)
