"""The tables as messaging sees them; the package `tables` fulfils these interfaces.

All calls block: they are made from worker threads, not from the event loop, save those that only
fill a batch, and small writes to an embedded store while it is quick. A topic prefix is the opaque
start of all row keys of one topic's generation. Keys are the 10 bytes of timestamp and sequence id.
Every call may raise `StoreUnavailable`, a read `StoreCorrupt`, a write `OutcomeUnknown`.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

from tms.core.values.batch import Batch as Batch  # noqa: PLC0414  others import it from here
from tms.core.values.entries import Entries
from tms.core.values.group_log import GroupTable
from tms.core.values.message import MessageBlock
from tms.core.values.stored_runs import ReadRun, Reference
from tms.core.values.subscriptions import SubscriptionPosition
from tms.core.values.topic import TopicId, TopicMetadata


class LastKeys(NamedTuple):
    """The greatest keys of a topic."""

    greatest: bytes | None
    """In the generation that was asked for or any before it; keys go on above it. None: none."""
    own: bytes | None
    """In that generation alone."""


class OwnEntries(NamedTuple):
    """The entries of one write pointer in a range of the Message table."""

    rows: list[tuple[bytes, bytes]]
    """Key and value as stored, of the entries under that pointer not yet rolled back."""
    own: int
    """How many entries are under that pointer, rolled back or not."""
    foreign: int
    """How many are of others."""
    next_key: bytes | None
    """Where to go on, None where the range is done."""


class MessageTable(Protocol):
    """Entries of topics by publish time and sequence id."""

    def append(
        self,
        batch: Batch,
        topic_prefix: bytes,
        keys: Sequence[bytes],
        payloads: Sequence[bytes],
        write_pointer: int | None,
    ) -> None:
        """Add to `batch` one entry for each payload, under the key of the same index."""
        ...

    def append_reference(
        self, batch: Batch, topic_prefix: bytes, key: bytes, write_pointer: int
    ) -> None:
        """Add to `batch` a reference to what is stored under `write_pointer`."""
        ...

    def read(
        self,
        topic_prefix: bytes,
        first_key: bytes,
        *,
        limit: int,
        bytes_max: int,
        stop_key: bytes | None = None,
    ) -> tuple[Entries, bytes | None]:
        """Return entries from `first_key` on, and the key to go on from, None where all are read.

        At most `limit` of them, and no more once `bytes_max` of payload are reached; at least one
        where there is one. None from `stop_key` on.
        """
        ...

    def first_key(self, topic_prefix: bytes, from_key: bytes) -> bytes | None:
        """Return the smallest key of a topic's generation from `from_key` on, None if none."""
        ...

    def size_bytes(self, topic_prefix: bytes, first_key: bytes, stop_key: bytes) -> int:
        """Return about how many bytes the entries take from `first_key` to before `stop_key`.

        What was written of late may not count. 0 where the store does not tell.
        """
        ...

    def last_keys(self, topic_id: TopicId, generation: int) -> LastKeys:
        """Return the greatest keys of a topic."""
        ...

    def own_entries(
        self,
        topic_prefix: bytes,
        first_key: bytes,
        last_key: bytes,
        write_pointer: int,
        *,
        limit: int,
        bytes_max: int,
    ) -> OwnEntries:
        """Return which of the first `limit` entries in the range, ends inclusive, are its own.

        No more once their values have `bytes_max` bytes.
        """
        ...

    def invert(self, batch: Batch, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Add to `batch` the rows of `own_entries` with their write pointer's sign inverted.

        Raises `StoreUnavailable` where an earlier write of theirs may come late.
        """
        ...


class PayloadTable(Protocol):
    """Payloads stored before their transaction publishes them, by write pointer and time."""

    def append(
        self,
        batch: Batch,
        topic_prefix: bytes,
        write_pointer: int,
        keys: Sequence[bytes],
        payloads: Sequence[bytes],
    ) -> None:
        """Add to `batch` the payloads, each under the write pointer and its key."""
        ...

    def read(
        self,
        topic_prefix: bytes,
        write_pointer: int,
        message_key: bytes,
        first_key: bytes,
        *,
        limit: int,
        bytes_max: int,
        stop_key: bytes | None = None,
    ) -> tuple[MessageBlock, bytes | None]:
        """Return payloads from `first_key` on as messages under the reference at `message_key`.

        At most `limit` of them, and no more once `bytes_max` are reached, at least one where there
        is one; none from `stop_key` on. The second value is the key to go on from, None where no
        more are left.
        """
        ...

    def read_runs(
        self, topic_prefix: bytes, references: Sequence[Reference], *, limit: int, bytes_max: int
    ) -> list[ReadRun]:
        """Return what is stored for the first references, at least for one, in few scans.

        The write pointers ascend, their sign left aside. All runs together have at most `limit`
        messages, and no more once they have `bytes_max` bytes; the last one may be cut.
        """
        ...

    def size_bytes(
        self, topic_prefix: bytes, write_pointer: int, first_key: bytes, stop_key: bytes
    ) -> int:
        """Return about how many bytes are stored from `first_key` to before `stop_key`.

        As that of messages.
        """
        ...

    def first_key(self, topic_prefix: bytes, write_pointer: int) -> bytes | None:
        """Return the smallest key stored under `write_pointer`, None if none."""
        ...

    def is_empty(self, topic_prefix: bytes) -> bool:
        """Whether nothing is stored for a topic's generation."""
        ...

    def last_key(self, topic_prefix: bytes, write_pointer: int) -> bytes | None:
        """Return the greatest key stored under `write_pointer`, None if none."""
        ...


class MetadataTable(Protocol):
    """Topics, deleted ones included."""

    def get(self, topic_id: TopicId) -> TopicMetadata | None:
        """Return the topic as its row has it, deleted or not; None if there never was one."""
        ...

    def replace(self, old: TopicMetadata | None, new: TopicMetadata) -> bool:
        """Put `new` if the row still is `old`, durably. Return whether it was."""
        ...

    def forget(self, batch: Batch, topics: Collection[TopicMetadata]) -> Collection[TopicId]:
        """Add to `batch` the deletion of deleted topics' rows that still are so; return of which.

        No topic may change until it is written. Created again, one begins with generation 1.
        """
        ...

    def count(self, start: bytes = b"", *, limit: int) -> tuple[int, bytes | None]:
        """Return how many topics exist in the next `limit` rows, and where to go on.

        That is None at the end. A row that is damaged counts too: it may be of one.
        """
        ...

    def scan(self, namespace: str | None = None) -> Iterator[TopicMetadata]:
        """Give the topics, deleted ones included, of a namespace or of all, by row key."""
        ...


class StoredPosition(NamedTuple):
    """A row of the Subscription table, of a topic's generation that may be dead."""

    topic_prefix: bytes
    generation: int
    position: SubscriptionPosition


class SubscriptionTable(Protocol):
    """Named positions of consumers in the topics."""

    def check_unanswered(self, topic_prefix: bytes, name: str) -> None:
        """Raise `StoreUnavailable` where an earlier write of a subscription may come late."""
        ...

    def put(self, batch: Batch, topic_prefix: bytes, subscription: SubscriptionPosition) -> None:
        """Add to `batch` the row of a subscription."""
        ...

    def delete(self, batch: Batch, topic_prefix: bytes, subscription: SubscriptionPosition) -> None:
        """Add to `batch` the deletion of a subscription, as it is now. It takes a version too."""
        ...

    def read(self, topic_id: TopicId, topic_prefix: bytes) -> Sequence[SubscriptionPosition]:
        """Return the subscriptions of a topic's generation in the order of their names."""
        ...

    def scan(self, *, limit: int) -> Sequence[StoredPosition]:
        """Return the first `limit` subscriptions of all topics, by topic, generation and name."""
        ...


class TransactionTable(Protocol):
    """The log of the state of transactions, and snapshots of that state.

    The rows of the log are numbered (`tms.transactions.segments`). A snapshot of number
    n has all that the rows below n did. `snapshot` raises `StoreCorrupt` where stored bytes are
    damaged.
    """

    def append(self, batch: Batch, sequence: int, row: bytes) -> None:
        """Add to `batch` the row `sequence` of the log."""
        ...

    def put_row(self, sequence: int, row: bytes) -> None:
        """Put the row `sequence` of the log; durable when it returns."""
        ...

    def rows(self, from_sequence: int) -> Iterator[tuple[int, bytes]]:
        """Give the rows from `from_sequence` on with their numbers, ascending, as far as read."""
        ...

    def put_snapshot(self, sequence: int, data: bytes) -> None:
        """Put the snapshot `sequence`; durable when it returns. One that is there stays."""
        ...

    def snapshots(self) -> list[int]:
        """Return the numbers of the snapshots that were put whole, ascending."""
        ...

    def snapshot(self, sequence: int) -> bytes:
        """Return a snapshot that `snapshots` named."""
        ...

    def marks(self) -> list[tuple[int, bytes]]:
        """Return the marks of the time with the tokens of those who put them, ascending."""
        ...

    def put_mark(self, batch: Batch, token: int, row: bytes) -> None:
        """Add to `batch` the mark of the leader with that token."""
        ...

    def drop_before(self, sequence: int, limit: int) -> int:
        """Delete at most `limit` rows of the log, and of snapshots, below `sequence`, durably.

        Return how many there were: fewer than `limit` where none are left.
        """
        ...


class Tables(Protocol):
    """The tables of one store, written together."""

    @property
    def is_embedded(self) -> bool:
        """Whether the store is this process's own, and not a server elsewhere."""
        ...

    @property
    def reads_at_once(self) -> int:
        """How many reads may wait for the store at a time, each in a thread."""
        ...

    @property
    def messages(self) -> MessageTable:
        """The Message table."""
        ...

    @property
    def payloads(self) -> PayloadTable:
        """The Payload table."""
        ...

    @property
    def metadata(self) -> MetadataTable:
        """The Metadata table."""
        ...

    @property
    def subscriptions(self) -> SubscriptionTable:
        """The Subscription table."""
        ...

    @property
    def groups(self) -> GroupTable:
        """The Group table."""
        ...

    @property
    def transactions(self) -> TransactionTable:
        """The Transaction table."""
        ...

    def features(self) -> frozenset[str]:
        """Return the features of the store that are recorded (`tms.core.values.store_features`)."""
        ...

    def add_feature(self, feature: str) -> None:
        """Record a feature, durably; versions that do not know it refuse the store from then on.

        Repeatable. Ask `tms.messaging.features` for one: it asks the cluster's other servers first.
        """
        ...

    def prefix(self, topic_id: TopicId, generation: int) -> bytes:
        """Return the prefix of a topic's generation."""
        ...

    def batch(self) -> Batch:
        """Return an empty batch."""
        ...

    def check_writable(self) -> None:
        """Raise `StoreUnavailable` where a write would be refused now. Touches no disk."""
        ...

    def is_behind(self) -> bool:
        """Whether a large write would now wait, for seconds, until the store has merged more."""
        ...

    def write(self, batch: Batch) -> None:
        """Write a batch; durable when it returns.

        Raises `StoreUnavailable` where nothing was written, and `OutcomeUnknown`: then whether it
        was is decided before any later write succeeds, and it is visible whole or not at all.
        """
        ...

    def close(self) -> None:
        """Close the store. Calls after that raise `StoreUnavailable`."""
        ...
