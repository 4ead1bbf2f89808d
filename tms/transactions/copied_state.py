"""The state of transactions of a store that is copied into another.

In progress there may be none: whoever has one goes on with its server, which is the source's. What
is invalid, committed or known of owners goes over, where the target knows nothing yet. Where it
has transactions of its own, it must be ahead of the source's, so that its readers see what was
committed there.
"""

from dataclasses import dataclass
from typing import Literal

from tms.core.errors import CopyRefused
from tms.core.limits import Limits
from tms.core.repeatable import repeatable
from tms.core.tables import TransactionTable
from tms.transactions.commands import TransactionState
from tms.transactions.recovery import recover
from tms.transactions.segments import within
from tms.transactions.snapshot_codec import encode_snapshot

_NAMED_MAX = 10


@dataclass(frozen=True, slots=True)
class CopiedTransactions:
    """The facts about both sides that a copy of messages needs."""

    invalids: frozenset[int]
    """The source's invalid write pointers."""
    taken: frozenset[int]
    """The transactions that are in progress or invalid in the target."""
    target_has: Literal["no", "the source's", "its own"]
    """Which transactions the target has now."""


@repeatable()
def carry(
    source: TransactionTable, target: TransactionTable, limits: Limits, now_ms: int
) -> CopiedTransactions:
    """Carry the state over, if the target has none; return what the copy must know.

    Raises `CopyRefused` with the way out, `StoreCorrupt`, `StoreUnavailable`.
    """
    if not source.snapshots():
        return CopiedTransactions(frozenset(), frozenset(), "no")
    found = recover(source, limits, now_ms)
    in_progress = [opened.id for opened in found.state.opened]
    if in_progress:
        raise CopyRefused(
            in_progress=in_progress[:_NAMED_MAX],
            count=len(in_progress),
            reason="the source has transactions in progress: end them there with `tms tx list` and "
            "`tms tx invalidate ID`, or wait for their timeouts",
        )
    invalids = frozenset(found.state.invalids.by_pointer)
    if not target.snapshots():
        # The target's leaders, if it has any, begin with tokens of their own.
        target.put_snapshot(within(found.next_sequence), encode_snapshot(found.state, now_ms))
        return CopiedTransactions(invalids, frozenset(), "the source's")
    own = recover(target, limits, now_ms).state
    if own.last_write_pointer < found.state.last_write_pointer:
        raise CopyRefused(
            source_at=found.state.last_write_pointer,
            target_at=own.last_write_pointer,
            reason="the transactions of the target are behind those of the source: start one "
            "there with `tms tx start`, end it, and copy again",
        )
    return CopiedTransactions(invalids, _taken(own) - invalids, "its own")


def _taken(state: TransactionState) -> frozenset[int]:
    in_progress = [pointer for opened in state.opened for pointer in opened.pointers]
    return frozenset(in_progress) | frozenset(state.invalids.by_pointer)
