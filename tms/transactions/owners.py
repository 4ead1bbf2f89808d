"""The last sequence that each owner committed, from which origin, and who may act for whom.

An owner belongs to the principal that was the first to commit a sequence of it, for as long as it
is remembered. Where nobody said who it is, it belongs to nobody yet.

An owner is forgotten when its time is over, or when somebody asks for that, never for another's
sake. So their number is checked when a work begins that needs a new one, which has its place from
then on: a commit always finds room.

A caller that has said who it is acts on transactions of its own alone, unless it may end any. One
that nobody began under a name is not its own. A caller that has not said who it is (a store in the
process, a server that does not ask) is not checked.
"""

from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from tms.core.errors import NotPermitted, OwnerElsewhere, TooLarge, TransactionDuplicate
from tms.core.runtime.shares import Shares
from tms.core.values.caller import Caller
from tms.transactions.in_progress import Open
from tms.transactions.invalids import Invalid

_TOLD_FROM = 0.8
"""The part of the bound from which on it is told that there are many."""


class LastCommit(NamedTuple):
    """The last commit of an owner."""

    sequence: int
    transaction_id: int
    time_ms: int
    origin: str | None = None
    """The run of the owner that did."""
    principal: str | None = None
    """The principal of the owner; None: it is free."""


class Owners:
    """Owners that have committed a sequence, those who did so last at the end."""

    def __init__(self, count_max: int) -> None:
        """Take new ones while there are not `count_max`, of one principal while it has a share."""
        self.last_commits: dict[str, LastCommit] = {}
        self.shares = Shares(count_max)
        """How many each principal has, with those that are promised."""
        self._promised: dict[str, str | None] = {}
        """Those of transactions in progress that have committed nothing yet, and whose they are."""

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

    def check_room(self, owner: str | None, sequence: int | None, sharer: str | None) -> None:
        """Raise `TooLarge` (too_many_owners) if it would be new, and `sharer` has no room."""
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
        """Keep a place for an owner until its transaction ends, unless it has one."""
        if owner not in self.last_commits:
            self._promised[owner] = principal
            self.shares.add(principal)

    def take_back(self, owner: str) -> None:
        """Keep no place for an owner that has committed nothing."""
        if owner in self._promised:
            self.shares.add(self._promised.pop(owner), -1)

    def record(self, owner: str, commit: LastCommit) -> None:
        """Note a commit; whose the owner is stays as it was."""
        before = self.last_commits.pop(owner, None)
        if before is not None:
            self.shares.add(before.principal, -1)
            if before.principal not in (None, commit.principal):
                commit = commit._replace(principal=before.principal)
        self.last_commits[owner] = commit
        self.shares.add(commit.principal)

    def before(self, time_ms: int, busy: Container[str]) -> Iterator[str]:
        """Give the owners whose last commit was before a time, and that are not busy.

        One that committed behind a later one, because the clock was set back, waits for that.
        """
        for owner, last in self.last_commits.items():
            if last.time_ms >= time_ms:
                return
            if owner not in busy:
                yield owner

    def warnings(self) -> list[str]:
        """Return what is to be told once there are many."""
        shares = self.shares
        if shares.used < _TOLD_FROM * shares.bound:
            return []
        remembered = f"remembered owners of transactions: {shares.used} of {shares.bound}"
        advice = "raise transaction_owners_max, or forget some with `tms tx owners forget`"
        return [f"{remembered}; {advice}"]

    def forget(self, owner: str) -> None:
        """Forget an owner that is known. Raises `KeyError`."""
        self.shares.add(self.last_commits.pop(owner).principal, -1)


def check_own(caller: Caller, transaction_id: int, known: Open | Invalid | None) -> None:
    """Raise `NotPermitted` (transaction_of_another) if a transaction is known, and not its own."""
    if known is None or caller.principal in (None, known.principal):
        return
    if not caller.may_end_any:
        raise NotPermitted("transaction_of_another", transaction_id=transaction_id)
    caller.acts_on(f"transaction {transaction_id} of {known.principal or 'nobody'}")


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
