"""Queries of the state of transactions, which change nothing."""

from dataclasses import replace
from itertools import islice

from tms.core.errors import TransactionUnknown
from tms.core.limits import WRITE_POINTERS_PER_MS
from tms.core.services.transactions import TransactionInfo, TransactionStatus
from tms.core.values.caller import Caller
from tms.core.values.owners import OWNERS_LISTED_MAX, OwnerInfo
from tms.core.values.transaction import Transaction
from tms.transactions.in_progress import Open
from tms.transactions.invalids import Invalid
from tms.transactions.owners import check_own
from tms.transactions.state import AppliedState

_NOBODY = 0
"""The id of a reader without a transaction: below all write pointers."""


class QueriedState(AppliedState):
    """The state with its queries. Used from one thread at a time."""

    def check_own(self, write_pointer: int, caller: Caller) -> None:
        """Raise `NotPermitted` (transaction_of_another) if the transaction is not the caller's.

        A committed or aborted transaction no longer has a principal.
        """
        opened = self.opened.by_pointer.get(write_pointer)
        check_own(caller, write_pointer, opened or self.invalids.get(write_pointer))

    def is_in_progress(self, write_pointer: int) -> bool:
        """Whether it is the id, or a checkpoint's pointer, of a transaction in progress."""
        return write_pointer in self.opened.by_pointer

    def id_of(self, write_pointer: int) -> int:
        """Return the id of the open transaction with a pointer; without one, the pointer."""
        opened = self.opened.by_pointer.get(write_pointer)
        return write_pointer if opened is None else opened.id

    def status(self, write_pointer: int) -> TransactionStatus | None:
        """Return the status of the transaction of a write pointer, None if unknown.

        A committed or aborted transaction is known only by its id.
        """
        opened = self.opened.by_pointer.get(write_pointer)
        if opened is not None:
            return opened.status
        if write_pointer in self.invalids:
            return TransactionStatus.INVALID
        outcome = self.outcomes.get(write_pointer)
        return None if outcome is None else outcome.status

    def latest_snapshot(self) -> Transaction:
        """Return the snapshot that a new transaction would have, for a reader without one."""
        return Transaction(
            read_pointer=self.read_pointer,
            transaction_id=_NOBODY,
            write_pointer=_NOBODY,
            invalids=self.invalids.ascending,
            in_progress=tuple(self.opened.by_pointer),
            first_short_in_progress=self.opened.first_short,
        )

    @property
    def in_progress_count(self) -> int:
        """The number of transactions in progress, without checkpoints."""
        return self.opened.count

    @property
    def invalid_count(self) -> int:
        """The number of write pointers on the invalid list."""
        return len(self.invalids)

    def info(self, transaction_id: int) -> TransactionInfo:
        """Return the status and details of a transaction. Raises `TransactionUnknown`."""
        opened = self.opened.by_pointer.get(transaction_id)
        invalid = self.invalids.get(transaction_id)
        outcome = self.outcomes.get(transaction_id)
        if opened is not None and opened.id == transaction_id:
            return _info(opened, opened.status, opened.expires_ms)
        if invalid is not None:
            return _info(invalid, TransactionStatus.INVALID, None)
        if outcome is None:
            raise TransactionUnknown(transaction_id=transaction_id)
        return TransactionInfo(
            transaction_id=transaction_id,
            status=outcome.status,
            type=outcome.type,
            write_pointers=(transaction_id,),
            started_ms=transaction_id // WRITE_POINTERS_PER_MS,
            expires_ms=None,
        )

    def aged(self, info: TransactionInfo, now_ms: int) -> TransactionInfo:
        """Return the details of a transaction with its age at `now_ms`."""
        opened = self.opened.by_pointer.get(info.transaction_id)
        if opened is None:
            return replace(info, age_ms=max(0, now_ms - info.started_ms))
        ends_in_ms = max(0, opened.expires_ms - now_ms)
        return replace(info, age_ms=opened.age_ms(now_ms), ends_in_ms=ends_in_ms)

    def infos_in_progress(self) -> list[TransactionInfo]:
        """Return the transactions in progress, oldest first."""
        return [_info(opened, opened.status, opened.expires_ms) for opened in self.opened]

    def infos_invalid(self, limit: int | None = None) -> list[TransactionInfo]:
        """Return the invalid transactions, at most `limit`, oldest first."""
        transactions = islice(self.invalids.transactions(), limit)
        return [_info(invalid, TransactionStatus.INVALID, None) for invalid in transactions]

    def infos_of_owners(
        self, now_ms: int, limit: int, principal: str | None = None
    ) -> list[OwnerInfo]:
        """Return at most `limit` owners, of all or of one `principal`, oldest commit first."""
        limit = min(limit, OWNERS_LISTED_MAX)
        commits = (
            OwnerInfo(
                owner,
                last.sequence,
                last.transaction_id,
                last.time_ms,
                max(0, now_ms - last.time_ms),
                last.origin,
                last.principal,
            )
            for owner, last in self.owners.last_commits.items()
            if principal is None or last.principal == principal
        )
        return [*islice(commits, limit)]


def _info(
    transaction: Open | Invalid, status: TransactionStatus, expires_ms: int | None
) -> TransactionInfo:
    return TransactionInfo(
        transaction_id=transaction.id,
        status=status,
        type=transaction.type,
        write_pointers=transaction.pointers,
        started_ms=transaction.keys_from_ms or transaction.id // WRITE_POINTERS_PER_MS,
        expires_ms=expires_ms,
        client=transaction.client,
        owner=transaction.owner,
        sequence=transaction.sequence,
        principal=transaction.principal,
    )
