"""The contents of message bodies in any format, and the interface of a format.

`avro_bodies` and `json_bodies` define the bytes; `docs/formats.md` has examples. Everything else
than messages has one format, JSON.
"""

from collections.abc import Generator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from tms.core.errors import TooLarge
from tms.core.services.commits import NOTHING, CommitRequest
from tms.core.services.messaging import AllPublished, Published, RollbackRange
from tms.core.services.payload_values import ValueToEncode
from tms.core.values.message import MessageBlock

MESSAGES_A_STEP = 2_000
"""This many messages are decoded before others get a turn."""
T = TypeVar("T")


def last_of(steps: Generator[None, None, T]) -> T:
    """Return the result of steps, all taken at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def too_many_messages(count: int, messages_max: int) -> TooLarge:
    """Return the error of a request with too many messages."""
    return TooLarge("too_many_messages", count=count, request_messages_max=messages_max)


class PublishRequest(NamedTuple):
    """The body of publish and of store."""

    write_pointer: int | None
    payloads: Sequence[bytes]
    values: Mapping[int, ValueToEncode] = MappingProxyType({})
    """By their indexes among the payloads, messages still to be encoded by schemas."""


class PublishAllRequest(NamedTuple):
    """The body of a publish to several topics."""

    topics: Mapping[str, Sequence[bytes]]
    """Messages by topic name."""
    owner: str | None = None
    sequence: int | None = None
    carried: CommitRequest = NOTHING
    """Other work in the same transaction. Avro has none."""


class PollRequest(NamedTuple):
    """The body of poll."""

    start_from: bytes | int | None = None
    """A message id of 20 bytes, a publish time in milliseconds, or None for the oldest message."""
    inclusive: bool = True
    limit: int | None = None
    transaction: bytes | None = None
    """A transaction in the encoding of `tms.wire.transaction_codec`."""
    end: bytes | None = None
    """The message id of 20 bytes before which reading ends. CDAP's Avro has none."""
    isolation: str | None = None
    """`committed` or `all`; CDAP's Avro has none."""
    filter: str | None = None
    """The text of a filter; CDAP's Avro has none."""

    @property
    def is_plain(self) -> bool:
        """Whether it requests everything from a position on."""
        return self[3:] == _PLAIN


_PLAIN = (None,) * (len(PollRequest._fields) - 3)


class MessagesFormat(Protocol):
    """A format of the answer to a poll."""

    content_type: str
    joined_messages: int
    """How many messages to combine in one block, if available; 0 for none."""

    def encode_block(self, block: MessageBlock, *, first: bool) -> bytes:
        """Return the next bytes of a poll's answer; `first` if there were none before."""
        ...

    def encode_end(self, *, first: bool) -> bytes:
        """Return the last bytes of a poll's answer; `first` if there was no block."""
        ...


class BodyFormat(MessagesFormat, Protocol):
    """A format as the server uses it; the client uses Avro, and Arrow on request.

    A decode raises `InvalidRequest` if the body is not valid.
    """

    def decode_publish(self, body: bytes, messages_max: int) -> PublishRequest:
        """Return the content of a publish or store. Raises `TooLarge` (too_many_messages)."""
        ...

    def publish_steps(
        self, body: bytes, messages_max: int
    ) -> Generator[None, None, PublishRequest]:
        """Return the content of a publish or store, in steps between which others get a turn.

        Raises as `decode_publish`.
        """
        ...

    def publish_all_steps(
        self, body: bytes, messages_max: int
    ) -> Generator[None, None, PublishAllRequest]:
        """Return the content of a publish to several topics, in steps.

        Raises `TooLarge` (too_many_messages) if all topics together have more messages.
        """
        ...

    def encode_published_all(self, published: AllPublished) -> bytes:
        """Return the answer to a publish to several topics."""
        ...

    def encode_range(self, published: RollbackRange) -> bytes:
        """Return the answer to a transactional publish, which is also the body of a rollback."""
        ...

    def encode_published(self, published: Published) -> bytes:
        """Return the answer to a publish that requests ids, also the body of a rollback."""
        ...

    def decode_range(self, body: bytes) -> RollbackRange:
        """Return the range that a rollback names."""
        ...

    def decode_poll(self, body: bytes) -> PollRequest:
        """Return the request of a poll."""
        ...
