"""The last sequence that each owner committed, from which origin, and whose the owner is.

An owner belongs to the principal that was the first to commit a sequence of it, for as long as it
is remembered. Where nobody said who it is, it belongs to nobody yet.
"""

from collections import OrderedDict
from collections.abc import Container
from typing import NamedTuple

from tms.core.errors import OwnerElsewhere, TransactionDuplicate

_TRIES = 8
"""How many owners are passed over that have a transaction open, to find one to forget."""


class LastCommit(NamedTuple):
    """What an owner committed last."""

    sequence: int
    transaction_id: int
    time_ms: int
    origin: str | None = None
    """The run of the owner that did."""
    principal: str | None = None
    """Whose the owner is; None: nobody's yet."""


class Owners:
    """Owners that have committed a sequence, those who did so last at the end."""

    def __init__(self, count_max: int) -> None:
        self.last_commits: OrderedDict[str, LastCommit] = OrderedDict()
        self._count_max = count_max

    def check(self, owner: str | None, sequence: int | None, origin: str | None = None) -> None:
        """Raise `TransactionDuplicate` where the owner has committed the sequence, or a later.

        Raises `OwnerElsewhere` where it did so from another origin: the work may be another.
        """
        if owner is None or sequence is None:
            return
        last = self.last_commits.get(owner)
        if last is None or last.sequence < sequence:
            return
        facts = {
            "owner": owner,
            "sequence": sequence,
            "committed_sequence": last.sequence,
            "transaction_id": last.transaction_id,
        }
        if last.origin != origin:
            raise OwnerElsewhere(**facts, origin=origin, committed_origin=last.origin)
        raise TransactionDuplicate(**facts)

    def record(self, owner: str, commit: LastCommit, busy: Container[str]) -> None:
        """Note a commit; whose the owner is stays as it was.

        Beyond the bound, forget the oldest other owner that is not busy.
        Where the oldest are all busy, the bound is passed until they are not.
        """
        commits = self.last_commits
        before = commits.get(owner)
        if before is not None and before.principal not in (None, commit.principal):
            commit = commit._replace(principal=before.principal)
        commits[owner] = commit
        commits.move_to_end(owner)
        for _ in range(_TRIES):
            if len(commits) <= self._count_max:
                return
            oldest = next(iter(commits))
            if oldest == owner or oldest in busy:
                commits.move_to_end(oldest)
            else:
                del commits[oldest]

    def before(self, time_ms: int, busy: Container[str]) -> list[str]:
        """Return the owners whose last commit was before a time, and that are not busy."""
        return [
            owner
            for owner, last in self.last_commits.items()
            if last.time_ms < time_ms and owner not in busy
        ]

    def forget(self, time_ms: int, busy: Container[str]) -> None:
        """Forget those that `before` returns."""
        for owner in self.before(time_ms, busy):
            del self.last_commits[owner]
