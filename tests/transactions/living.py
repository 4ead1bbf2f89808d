"""A state used as by the service: the edits that a command returns are applied and kept."""

from collections.abc import Collection

from tms.core.limits import WRITE_POINTERS_PER_MS, Limits
from tms.core.services.transactions import IfOpen, StartRequest
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.transaction import Transaction, TransactionType
from tms.transactions.commands import Edits, TransactionState
from tms.transactions.edits import Edit
from tms.transactions.snapshot_codec import encode_snapshot

NOW_MS = 1_800_000_000_000
FIRST = NOW_MS * WRITE_POINTERS_PER_MS
"""The pointer that a new state begins with."""
LONG = TransactionType.LONG


class Living:
    """A state, its time, and all edits that it has made."""

    def __init__(self, limits: Limits | None = None, state: TransactionState | None = None) -> None:
        self.now_ms = NOW_MS
        self.state = state or TransactionState(limits or Limits(), NOW_MS)
        self.edits: list[Edit] = []

    def do(self, edits: Edits) -> None:
        for edit in edits:
            self.state.apply(edit)
        self.edits += edits

    def start(
        self,
        type_: TransactionType = TransactionType.SHORT,
        *,
        timeout_s: int | None = None,
        owner: str | None = None,
        sequence: int | None = None,
        origin: str | None = None,
        if_open: IfOpen = IfOpen.REFUSE,
        client: str = "",
        caller: Caller = ANYBODY,
        keys_from_ms: int = 0,
    ) -> Transaction:
        request = StartRequest(
            type=type_,
            timeout_s=timeout_s,
            client=client,
            owner=owner,
            sequence=sequence,
            origin=origin,
            if_open=if_open,
        )
        started = self.state.start(request, self.now_ms, caller, keys_from_ms=keys_from_ms)
        self.do(started.edits)
        return self.state.transaction(started.transaction_id)

    def at_once(
        self,
        owner: str | None = None,
        sequence: int | None = None,
        changes: Collection[bytes] = (),
        client: str = "",
        caller: Caller = ANYBODY,
    ) -> int:
        started = self.state.start_and_commit(
            self.now_ms,
            self.now_ms,
            owner=owner,
            sequence=sequence,
            changes=changes,
            client=client,
            caller=caller,
        )
        self.do(started.edits)
        return started.transaction_id

    def can_commit(
        self, transaction: Transaction, *changes: bytes, caller: Caller = ANYBODY
    ) -> None:
        self.state.check_own(transaction.transaction_id, caller)
        self.do(self.state.can_commit(transaction.transaction_id, changes, caller))

    def commit(self, transaction: Transaction, caller: Caller = ANYBODY) -> None:
        self.state.check_own(transaction.transaction_id, caller)
        self.do(self.state.commit(transaction.transaction_id, self.now_ms))

    def abort(self, transaction: Transaction, caller: Caller = ANYBODY) -> None:
        self.state.check_own(transaction.transaction_id, caller)
        self.do(self.state.abort(transaction.transaction_id))

    def invalidate(self, transaction: Transaction, caller: Caller = ANYBODY) -> None:
        self.state.check_own(transaction.transaction_id, caller)
        self.do(self.state.invalidate(transaction.transaction_id))

    def checkpoint(self, transaction: Transaction, caller: Caller = ANYBODY) -> Transaction:
        self.state.check_own(transaction.transaction_id, caller)
        self.do(self.state.checkpoint(transaction.transaction_id, self.now_ms))
        return self.state.transaction(transaction.transaction_id)

    def expire(self) -> None:
        self.do(self.state.expire(self.now_ms))

    def truncate(self, *pointers: int) -> int:
        count, edits = self.state.truncate_invalid_ids(pointers)
        self.do(edits)
        return count

    def truncate_before(self, time_ms: int) -> int:
        count, edits = self.state.truncate_invalid_before(time_ms)
        self.do(edits)
        return count

    @property
    def invalid(self) -> list[int]:
        return list(self.state.invalids.ascending)

    def snapshot(self) -> bytes:
        return encode_snapshot(self.state, 0)
