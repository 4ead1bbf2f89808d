"""The interface of cleanup, for those who look after a server.

The package `cleanup` fulfils it. It deletes rows that no reader could see any more; in compact
topics, and those with a bound, it deletes more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneBound:
    """How far the invalid transactions of one table's range have been cleaned up."""

    table: str
    start: str
    """The keys of the range, in hexadecimal digits; empty for the first."""
    stop: str
    write_pointer: int
    """Nothing that is invalid is left up to here."""
    transaction_ms: int
    """The time that the bound stands for: of the oldest transaction that may matter yet."""
    recorded_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidState:
    """The reasons why transactions stay on the invalid list."""

    count: int
    """Write pointers on it."""
    oldest: int | None = None
    """The least of them."""
    not_inverted: int = 0
    """How many are above the bound: what they wrote may not be inverted yet."""
    held_by: int | None = None
    """The oldest transaction in progress, where the bound cannot pass it; None where none does."""
    waits_until_ms: int | None = None
    """When the oldest is old enough to go, where it is inverted; None where it is not."""


@dataclass(frozen=True, slots=True)
class CleanupPass:
    """A pass that was finished."""

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
    """When the last pass began that was finished; None before the first."""
    last_seconds: float | None
    last_rows: int | None
    """How many rows it deleted or inverted."""
    last_failure: str | None
    """Why the pass after that could not be finished; None where it could."""
    scanned_rows: int
    dropped_rows: int
    dropped_bytes: int
    inverted_rows: int
    dropped_by_reason: Mapping[str, int] = field(default_factory=dict)
    """Rows, by why they were deleted."""
    bounds: Sequence[PruneBound] = ()
    invalid: InvalidState | None = None
    """None where transactions are managed elsewhere."""
    clock_step_s: int = 0
    """By how much the clock is ahead, in doubt, so that things wait; 0 if it is not in doubt."""
    last_passes: Sequence[CleanupPass] = ()
    """The last ones of this process that were finished, the newest first: 20 at most."""


class WrittenSoFar(NamedTuple):
    """How far a topic's generation was written, at one moment."""

    end: bytes
    """The key above all durable entries: what has a greater one may turn out not to be there."""
    stored_ms: Mapping[int, int]
    """By write pointer, when its first message was stored, in ms since 1970. It has the pointers
    under which this process has stored, and whose transactions have not committed or aborted by a
    durable write."""


class Cleanup(Protocol):
    """Cleanup of one server, in its event loop."""

    async def run_pass(self, timeout_s: float) -> bool:
        """Have a pass begin now; return whether it ended within `timeout_s` seconds."""
        ...

    async def state(self) -> CleanupState:
        """Return how it stands. Raises `StoreUnavailable`."""
        ...
