"""The state of transactions of a store whose topics are copied into another.

No transaction may be in progress: a program that has one continues it with the source's server.
Invalid and committed transactions and owners are carried over, if the target has no state yet. If
it has transactions of its own, its write pointers must be ahead of the source's, so that its
readers see what was committed there.

The shards of a source become one state, with the greatest sequence of each owner. Each shard of a
target gets all of it, so that every shard knows outcomes and owners. An invalid transaction,
however, is only on the list of the shard in its id, so that it is counted once. The other shards
need not know it, because its entries are inverted during the copy.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tms.core.errors import CopyRefused
from tms.core.limits import Limits
from tms.core.runtime.repeatable import repeatable
from tms.core.values.shards import EVERY_ID, OwnIds
from tms.transactions.commands import TransactionState
from tms.transactions.invalids import Invalids
from tms.transactions.owners import LastCommit
from tms.transactions.recovery import recover
from tms.transactions.segments import within
from tms.transactions.snapshot_codec import encode_snapshot

if TYPE_CHECKING:
    from tables.transaction_table import StoreTransactionTable

_NAMED_MAX = 10


TargetHas = Literal["no", "the source's", "its own"]


@dataclass(frozen=True, slots=True)
class SourceTransactions:
    """The source's transactions."""

    state: TransactionState
    next_sequence: int
    """The number at which the target's log continues."""

    @property
    def invalids(self) -> frozenset[int]:
        """The invalid write pointers."""
        return frozenset(self.state.invalids)


@dataclass(frozen=True, slots=True)
class CopiedTransactions:
    """The transactions of both sides, as far as a copy of messages needs them."""

    invalids: frozenset[int]
    """The source's invalid write pointers."""
    taken: frozenset[int]
    """The transactions that are in progress or invalid in the target."""
    target_has: TargetHas
    """Says which transactions the target has now."""


@repeatable()
def read_source(
    tables: Iterable["StoreTransactionTable"], limits: Limits, now_ms: int
) -> SourceTransactions | None:
    """Return the state in all `tables` of the source, one for each shard; None if empty.

    Raises `CopyRefused`, which says what to do, `StoreCorrupt`, `StoreUnavailable`.
    """
    recovered = [recover(table, limits, now_ms) for table in tables if table.snapshots()]
    in_progress = [opened.id for each in recovered for opened in each.state.opened]
    if in_progress:
        raise CopyRefused(
            in_progress=in_progress[:_NAMED_MAX],
            count=len(in_progress),
            reason="the source has transactions in progress: end them there with `tms tx list` and "
            "`tms tx invalidate ID`, or wait for their timeouts",
        )
    if not recovered:
        return None
    if len(recovered) == 1:
        return SourceTransactions(recovered[0].state, within(recovered[0].next_sequence))
    merged = _merged([each.state for each in recovered], limits, now_ms)
    return SourceTransactions(merged, max(within(each.next_sequence) for each in recovered))


@repeatable()
def carry(
    source: SourceTransactions | None,
    target: "StoreTransactionTable",
    limits: Limits,
    now_ms: int,
    ids: OwnIds = EVERY_ID,
) -> CopiedTransactions:
    """Carry the state over, if the target has none; return what the copy needs of it.

    `ids` are the write pointers of the target, if that is a shard. Raises `CopyRefused`, which says
    what to do, `StoreCorrupt`, `StoreUnavailable`.
    """
    if source is None:
        return CopiedTransactions(frozenset(), frozenset(), "no")
    state, invalids = source.state, source.invalids
    if not target.snapshots():
        # The target's leaders, if any, begin with tokens of their own.
        snapshot = encode_snapshot(_listing(state, ids), now_ms)
        target.put_snapshot(source.next_sequence, snapshot)
        return CopiedTransactions(invalids, frozenset(), "the source's")
    own = recover(target, limits, now_ms).state
    if own.last_write_pointer < state.last_write_pointer:
        raise CopyRefused(
            source_at=state.last_write_pointer,
            target_at=own.last_write_pointer,
            reason="the transactions of the target are behind those of the source: start one "
            "there with `tms tx start`, end it, and copy again",
        )
    return CopiedTransactions(invalids, _taken(own) - invalids, "its own")


def _listing(state: TransactionState, ids: OwnIds) -> TransactionState:
    """Return a state whose invalid list has only some ids."""
    narrowed = copy(state)
    narrowed.invalids = Invalids()
    narrowed.invalids.load(
        {p: invalid for p, invalid in state.invalids.items() if ids.has(invalid.id)}
    )
    return narrowed


def _merged(states: Sequence[TransactionState], limits: Limits, now_ms: int) -> TransactionState:
    """Merge the states of several shards, without what is kept for transactions in progress."""
    merged = TransactionState(limits, now_ms)
    merged.last_write_pointer = max(state.last_write_pointer for state in states)
    merged.read_pointer = max(state.read_pointer for state in states)
    invalids = {p: invalid for state in states for p, invalid in state.invalids.items()}
    merged.invalids.load(dict(sorted(invalids.items())))
    codes = dict(sorted(item for state in states for item in state.outcomes.codes.items()))
    merged.outcomes.load([*codes], [*codes.values()])
    commits: dict[str, LastCommit] = {}
    for state in states:
        for owner, commit in state.owners.last_commits.items():
            earlier = commits.get(owner)
            commits[owner] = commit if earlier is None else _later(owner, earlier, commit)
    for owner, commit in sorted(commits.items(), key=lambda item: item[1].time_ms):
        merged.owners.record(owner, commit)
    return merged


def _later(owner: str, one: LastCommit, other: LastCommit) -> LastCommit:
    """Return the one with the greater sequence. Raises `CopyRefused` if they are not comparable."""
    principals = {one.principal, other.principal} - {None}
    for what, values in (("origin", {one.origin, other.origin}), ("principal", principals)):
        if len(values) > 1:
            raise CopyRefused(
                owner=owner,
                reason=f"shards have different values of its {what}, so it is unclear "
                "which of its sequences were committed: finish its last work, and forget it there "
                "with `tms tx owners forget NAME`",
                **{f"{what}s": sorted(map(str, values))},
            )
    later = max(one, other, key=lambda commit: commit.sequence)
    return later._replace(principal=next(iter(principals), None))


def _taken(state: TransactionState) -> frozenset[int]:
    in_progress = [pointer for opened in state.opened for pointer in opened.pointers]
    return frozenset(in_progress) | frozenset(state.invalids)
