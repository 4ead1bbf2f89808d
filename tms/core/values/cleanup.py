"""The interface of cleanup for operators.

The package `cleanup` implements it. It deletes rows that readers can no longer see; in compact
topics, and in topics with a bound, it deletes more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneBound:
    """How far the invalid transactions in a range of a table have been cleaned up."""

    table: str
    start: str
    """The keys of the range, in hexadecimal digits; empty for the first."""
    stop: str
    write_pointer: int
    """No invalid entry is left up to here."""
    transaction_ms: int
    """The time of the bound: that of the oldest transaction that may still matter."""
    recorded_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidState:
    """Why transactions stay on the invalid list."""

    count: int
    """Write pointers on it."""
    oldest: int | None = None
    """The smallest of them."""
    not_inverted: int = 0
    """How many are above the bound: their writes may not be inverted yet."""
    held_by: int | None = None
    """The oldest transaction in progress, if it keeps the bound from moving; None if none does."""
    waits_until_ms: int | None = None
    """When the oldest is old enough to be removed, if its writes are inverted; None if not."""


@dataclass(frozen=True, slots=True)
class CleanupPass:
    """A finished pass."""

    started_ms: int
    """In milliseconds since 1970."""
    seconds: float
    rows: int
    """How many rows it deleted or inverted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupState:
    """The state of cleanup. Times are in milliseconds since 1970."""

    is_running: bool
    passes: int
    failed_passes: int
    last_started_ms: int | None
    """When the last finished pass began; None before the first."""
    last_seconds: float | None
    last_rows: int | None
    """How many rows it deleted or inverted."""
    last_failure: str | None
    """Why the pass after that could not finish; None if it could."""
    scanned_rows: int
    dropped_rows: int
    dropped_bytes: int
    inverted_rows: int
    dropped_by_reason: Mapping[str, int] = field(default_factory=dict)
    """Rows, by why they were deleted."""
    bounds: Sequence[PruneBound] = ()
    invalid: InvalidState | None = None
    """None if transactions are managed elsewhere."""
    clock_step_s: int = 0
    """How far the clock is ahead, in doubt, so that deletions wait; 0 unless a step is in doubt."""
    last_passes: Sequence[CleanupPass] = ()
    """The last finished passes of this process, the newest first: 20 at most."""


class WrittenSoFar(NamedTuple):
    """How far a topic's generation was written at one moment."""

    end: bytes
    """The key above all durable entries; entries with a greater key may turn out not to exist."""
    stored_ms: Mapping[int, int]
    """By write pointer, when its first message was stored, in ms since 1970. It has the pointers
    under which this process has stored and whose transactions have not durably committed or
    aborted.
    """


class Cleanup(Protocol):
    """Cleanup of one server, in its event loop."""

    async def run_pass(self, timeout_s: float) -> bool:
        """Start a pass now; return whether it ended within `timeout_s` seconds."""
        ...

    async def state(self) -> CleanupState:
        """Return the state of cleanup. Raises `StoreUnavailable`."""
        ...
