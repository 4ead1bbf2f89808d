"""What a model of isolation knows of a transaction, and who may do what to it."""

from dataclasses import dataclass, field

from tms.core.caller import Caller
from tms.core.transaction import Transaction

OPEN, COMMITTED, ABORTED, INVALID, GONE = "open", "committed", "aborted", "invalid", "gone"


def may_not(caller: Caller, principal: str | None) -> bool:
    """Whether a caller may do nothing to what is a principal's."""
    return caller.principal not in (None, principal) and not caller.may_end_any


@dataclass
class Known:
    """What the model knows of a transaction."""

    transaction: Transaction
    started: int
    """When, in steps."""
    expires_ms: int
    keys_from_ms: int
    """When it started, by the time that keys are of."""
    owner: str | None
    sequence: int | None
    principal: str | None = None
    status: str = OPEN
    committed: int = -1
    changes: frozenset[bytes] = frozenset()
    pointers: list[int] = field(default_factory=list)
    truncated: set[int] = field(default_factory=set)
