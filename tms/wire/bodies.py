"""The content of the bodies of messages, in any format, and the interface of a format.

Which bytes say it is in `avro_bodies` and `json_bodies`; `docs/formats.md` has examples. All that
is not about messages has one format, JSON.
"""

from collections.abc import Generator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from tms.core.errors import TooLarge
from tms.core.services.commits import NOTHING, CommitRequest
from tms.core.services.messaging import AllPublished, Published, RollbackRange
from tms.core.services.payload_values import GivenValue
from tms.core.values.message import MessageBlock

MESSAGES_A_STEP = 2_000
"""So many messages are decoded before others have their turn."""
T = TypeVar("T")


def last_of(steps: Generator[None, None, T]) -> T:
    """Return what comes of steps, all taken at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def too_many_messages(count: int, messages_max: int) -> TooLarge:
    """Return the error of a request with more messages than one may have."""
    return TooLarge("too_many_messages", count=count, request_messages_max=messages_max)


class PublishRequest(NamedTuple):
    """The body of publish and of store."""

    write_pointer: int | None
    payloads: Sequence[bytes]
    values: Mapping[int, GivenValue] = MappingProxyType({})
    """By their places among the payloads, messages that are still to be encoded by schemas."""


class PublishAllRequest(NamedTuple):
    """The body of a publish to several topics."""

    topics: Mapping[str, Sequence[bytes]]
    """Messages by the topic's name."""
    owner: str | None = None
    sequence: int | None = None
    carried: CommitRequest = NOTHING
    """Other work that is done with it. Avro has none."""


class PollRequest(NamedTuple):
    """The body of poll."""

    start_from: bytes | int | None = None
    """A message id of 20 bytes, a publish time in milliseconds, or None for the oldest message."""
    inclusive: bool = True
    limit: int | None = None
    transaction: bytes | None = None
    """A transaction in the encoding of `tms.wire.transaction_codec`."""
    end: bytes | None = None
    """The message id of 20 bytes before which it ends. CDAP's Avro has none."""
    isolation: str | None = None
    """`committed` or `all`; as above."""

    @property
    def is_plain(self) -> bool:
        """Whether it asks for everything from somewhere on."""
        return self.transaction is None and self.end is None and self.isolation is None


class MessagesFormat(Protocol):
    """A format of the answer to a poll."""

    content_type: str
    joined_messages: int
    """Blocks are put together to one of so many messages, where there are; 0: they are not."""

    def encode_block(self, block: MessageBlock, *, first: bool) -> bytes:
        """Return the next bytes of a poll's answer; `first` says that none came before."""
        ...

    def encode_end(self, *, first: bool) -> bytes:
        """Return the last bytes of a poll's answer; `first` says that there was no block."""
        ...


class BodyFormat(MessagesFormat, Protocol):
    """A format as the server uses it; the client speaks Avro, and Arrow where that is asked for.

    A decode raises `InvalidRequest` where the body is not valid.
    """

    def decode_publish(self, body: bytes, messages_max: int) -> PublishRequest:
        """Return what a publish or store asks. Raises `TooLarge` (too_many_messages)."""
        ...

    def publish_steps(
        self, body: bytes, messages_max: int
    ) -> Generator[None, None, PublishRequest]:
        """Return what a publish or store asks, in steps that others may have their turn between.

        Raises as `decode_publish`.
        """
        ...

    def decode_publish_all(self, body: bytes, messages_max: int) -> PublishAllRequest:
        """Return the content of a publish to several topics.

        Raises `TooLarge` (too_many_messages) if all topics together have more messages.
        """
        ...

    def encode_published_all(self, published: AllPublished) -> bytes:
        """Return the answer to a publish to several topics."""
        ...

    def encode_range(self, published: RollbackRange) -> bytes:
        """Return the body that a transactional publish answers, and that a rollback takes."""
        ...

    def encode_published(self, published: Published) -> bytes:
        """Return the body that a publish answers that is asked for ids; a rollback takes it too."""
        ...

    def decode_range(self, body: bytes) -> RollbackRange:
        """Return what a rollback is to roll back."""
        ...

    def decode_poll(self, body: bytes) -> PollRequest:
        """Return what a poll asks."""
        ...
