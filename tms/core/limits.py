"""Every limit, named with its unit last, with the relations between them.

A limit that users may set has its description, default and minimum only here; the settings of a
server are made from it (`tms.settings.values`). The other limits are constants, which only tests
set. The core gets the values, wherever they come from.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from tms.core.errors import InvalidRequest

MS_PER_S = 1_000
INT64_MAX = 2**63 - 1
JSON_INTEGER_MAX = 2**53 - 1
"""The largest integer that all programs that read JSON can tell from its neighbours."""
UINT16_COUNT = 1 << 16
"""Sequence ids in one millisecond: the key has two bytes for them. DO NOT CHANGE: on disk."""

WRITE_POINTERS_PER_MS = 1_000_000
"""A write pointer is a time in ms times this, as in Tephra. DO NOT CHANGE: on disk."""

TTL_S_MAX = 2**31 - 1
TTL_S_DEFAULT = 604_800
NAME_CHARS_MAX = 255
LIMIT_MAX = 2**31 - 1
"""The largest limit that a poll's body can carry: an Avro int."""


@dataclass(frozen=True, slots=True)
class LimitSetting:
    """How users set a limit."""

    description: str
    may_be_zero: bool
    """Whether 0 is allowed, too."""
    is_advanced: bool
    """Whether operators seldom change it."""


SETTING = "setting"
"""The key of a field's `LimitSetting` in its metadata. A field without one is a constant."""


def _setting(default: float, description: str, *, zero: bool = False, seldom: bool = False) -> Any:
    setting = LimitSetting(description, may_be_zero=zero, is_advanced=seldom)
    return field(default=default, metadata={SETTING: setting})


def _seldom(default: float, description: str, *, zero: bool = False) -> Any:
    return _setting(default, description, zero=zero, seldom=True)


def _each(things: str, *, by_time: bool = False) -> Any:
    otherwise = "for no limit" if by_time else "for nine tenths of all"
    return _seldom(0, f"The most {things} of one principal; 0 {otherwise}.", zero=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one service."""

    ttl_s_default: int = _setting(TTL_S_DEFAULT, "How long messages live by default.")
    transaction_lifetime_s_max: int = _seldom(
        25 * 3600, "The greatest age of a write pointer. Writes under older ones are refused."
    )

    transaction_timeout_s_default: int = _setting(
        30, "The default timeout of a short transaction. After it, the transaction is invalid."
    )
    transaction_timeout_s_max: int = _setting(
        24 * 3600, "The longest timeout of a short transaction."
    )
    transaction_long_timeout_s: int = _setting(24 * 3600, "The timeout of a long transaction.")
    transactions_in_progress_max: int = _setting(
        10_000, "The most transactions in progress. Starting another one gets 503."
    )
    principal_transactions_max: int = _each("transactions in progress")
    transaction_changes_max: int = 100_000
    """The most changes that a transaction may announce."""
    transaction_changes_bytes_max: int = 4 * 1024 * 1024
    """The most bytes of changes that a transaction may announce."""
    transaction_changes_kept_bytes_max: int = 256 * 1024 * 1024
    """Approximately the most bytes of changes of all transactions, kept while they may conflict."""
    transaction_checkpoints_max: int = _seldom(1_000, "The most checkpoints in one transaction.")
    transaction_outcomes_max: int = 200_000
    """How many ended transactions to remember, for clients that lost the answer."""
    transaction_owners_max: int = _seldom(
        1_000_000, "The most owners to remember, of 400 bytes each."
    )
    transaction_owner_retention_s: int = _seldom(
        7 * 24 * 3600, "How long to remember the last sequence number of an inactive owner."
    )
    transaction_snapshot_s: int = 300
    """How often to write a snapshot of all transactions."""
    transaction_snapshot_edits: int = 500_000
    """A snapshot is also written after this many edits, so a start never replays more."""
    transaction_snapshots_kept: int = 3
    """How many snapshots are kept, with the edits after each."""

    clock_step_s_max: float = _seldom(
        60.0, "The largest step of the machine's clock that the server follows at once."
    )
    clock_hold_s: float = _seldom(
        3_600.0,
        "How long the server waits before it believes a larger step of the clock; 0 disables it.",
        zero=True,
    )

    cleanup_period_s: float = _setting(
        60.0,
        "How often to clean up dead rows. These have expired, were deleted or are invalid.",
    )
    cleanup_slice_rows: int = 2_000
    """The most rows that cleanup reads or deletes at a time."""
    cleanup_slice_ms: int = 1
    """Approximately how long a slice of cleanup lasts."""
    cleanup_pause_ms: int = 10
    """How long cleanup pauses between two slices while the server has requests."""
    cleanup_grace_s: int = 24 * 3600
    """How much longer than necessary to keep invalid transactions and names of deleted topics."""
    cleanup_keys_max: int = 400_000
    """How many keys compaction remembers at a time; each takes about 110 bytes."""

    request_bytes_max: int = _setting(16 * 1024 * 1024, "The largest body, after decompression.")
    request_messages_max: int = _setting(100_000, "The most messages in one publish or store.")
    request_gzip_ratio_max: int = 100
    """How many times larger a gzip body over 1 MiB may be after decompression."""
    message_bytes_max: int = _setting(10 * 1024 * 1024, "The largest message.")
    frame_bytes_max: int = _seldom(16 * 1024, "The largest key and headers of a message.")
    message_headers_max: int = _seldom(100, "The most headers of a message.")
    request_body_s_max: float = _seldom(30.0, "How long the body of a request may take to arrive.")
    request_head_bytes_max: int = 64 * 1024
    """The largest head of a request: request line and headers."""
    request_head_s_max: float = 60.0
    """How long a connection may take to send the head of a request.

    Clients keep idle connections for a shorter time, so it is the client that closes them.
    """
    connections_max: int = _setting(
        10_000,
        "The most connections at a time. It is lower if the process may have too few open files, "
        "so that the store can open its own.",
    )

    queue_bytes_max: int = _setting(
        64 * 1024 * 1024,
        "The most bytes in the write queue. Beyond it, publishers get 503.",
    )
    queue_requests_max: int = 10_000
    """The most publishes that wait to be written. Beyond it, publishes get 503."""
    flush_bytes_max: int = 16 * 1024 * 1024
    """The most payload in one write to the store."""

    cache_bytes_max: int = _setting(
        64 * 1024 * 1024, "Memory for the latest messages; 0 for none.", zero=True
    )
    topics_in_memory_max: int = _setting(
        20_000,
        "How many unused topics stay in memory. It is also the limit of topics in one request.",
    )
    topics_max: int = _setting(
        200_000,  # twice as many as were tried
        "The most topics of all namespaces. Beyond it, no topic can be created.",
    )
    topic_properties_bytes_max: int = 1024 * 1024
    """The most bytes of a topic's properties, their names and values together."""
    topic_properties_max: int = 1_000
    """The most properties of a topic."""
    namespaces_max: int = 10_000
    """The most namespaces that have settings of their own."""
    topic_subscriptions_max: int = _seldom(1_000, "The most subscriptions of one topic.")

    topic_scheduled_max: int = 1_000_000
    """The most scheduled messages of one topic."""
    scheduled_s_max: int = 30 * 24 * 3600
    """How far ahead messages may be scheduled, in seconds."""

    groups_open_max: int = _seldom(200_000, "The most open messages of all groups.")
    take_bytes_default: int = 1024 * 1024
    take_bytes_max: int = 16 * 1024 * 1024

    metric_series_max: int = _seldom(
        500,
        "The most topics, namespaces, subscriptions and groups with their own metrics; the rest is "
        "counted together.",
    )

    poll_messages_default: int = _setting(100, "The most messages of a poll without a limit.")
    poll_messages_max: int = _setting(
        1_000_000, "The most messages of one poll. A greater limit is reduced to it."
    )
    poll_block_bytes: int = 256 * 1024
    """A poll's answer is sent in parts of about this size."""
    poll_wait_s_max: float = _setting(
        60.0, "The longest wait of a poll for messages. A longer wait is reduced to it."
    )

    def __post_init__(self) -> None:
        """Refuse limits that contradict each other."""
        for limit in fields(self):
            value, setting = getattr(self, limit.name), limit.metadata.get(SETTING)
            may_be_zero = setting is not None and setting.may_be_zero
            if value < 0 or (value == 0 and not may_be_zero):
                raise ValueError(f"{limit.name} must be positive")
        relations = (
            ("message_bytes_max", "request_bytes_max"),
            ("request_bytes_max", "queue_bytes_max"),
            ("poll_messages_default", "poll_messages_max"),
            ("transaction_timeout_s_default", "transaction_timeout_s_max"),
            ("transaction_timeout_s_max", "transaction_lifetime_s_max"),
            ("transaction_long_timeout_s", "transaction_lifetime_s_max"),
        )
        for smaller, larger in relations:
            if getattr(self, smaller) > getattr(self, larger):
                raise ValueError(f"{smaller} must not be over {larger}")
        if self.ttl_s_default > TTL_S_MAX:
            raise ValueError(f"ttl_s_default must not be over {TTL_S_MAX}")

    def poll_limit(self, limit: int | None) -> int:
        """Return how many messages a poll with this limit may return; None is the default.

        Raises `InvalidRequest` (invalid_limit).
        """
        if limit is None:
            return self.poll_messages_default
        if limit <= 0:
            raise InvalidRequest("invalid_limit", limit=limit)
        return min(limit, self.poll_messages_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalLimits:
    """The limits of one principal. Their settings begin with `principal_`.

    0 means no limit for a rate; for the other limits, a share of the total.
    """

    requests_per_s: int = _each("requests a second", by_time=True)
    publish_bytes_per_s: int = _each("bytes published a second", by_time=True)
    publish_messages_per_s: int = _each("messages published a second", by_time=True)
    connections_max: int = _each("connections")
    polls_max: int = _each("waiting polls and streams")
    arriving_bytes_max: int = _each("bytes of arriving bodies")
    topics_per_hour: int = _each("topics created an hour", by_time=True)

    @property
    def are_by_time(self) -> bool:
        """Whether a rate is limited."""
        by_time = self.requests_per_s, self.publish_bytes_per_s, self.publish_messages_per_s
        return any((*by_time, self.topics_per_hour))


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaLimits:
    """The limits of a schema registry. Their settings begin with `registry_`."""

    schemas_max: int = 1_000_000
    """The most versions of all subjects together."""
    schema_bytes_max: int = _seldom(1024 * 1024, "The largest text of a schema.")
    references_depth_max: int = 50
    """The longest chain of references."""
    references_max: int = 1_000
    """The most schemas that one schema refers to, directly or through others."""
