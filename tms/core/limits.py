"""Every limit, named with its unit last, with the relations between them.

The settings of a server give the values (`tms.settings`); the core only sees this value.
"""

from dataclasses import dataclass

MS_PER_S = 1_000
INT64_MAX = 2**63 - 1
JSON_INTEGER_MAX = 2**53 - 1
"""The largest whole number up to which all programs that read JSON can tell numbers apart."""
UINT16_COUNT = 1 << 16
"""Sequence ids in one millisecond: the key has two bytes for them. DO NOT CHANGE: on disk."""

WRITE_POINTERS_PER_MS = 1_000_000
"""A write pointer is a time in ms times this, as in Tephra. DO NOT CHANGE: on disk."""

TTL_S_MAX = 2**31 - 1
TTL_S_DEFAULT = 604_800
NAME_CHARS_MAX = 255
LIMIT_MAX = 2**31 - 1
"""The largest limit a poll's body can carry: an Avro int."""


_MAY_BE_NONE = ("cache_bytes_max", "principal_transactions_max", "clock_hold_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one service takes, holds and gives at most."""

    ttl_s_default: int = TTL_S_DEFAULT
    transaction_lifetime_s_max: int = 25 * 3600

    transaction_timeout_s_default: int = 30
    transaction_timeout_s_max: int = 24 * 3600
    transaction_long_timeout_s: int = 24 * 3600
    transactions_in_progress_max: int = 10_000
    principal_transactions_max: int = 0
    """In progress of one principal; 0: its share of all (`tms.core.shares`)."""
    transaction_changes_max: int = 100_000
    transaction_changes_bytes_max: int = 4 * 1024 * 1024
    transaction_changes_kept_bytes_max: int = 256 * 1024 * 1024
    transaction_checkpoints_max: int = 1_000
    transaction_outcomes_max: int = 200_000
    transaction_owners_max: int = 1_000_000
    transaction_owner_retention_s: int = 7 * 24 * 3600
    transaction_snapshot_s: int = 300
    transaction_snapshot_edits: int = 500_000
    transaction_snapshots_kept: int = 3

    clock_step_s_max: float = 60.0
    """By how much the machine's clock may step and be followed at once."""
    clock_hold_s: float = 3_600.0
    """How long it must stay as it is after a larger step to be believed; 0: not at all."""

    cleanup_period_s: float = 60.0
    cleanup_slice_rows: int = 2_000
    cleanup_slice_ms: int = 1
    cleanup_pause_ms: int = 10
    cleanup_grace_s: int = 24 * 3600
    cleanup_keys_max: int = 400_000

    request_bytes_max: int = 16 * 1024 * 1024
    request_messages_max: int = 100_000
    request_gzip_ratio_max: int = 100
    message_bytes_max: int = 10 * 1024 * 1024
    frame_bytes_max: int = 16 * 1024
    message_headers_max: int = 100
    request_body_s_max: float = 30.0
    request_head_bytes_max: int = 64 * 1024
    request_head_s_max: float = 60.0
    """Longer than clients keep a connection for reuse, so that it is they who close it."""
    connections_max: int = 10_000

    queue_bytes_max: int = 64 * 1024 * 1024
    queue_requests_max: int = 10_000
    flush_bytes_max: int = 16 * 1024 * 1024

    cache_bytes_max: int = 64 * 1024 * 1024
    topics_in_memory_max: int = 20_000
    topics_max: int = 200_000
    """Twice as many as were tried."""
    topic_properties_bytes_max: int = 1024 * 1024
    topic_properties_max: int = 1_000
    namespaces_max: int = 10_000
    topic_subscriptions_max: int = 1_000

    metric_series_max: int = 500

    poll_messages_default: int = 100
    poll_messages_max: int = 1_000_000
    poll_block_bytes: int = 256 * 1024
    poll_wait_s_max: float = 60.0

    def __post_init__(self) -> None:
        """Refuse limits that contradict each other."""
        for name in self.__slots__:
            value = getattr(self, name)
            is_none_allowed = name in _MAY_BE_NONE
            if value < 0 or (value == 0 and not is_none_allowed):
                raise ValueError(f"{name} must be positive")
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
