"""The knowledge of the model of isolation: transactions, their callers, and their owners."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tms.core.limits import Limits
from tms.core.runtime.shares import share_of
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.transaction import Transaction
from tms.transactions.owners import Owners

OPEN, COMMITTED, ABORTED, INVALID, GONE = "open", "committed", "aborted", "invalid", "gone"
LIMITS = Limits(transaction_owners_max=3, transaction_outcomes_max=1_000)


KEYS = st.frozensets(st.sampled_from([b"x", b"y", b"z"]))


OWNERS = st.sampled_from(["o", "p", "q", "r"])


PICK = st.integers(0, 1_000)


PRINCIPALS = ("ann", "bob")
CALLERS = st.sampled_from(
    [
        ANYBODY,
        *map(Caller, PRINCIPALS),
        Caller(PRINCIPALS[0], may_end_any=True),
        Caller(PRINCIPALS[1], has_all=True),
    ]
)


def may_not(caller: Caller, principal: str | None) -> bool:
    """Whether a caller may not touch a principal's transactions and owners."""
    return caller.principal not in (None, principal) and not caller.may_end_any


@dataclass
class Known:
    """The model's knowledge of a transaction."""

    transaction: Transaction
    started: int
    """When, in steps."""
    expires_ms: int
    keys_from_ms: int
    """When it started, by the clock that keys use."""
    owner: str | None
    sequence: int | None
    principal: str | None = None
    status: str = OPEN
    committed: int = -1
    changes: frozenset[bytes] = frozenset()
    pointers: list[int] = field(default_factory=list)
    truncated: set[int] = field(default_factory=set)


Holders = Mapping[str, str | None]
"""Owners, and the principal that each belongs to."""


def has_place(holders: Holders, caller: Caller, owner: str | None) -> bool:
    """Whether an owner occupies a place, or its caller may take one for it."""
    if owner is None or owner in holders:
        return True
    if caller.has_all or caller.principal is None:
        return len(holders) < LIMITS.transaction_owners_max
    mine = sum(holder == caller.principal for holder in holders.values())
    return share_of(LIMITS.transaction_owners_max, mine, len(holders) - mine) > 0


def check_owners(
    owners: Owners, holders: Holders, whose: Holders, last_sequences: Mapping[str, int]
) -> None:
    """Check that owners that committed are remembered, and those with a place are counted."""
    remembered = owners.last_commits
    assert {owner: last.principal for owner, last in remembered.items()} == whose
    assert {owner: last.sequence for owner, last in remembered.items()} == last_sequences
    assert owners.shares.used == len(holders)
    for principal in PRINCIPALS:
        assert owners.shares.used_by(principal) == [*holders.values()].count(principal)
