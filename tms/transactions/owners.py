"""The last sequence that each owner committed, its origin, and who may act on what.

An owner belongs to the first principal that committed a sequence of it, for as long as it is
remembered. Without a principal, it belongs to nobody yet.

An owner is forgotten when its retention is over, or on request, never to make room for another. So
a transaction that needs a new owner reserves a place for it when it starts, or is refused. Then its
commit always finds room.

A caller with a principal acts only on its own transactions, unless it may end any. A transaction
begun without a principal is not its own. A caller without a principal (a store in the process, a
server without access control) is not checked.
"""

from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from tms.core.errors import NotPermitted, OwnerElsewhere, TooLarge, TransactionDuplicate
from tms.core.runtime.shares import Shares
from tms.core.values.caller import Caller
from tms.transactions.in_progress import Open
from tms.transactions.invalids import Invalid

_WARNED_FROM = 0.8
"""The fraction of the bound from which on there is a warning."""


class LastCommit(NamedTuple):
    """The last commit of an owner."""

    sequence: int
    transaction_id: int
    time_ms: int
    origin: str | None = None
    """The run of the owner that committed it."""
    principal: str | None = None
    """The principal of the owner; None if it is free."""


class Owners:
    """Owners that have committed a sequence, the latest commit last."""

    def __init__(self, count_max: int) -> None:
        """Accept new owners up to `count_max`, and of one principal up to its share."""
        self.last_commits: dict[str, LastCommit] = {}
        self.shares = Shares(count_max)
        """The number of owners of each principal, including promised ones."""
        self._promised: dict[str, str | None] = {}
        """New owners of transactions in progress, and their principals."""

    def check(self, owner: str | None, sequence: int | None, origin: str | None = None) -> None:
        """Raise `TransactionDuplicate` if the owner has committed the sequence or a later one.

        Raises `OwnerElsewhere` if it did so from another origin, because the work may differ.
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

    def check_room(self, owner: str | None, sequence: int | None, sharer: str | None) -> None:
        """Raise `TooLarge` (too_many_owners) if the owner is new, and `sharer` has no room."""
        if owner is None or sequence is None:
            return
        if owner in self.last_commits or owner in self._promised or self.shares.room(sharer):
            return
        raise TooLarge(
            "too_many_owners",
            owners=self.shares.used,
            owners_of_principal=self.shares.used_by(sharer),
            transaction_owners_max=self.shares.bound,
        )

    def promise(self, owner: str, principal: str | None) -> None:
        """Reserve a place for an owner until its transaction ends, unless it has one."""
        if owner not in self.last_commits:
            self._promised[owner] = principal
            self.shares.add(principal)

    def take_back(self, owner: str) -> None:
        """Release the place of an owner that has committed nothing."""
        if owner in self._promised:
            self.shares.add(self._promised.pop(owner), -1)

    def record(self, owner: str, commit: LastCommit) -> None:
        """Record a commit; the owner keeps its principal."""
        before = self.last_commits.pop(owner, None)
        if before is not None:
            self.shares.add(before.principal, -1)
            if before.principal not in (None, commit.principal):
                commit = commit._replace(principal=before.principal)
        self.last_commits[owner] = commit
        self.shares.add(commit.principal)

    def before(self, time_ms: int, busy: Container[str]) -> Iterator[str]:
        """Yield the owners whose last commit was before a time, and that are not busy.

        An owner recorded after one with a later commit, because the clock was set back, waits for
        that one.
        """
        for owner, last in self.last_commits.items():
            if last.time_ms >= time_ms:
                return
            if owner not in busy:
                yield owner

    def warnings(self) -> list[str]:
        """Return warnings if there are many."""
        shares = self.shares
        if shares.used < _WARNED_FROM * shares.bound:
            return []
        remembered = f"remembered owners of transactions: {shares.used} of {shares.bound}"
        advice = "raise transaction_owners_max, or forget some with `tms tx owners forget`"
        return [f"{remembered}; {advice}"]

    def forget(self, owner: str) -> None:
        """Forget an owner. Raises `KeyError` if there is none."""
        self.shares.add(self.last_commits.pop(owner).principal, -1)


def check_own(caller: Caller, transaction_id: int, transaction: Open | Invalid | None) -> None:
    """Raise `NotPermitted` (transaction_of_another) if a transaction is another principal's."""
    if transaction is None or caller.principal in (None, transaction.principal):
        return
    if not caller.may_end_any:
        raise NotPermitted("transaction_of_another", transaction_id=transaction_id)
    caller.acts_on(f"transaction {transaction_id} of {transaction.principal or 'nobody'}")


def check_owner_own(
    caller: Caller,
    owner: str | None,
    busy: Mapping[str, Open],
    last_commits: Mapping[str, LastCommit],
) -> None:
    """Raise `NotPermitted` (transaction_of_another) if an owner is another principal's.

    `busy` has the transactions in progress by their owners: no two principals share one.
    """
    if owner is None or caller.principal is None:
        return
    last, opened = last_commits.get(owner), busy.get(owner)
    is_taken = last is not None and last.principal not in (None, caller.principal)
    if not is_taken and (opened is None or opened.principal == caller.principal):
        return
    if not caller.may_end_any:
        raise NotPermitted("transaction_of_another", owner=owner)
    whose = opened.principal if opened is not None else last and last.principal
    caller.acts_on(f"owner {owner} of {whose or 'nobody'}")
