"""The interface of the transaction manager: what a service offers and a client is built on.

`tms.transactions.service` fulfils it in the process, `tms.client.remote.remote_transactions` over
REST. The rules are Tephra's, with an owner and a sequence besides: a transaction may carry the name
of the producer or job that owns it and the number of its work. A sequence is committed once:
starting it again is a `TransactionDuplicate`, which is how a producer that lost an answer can
repeat safely. An owner whose runs number their work from the start names each of them by an origin:
then the old sequence of another run is an `OwnerElsewhere`, not a work that seems done.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from tms.core.errors import InvalidRequest
from tms.core.limits import INT64_MAX, JSON_INTEGER_MAX, NAME_CHARS_MAX
from tms.core.services.commits import NOTHING, CommitRequest
from tms.core.text.durations import span
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.owners import OWNERS_LISTED, OwnerInfo
from tms.core.values.transaction import Transaction, TransactionType


class TransactionStatus(StrEnum):
    """Where a transaction stands."""

    IN_PROGRESS = "in_progress"
    COMMITTING = "committing"
    """Asked whether it can commit, with changes, and told yes. Still in progress."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    INVALID = "invalid"
    """Timed out or invalidated: what it wrote is there, and no reader is to see it."""


class IfOpen(StrEnum):
    """The rule for an older transaction of the same owner that is still open."""

    REFUSE = "refuse"
    """The new one is refused."""
    FENCE = "fence"
    """The older one is invalidated."""
    JOIN = "join"
    """There is no new one: the older one is returned, if its sequence is the same."""


class StartRequest(NamedTuple):
    """The parameters of a new transaction."""

    type: TransactionType = TransactionType.SHORT
    timeout_s: int | None = None
    """After how many seconds a short one becomes invalid; None is the server's default."""
    client: str = ""
    """A name of the client, for operators."""
    owner: str | None = None
    sequence: int | None = None
    """The number of this work among its owner's, ascending, 0 to 2**53 - 1; needs an owner."""
    origin: str | None = None
    """Which run of the owner does the work; needs an owner. Only the same may repeat a sequence."""
    if_open: IfOpen = IfOpen.REFUSE
    namespace: str = "default"
    """Where the transaction belongs: a store with several shards has it beside this namespace."""
    topic: str | None = None
    """If the store has its topics in shards by their names: a topic that it will use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionInfo:
    """A transaction as those see it who look after the server. Times in ms since 1970."""

    transaction_id: int
    status: TransactionStatus
    type: TransactionType
    write_pointers: Sequence[int]
    """The id, then the pointers of its checkpoints."""
    started_ms: int
    expires_ms: int | None
    """When it becomes invalid by itself; None once it is not in progress."""
    age_ms: int = 0
    """How long ago it began, by the clock of the server that has it."""
    ends_in_ms: int | None = None
    """After how long it becomes invalid by itself, by the same clock; None as `expires_ms`, and of
    a server that does not tell it."""
    client: str = ""
    owner: str | None = None
    sequence: int | None = None
    principal: str | None = None
    """Whose it is, if that was known at its start. Of one that has committed or aborted, neither
    this is told nor its client, owner and sequence."""
    topics: Sequence[str] = ()
    """Where it has published and not rolled back, as `namespace:topic`; as far as is known: a
    server that was restarted has forgotten."""


def standing(info: TransactionInfo) -> str:
    """Return for people who has a transaction, for how long, and when it ends by itself."""
    who = f"transaction {info.transaction_id}"
    if info.client:
        who += f" of client {info.client}"
    if info.expires_ms is None:
        return f"{who}, {info.status.value}"
    told = f"{who}, {span(info.age_ms)} old"
    return told if info.ends_in_ms is None else f"{told}, times out in {span(info.ends_in_ms)}"


def check_owner(owner: str | None, sequence: int | None, origin: str | None = None) -> None:
    """Raise `InvalidRequest` (invalid_owner) unless they can name a work."""
    are_named = all(name is None or 1 <= len(name) <= NAME_CHARS_MAX for name in (owner, origin))
    is_numbered = sequence is None or 0 <= sequence <= JSON_INTEGER_MAX
    is_owned = owner is not None or (sequence is None and origin is None)
    if not (are_named and is_numbered and is_owned):
        raise InvalidRequest("invalid_owner", owner=owner, sequence=sequence, origin=origin)


def check_transaction_id(transaction_id: int) -> int:
    """Return the id. Raises `InvalidRequest` (invalid_transaction_id) if it cannot be one."""
    if not 0 < transaction_id <= INT64_MAX:
        raise InvalidRequest("invalid_transaction_id", transaction_id=transaction_id)
    return transaction_id


class AsyncTransactions(Protocol):
    """Starts and ends transactions. Each method may raise `Unavailable` and `InternalError` too.

    What changes something is durable when it returns. Methods that take the id of a transaction
    raise `TransactionNotInProgress` where it has ended, whose detail has its `status`, and
    `TransactionUnknown` where it never was, or ended too long ago.

    A transaction belongs to the principal of the `caller` that started it. Methods that take the id
    of one raise `NotPermitted` (transaction_of_another) if the caller is another principal, and may
    not end any. A caller without a principal is not checked (`tms.core.values.caller`).
    """

    async def start(self, request: StartRequest, *, caller: Caller = ANYBODY) -> Transaction:
        """Start a transaction.

        Raises `TransactionDuplicate` where the sequence is committed already, `OwnerElsewhere`
        where that was by another origin, `OwnerBusy`,
        `InvalidRequest` (invalid_timeout, invalid_owner), `TooManyTransactions`, `NotPermitted`
        (transaction_of_another) if the owner is another principal's, `RateExceeded`
        (principal_rate_exceeded), `TooLarge` (too_many_owners).
        """
        ...

    async def transaction(self, transaction_id: int, *, caller: Caller = ANYBODY) -> Transaction:
        """Return the snapshot of a transaction in progress, as `start` or `checkpoint` did."""
        ...

    async def info(self, transaction_id: int, *, caller: Caller = ANYBODY) -> TransactionInfo:
        """Return where a transaction stands, also one that ended of late.

        This is how a client that lost the answer to a commit learns of it. How one has ended that
        committed or aborted, everybody is told. Raises `TransactionUnknown`, `NotPermitted` only.
        """
        ...

    async def can_commit(
        self, transaction_id: int, changes: Collection[bytes], *, caller: Caller = ANYBODY
    ) -> None:
        """Announce what it changed, before it is made persistent.

        Raises `TransactionConflict` where another that committed meanwhile changed one of the same
        keys, and `TooLarge` (too_many_changes).
        """
        ...

    async def commit(
        self,
        transaction_id: int,
        request: CommitRequest = NOTHING,
        *,
        caller: Caller = ANYBODY,
    ) -> None:
        """Make it visible as a whole, and with it do what is requested besides.

        What was stored and is not named there stays unreachable. Raises `TransactionConflict`,
        `TransactionDuplicate`, `OwnerElsewhere`, `SubscriptionMoved`, `SubscriptionNotFound`,
        `TopicNotFound`, `PublicationRefused`, `TooLarge` (too_many_topics_at_once); then it is
        still in progress, and should be aborted.
        """
        ...

    async def abort(self, transaction_id: int, *, caller: Caller = ANYBODY) -> TransactionStatus:
        """End it; all that it wrote has been undone. Return what it is now.

        That is ABORTED, or INVALID where not all it published was rolled back, or it is long:
        readers skip what it left.
        """
        ...

    async def invalidate(self, transaction_id: int, *, caller: Caller = ANYBODY) -> None:
        """End it where what it wrote could not be undone, or nobody is there who could."""
        ...

    async def checkpoint(self, transaction_id: int, *, caller: Caller = ANYBODY) -> Transaction:
        """Return it with a new write pointer: what was written before can be told from what comes.

        Raises `TooLarge` (too_many_checkpoints).
        """
        ...

    async def in_progress(self) -> list[TransactionInfo]:
        """Return the transactions in progress, oldest first."""
        ...

    async def invalid(self, limit: int | None = None) -> list[TransactionInfo]:
        """Return the invalid transactions, at most `limit`, oldest first."""
        ...

    async def invalid_count(self) -> int:
        """Return how many write pointers are in the invalid list."""
        ...

    async def truncate_invalid_ids(self, ids: Collection[int]) -> int:
        """Take write pointers off the invalid list; return how many were on it.

        Only once nothing written under them is left: it would become visible.
        """
        ...

    async def truncate_invalid_before(self, time_ms: int) -> int:
        """Take those off the invalid list that started before a time; return how many.

        Raises `InvalidTruncateTime` where one that started before is in progress.
        """
        ...

    async def owners(
        self, limit: int = OWNERS_LISTED, *, principal: str | None = None
    ) -> list[OwnerInfo]:
        """Return the owners that are remembered, at most `limit`, oldest commit first.

        More than `OWNERS_LISTED_MAX` are never listed. With a `principal`, those that are its own.
        """
        ...

    async def forget_owner(self, owner: str, *, caller: Caller = ANYBODY) -> None:
        """Forget an owner: its sequences may be committed again, and anybody may use it.

        Raises `OwnerNotFound`, `OwnerBusy` if a transaction of it is open, `NotPermitted`
        (transaction_of_another).
        """
        ...

    async def snapshot(self) -> bytes:
        """Return the whole state, as `docs/formats.md` describes it; Tephra reads it as its own."""
        ...


class Publications(Protocol):
    """The calls of the manager to messaging in the same process, from the event loop's thread."""

    def are_left(self, write_pointers: Iterable[int]) -> bool:
        """Whether there is anything under the pointers that was not rolled back."""
        ...

    def are_half_rolled_back(self, write_pointers: Iterable[int]) -> bool:
        """Whether a rollback under one of the pointers has begun, and not come to its end."""
        ...

    def topics(self, write_pointers: Iterable[int]) -> Sequence[str]:
        """Return the topics that have something under the pointers, as `namespace:topic`."""
        ...

    def wake(self, write_pointers: Iterable[int]) -> None:
        """Wake the readers of those topics: the transaction has ended."""
        ...

    def wake_all(self) -> None:
        """Wake all readers: one has ended of which nobody knows where it published."""
        ...

    def forget(self, write_pointers: Iterable[int]) -> None:
        """Forget what is under the pointers."""
        ...

    def forget_all_but(self, is_kept: Callable[[int], bool]) -> None:
        """Forget what is under all pointers of which `is_kept` is not true."""
        ...
