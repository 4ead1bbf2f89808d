"""The interface of the transaction manager, which a service implements and a client uses.

`tms.transactions.service` implements it in the process, `tms.client.remote.remote_transactions`
over REST. The rules are Tephra's, extended by an owner and a sequence: a transaction may carry the
name of the producer or job that owns it and the number of its work. A sequence is committed once:
starting it again raises `TransactionDuplicate`, so a producer that lost an answer can safely repeat
its work. If each run of an owner numbers its work from the start, an origin names the run: then the
old sequence of another run raises `OwnerElsewhere` instead of looking done.
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
    """The status of a transaction."""

    IN_PROGRESS = "in_progress"
    COMMITTING = "committing"
    """It announced its changes and may commit. Still in progress."""
    COMMITTED = "committed"
    ABORTED = "aborted"
    INVALID = "invalid"
    """Timed out or invalidated: its writes exist, and no reader may see them."""


class IfOpen(StrEnum):
    """The action on an older transaction of the same owner that is still open."""

    REFUSE = "refuse"
    """The new one is refused."""
    FENCE = "fence"
    """The older one is invalidated."""
    JOIN = "join"
    """The older one is returned if its sequence is the same; no new one starts."""


class StartRequest(NamedTuple):
    """The parameters of a new transaction."""

    type: TransactionType = TransactionType.SHORT
    timeout_s: int | None = None
    """After how many seconds a short one becomes invalid; None for the server's default."""
    client: str = ""
    """A name of the client, for operators."""
    owner: str | None = None
    sequence: int | None = None
    """The number of this work among its owner's, ascending, 0 to 2**53 - 1; needs an owner."""
    origin: str | None = None
    """Identifies the owner's run; needs an owner. Only the same origin may repeat a sequence."""
    if_open: IfOpen = IfOpen.REFUSE
    namespace: str = "default"
    """The home of the transaction: a store with several shards keeps it with this namespace."""
    topic: str | None = None
    """A topic that it will use, if the store's topics are in shards by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionInfo:
    """A transaction as operators see it. Times in ms since 1970."""

    transaction_id: int
    status: TransactionStatus
    type: TransactionType
    write_pointers: Sequence[int]
    """The id, then the pointers of its checkpoints."""
    started_ms: int
    expires_ms: int | None
    """When it times out; None once it is not in progress."""
    age_ms: int = 0
    """Its age, by the clock of its server."""
    ends_in_ms: int | None = None
    """After how long it times out, by the same clock; None as in `expires_ms`, or if the server
    does not report it.
    """
    client: str = ""
    owner: str | None = None
    sequence: int | None = None
    principal: str | None = None
    """Its principal, if known at its start. For a committed or aborted one this is unknown, as are
    its client, owner and sequence.
    """
    topics: Sequence[str] = ()
    """The topics with publications not rolled back, as `namespace:topic`; a restarted server has
    forgotten them.
    """


def standing(info: TransactionInfo) -> str:
    """Return for people its client, its age, and when it times out."""
    who = f"transaction {info.transaction_id}"
    if info.client:
        who += f" of client {info.client}"
    if info.expires_ms is None:
        return f"{who}, {info.status.value}"
    description = f"{who}, {span(info.age_ms)} old"
    return (
        description
        if info.ends_in_ms is None
        else f"{description}, times out in {span(info.ends_in_ms)}"
    )


def check_owner(owner: str | None, sequence: int | None, origin: str | None = None) -> None:
    """Raise `InvalidRequest` (invalid_owner) unless these can identify a work."""
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
    """Starts and ends transactions. Each method may also raise `Unavailable` and `InternalError`.

    Changes are durable on return. Methods that take the id of a transaction raise
    `TransactionNotInProgress` if it has ended, with its `status` in the detail, and
    `TransactionUnknown` if it never existed or ended too long ago.

    A transaction belongs to the principal of the `caller` that started it. Methods that take the id
    of one raise `NotPermitted` (transaction_of_another) if the caller is another principal that may
    not end any transaction. A caller without a principal is not checked (`tms.core.values.caller`).
    """

    async def start(self, request: StartRequest, *, caller: Caller = ANYBODY) -> Transaction:
        """Start a transaction.

        Raises `TransactionDuplicate` if the sequence is already committed, `OwnerElsewhere` if
        another origin committed it, `OwnerBusy`, `InvalidRequest` (invalid_timeout, invalid_owner),
        `TooManyTransactions`, `NotPermitted` (transaction_of_another) if the owner is another
        principal's, `RateExceeded` (principal_rate_exceeded), `TooLarge` (too_many_owners).
        """
        ...

    async def transaction(self, transaction_id: int, *, caller: Caller = ANYBODY) -> Transaction:
        """Return the snapshot of a transaction in progress, as from `start` or `checkpoint`."""
        ...

    async def info(self, transaction_id: int, *, caller: Caller = ANYBODY) -> TransactionInfo:
        """Return the state of a transaction, even of one that ended recently.

        A client that lost the answer to a commit uses it. Everybody may see how a transaction
        committed or aborted. Raises `TransactionUnknown`, `NotPermitted` only.
        """
        ...

    async def can_commit(
        self, transaction_id: int, changes: Collection[bytes], *, caller: Caller = ANYBODY
    ) -> None:
        """Announce the changes of a transaction before they are persisted.

        Raises `TransactionConflict` if another that committed in the meantime changed one of the
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
        """Make all its writes visible at once, and do the rest of the request.

        Stored messages that the request does not name stay unreachable. Raises
        `TransactionConflict`, `TransactionDuplicate`, `OwnerElsewhere`, `SubscriptionMoved`,
        `SubscriptionNotFound`, `TopicNotFound`, `PublicationRefused`, `TooLarge`
        (too_many_topics_at_once); then it is still in progress, and should be aborted.
        """
        ...

    async def abort(self, transaction_id: int, *, caller: Caller = ANYBODY) -> TransactionStatus:
        """End it after all its writes were undone, and return its status.

        The status is ABORTED, or INVALID if not all it published was rolled back or if it is long;
        readers skip what remains.
        """
        ...

    async def invalidate(self, transaction_id: int, *, caller: Caller = ANYBODY) -> None:
        """End it although its writes could not be undone, or nobody can undo them."""
        ...

    async def checkpoint(self, transaction_id: int, *, caller: Caller = ANYBODY) -> Transaction:
        """Return it with a new write pointer, which separates later writes from earlier ones.

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
        """Remove write pointers from the invalid list; return how many were on it.

        Only after everything written under them is gone, because it would become visible.
        """
        ...

    async def truncate_invalid_before(self, time_ms: int) -> int:
        """Remove those that started before a time from the invalid list; return how many.

        Raises `InvalidTruncateTime` if one that started earlier is in progress.
        """
        ...

    async def owners(
        self, limit: int = OWNERS_LISTED, *, principal: str | None = None
    ) -> list[OwnerInfo]:
        """Return at most `limit` remembered owners, the oldest commit first.

        At most `OWNERS_LISTED_MAX` are listed. With a `principal`, only its own.
        """
        ...

    async def forget_owner(self, owner: str, *, caller: Caller = ANYBODY) -> None:
        """Forget an owner: its sequences may be committed again, and anybody may use it.

        Raises `OwnerNotFound`, `OwnerBusy` if a transaction of it is open, `NotPermitted`
        (transaction_of_another).
        """
        ...

    async def snapshot(self) -> bytes:
        """Return the whole state, as `docs/formats.md` describes it; Tephra can read it."""
        ...


class Publications(Protocol):
    """Calls of the manager to messaging in the same process, from the event loop's thread."""

    def are_left(self, write_pointers: Iterable[int]) -> bool:
        """Whether anything under the pointers was not rolled back."""
        ...

    def are_half_rolled_back(self, write_pointers: Iterable[int]) -> bool:
        """Whether a rollback under one of the pointers has started but not finished."""
        ...

    def topics(self, write_pointers: Iterable[int]) -> Sequence[str]:
        """Return the topics with entries under the pointers, as `namespace:topic`."""
        ...

    def wake(self, write_pointers: Iterable[int]) -> None:
        """Wake the readers of these topics: the transaction has ended."""
        ...

    def wake_all(self) -> None:
        """Wake all readers: a transaction ended, and its topics are unknown."""
        ...

    def forget(self, write_pointers: Iterable[int]) -> None:
        """Forget the publications under the pointers."""
        ...

    def forget_all_but(self, is_kept: Callable[[int], bool]) -> None:
        """Forget the publications under all pointers for which `is_kept` is false."""
        ...
