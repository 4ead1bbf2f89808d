"""A stateful model of isolation: the steps that may happen, and their required results."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.transactions.isolation_world import IsolationWorld
from tests.transactions.known import (
    ABORTED,
    CALLERS,
    COMMITTED,
    GONE,
    INVALID,
    KEYS,
    LIMITS,
    OPEN,
    OWNERS,
    PICK,
    Known,
    has_place,
    may_not,
)
from tests.transactions.living import Living
from tms.core.errors import (
    NotPermitted,
    OwnerBusy,
    OwnerNotFound,
    TooLarge,
    TransactionConflict,
    TransactionDuplicate,
    TransactionNotInProgress,
)
from tms.core.services.transactions import IfOpen
from tms.core.values.caller import Caller
from tms.core.values.transaction import Transaction, TransactionType
from tms.transactions.recovery import recover

_DAY_MS = 86_400_000
STEPS_MS = [sign * ms for sign in (1, -1) for ms in (1_000, 61_000, 8 * _DAY_MS, 400 * _DAY_MS)]


class Isolation(IsolationWorld):
    """Random histories."""

    @rule(type_=st.sampled_from(TransactionType), timeout_s=st.integers(1, 20), caller=CALLERS)
    def start(self, type_: TransactionType, timeout_s: int, caller: Caller) -> None:
        transaction = self.living.start(
            type_, timeout_s=timeout_s, caller=caller, keys_from_ms=self.keys_ms
        )
        self._started(transaction, caller)

    def _started(
        self,
        transaction: Transaction,
        caller: Caller,
        owner: str | None = None,
        sequence: int | None = None,
    ) -> None:
        expires_ms = self.living.state.info(transaction.transaction_id).expires_ms
        assert expires_ms is not None
        known = Known(transaction, self.step, expires_ms, self.keys_ms, owner, sequence)
        known.principal = caller.principal
        known.pointers = [transaction.transaction_id]
        self.known.append(known)
        self.done()

    def _is_of_another(self, caller: Caller, owner: str) -> bool:
        """Whether an owner belongs to another principal."""
        holders = [known.principal for known in self.having(OPEN) if known.owner == owner]
        if self.whose.get(owner) is not None:
            holders.append(self.whose[owner])
        return any(may_not(caller, holder) for holder in holders)

    @rule(owner=OWNERS, caller=CALLERS)
    def forget_owner(self, owner: str, caller: Caller) -> None:
        is_of_another = self._is_of_another(caller, owner)
        try:
            self.living.do(self.living.state.forget_owner(owner, self.living.now_ms, caller))
        except NotPermitted:
            assert is_of_another
            return
        except OwnerBusy:
            assert any(known.owner == owner for known in self.having(OPEN))
            return
        except OwnerNotFound:
            assert owner not in self.whose
            return
        assert not is_of_another
        del self.whose[owner], self.last_sequences[owner]
        self.done()

    @rule(owner=OWNERS, sequence=st.integers(0, 3), if_open=st.sampled_from(IfOpen), caller=CALLERS)
    def start_owned(self, owner: str, sequence: int, if_open: IfOpen, caller: Caller) -> None:
        busy = next((k for k in self.having(OPEN) if k.owner == owner), None)
        is_of_another = self._is_of_another(caller, owner)
        is_room = has_place(self._holders(), caller, owner)
        try:
            transaction = self.living.start(
                owner=owner,
                sequence=sequence,
                if_open=if_open,
                caller=caller,
                keys_from_ms=self.keys_ms,
            )
        except NotPermitted:
            assert is_of_another
            return
        except TransactionDuplicate:
            assert sequence <= self.last_sequences[owner]
            return
        except TooLarge:
            assert not is_room
            return
        except OwnerBusy:
            assert busy is not None
            assert if_open is not IfOpen.FENCE
            return
        assert is_room
        assert not is_of_another
        if busy is not None and if_open is IfOpen.JOIN:
            assert transaction == busy.transaction
            assert busy.sequence == sequence
            return
        if busy is not None:
            busy.status = INVALID
        self._started(transaction, caller, owner, sequence)

    @rule(changes=KEYS, owner=st.none() | OWNERS, sequence=st.integers(0, 3), caller=CALLERS)
    def commit_at_once(
        self, changes: frozenset[bytes], owner: str | None, sequence: int, caller: Caller
    ) -> None:
        number = None if owner is None else sequence
        is_of_another = owner is not None and self._is_of_another(caller, owner)
        is_room = has_place(self._holders(), caller, owner)
        try:
            pointer = self.living.at_once(owner, number, changes, caller=caller)
        except NotPermitted:
            assert is_of_another
            return
        except TransactionDuplicate:
            assert owner is not None
            assert sequence <= self.last_sequences[owner]
            return
        except TooLarge:
            assert not is_room
            return
        except OwnerBusy:
            assert any(known.owner == owner for known in self.having(OPEN))
            return
        assert is_room
        assert not is_of_another
        transaction = Transaction(read_pointer=0, transaction_id=pointer, write_pointer=pointer)
        known = Known(transaction, self.step, 0, 0, owner, number, caller.principal, COMMITTED)
        known.committed, known.changes, known.pointers = self.step, changes, [pointer]
        self.known.append(known)
        self._remember(known)
        self.done()

    def _remember(self, known: Known) -> None:
        if known.owner is not None and known.sequence is not None:
            self.last_sequences[known.owner] = known.sequence
            if self.whose.get(known.owner) is None:
                self.whose[known.owner] = known.principal

    @precondition(lambda self: self.having(OPEN))
    @rule(pick=PICK, changes=KEYS, caller=CALLERS)
    def can_commit(self, pick: int, changes: frozenset[bytes], caller: Caller) -> None:
        known = self.pick(pick, OPEN)
        try:
            self.living.can_commit(known.transaction, *changes, caller=caller)
        except NotPermitted:
            assert may_not(caller, known.principal)
            return
        except TransactionConflict:
            assert self._loses(known, changes)
            return
        assert not self._must_lose(known, changes)
        assert not may_not(caller, known.principal)
        known.changes = changes
        self.done()

    @precondition(lambda self: self.having(OPEN))
    @rule(pick=PICK, caller=CALLERS)
    def commit(self, pick: int, caller: Caller) -> None:
        known = self.pick(pick, OPEN)
        try:
            self.living.commit(known.transaction, caller)
        except NotPermitted:
            assert may_not(caller, known.principal)
            return
        except TransactionConflict:
            assert self._loses(known, known.changes)
            return
        except TransactionDuplicate:
            raise AssertionError("an owner has one open at a time") from None
        assert not self._must_lose(known, known.changes)
        assert not may_not(caller, known.principal)
        known.status, known.committed = COMMITTED, self.step
        self._remember(known)
        self.done()

    def _loses(self, known: Known, changes: frozenset[bytes]) -> bool:
        """Whether a transaction that committed since its start made one of its changes."""
        return any(
            other.committed > known.started and other.changes & changes
            for other in self.having(COMMITTED)
        )

    def _must_lose(self, known: Known, changes: frozenset[bytes]) -> bool:
        # The changes that a long transaction conflicts with are forgotten once no short one needs
        # them.
        is_short = known.transaction.type is TransactionType.SHORT
        return is_short and self._loses(known, changes)

    @precondition(lambda self: self.having(OPEN, INVALID))
    @rule(pick=PICK, caller=CALLERS)
    def abort(self, pick: int, caller: Caller) -> None:
        known = self.pick(pick, OPEN, INVALID)
        try:
            self.living.abort(known.transaction, caller)
        except NotPermitted:
            assert may_not(caller, known.principal)
            return
        assert not may_not(caller, known.principal)
        is_long = known.transaction.type is TransactionType.LONG
        known.status = INVALID if is_long else ABORTED
        self.done()

    @precondition(lambda self: self.having(OPEN))
    @rule(pick=PICK, caller=CALLERS)
    def invalidate(self, pick: int, caller: Caller) -> None:
        known = self.pick(pick, OPEN)
        pointer = known.pointers[pick % len(known.pointers)]
        try:
            self.living.state.check_own(pointer, caller)
        except NotPermitted:
            assert may_not(caller, known.principal)
            return
        assert not may_not(caller, known.principal)
        self.living.do(self.living.state.invalidate(pointer))
        known.status = INVALID
        self.done()

    @precondition(lambda self: self.having(COMMITTED))
    @rule(pick=PICK)
    def a_committed_one_stays(self, pick: int) -> None:
        known = self.pick(pick, COMMITTED)
        if self.living.state.status(known.transaction.transaction_id) is None:
            return  # it was published and committed in one request
        for end in (self.living.abort, self.living.invalidate, self.living.commit):
            try:
                end(known.transaction)
            except TransactionNotInProgress:
                continue
            raise AssertionError

    @precondition(lambda self: self.having(OPEN))
    @rule(pick=PICK, caller=CALLERS)
    def checkpoint(self, pick: int, caller: Caller) -> None:
        known = self.pick(pick, OPEN)
        try:
            known.transaction = self.living.checkpoint(known.transaction, caller)
        except NotPermitted:
            assert may_not(caller, known.principal)
            return
        assert not may_not(caller, known.principal)
        known.pointers.append(known.transaction.write_pointer)
        self.done()

    @rule(by_ms=st.integers(-5_000, 10_000))
    def time_passes_or_is_set_back(self, by_ms: int) -> None:
        self.living.now_ms += by_ms
        self.latest_ms = max(self.latest_ms, self.living.now_ms)
        self.living.expire()
        for known in self.having(OPEN):
            if known.expires_ms < self.living.now_ms:
                known.status = INVALID
        self.done()

    @rule(by_ms=st.sampled_from(STEPS_MS))
    def the_wall_steps(self, by_ms: int) -> None:
        """Move keys ahead of pointers, or behind: neither may be derived from the other."""
        self.keys_ms += by_ms

    @precondition(lambda self: self.having(INVALID))
    @rule(pick=PICK, whole=st.booleans())
    def truncate(self, pick: int, *, whole: bool) -> None:
        known = self.pick(pick, INVALID)
        pointers = known.pointers if whole else known.pointers[-1:]
        assert self.living.truncate(*pointers) == len(set(pointers) - known.truncated)
        known.truncated |= set(pointers)
        if known.truncated == set(known.pointers):
            known.status = GONE
        elif known.transaction.transaction_id in known.truncated:
            known.status = GONE
            self.living.truncate(*known.pointers)
        self.done()

    @rule()
    def snapshot(self) -> None:
        self.table.put_snapshot(self.row, self.living.snapshot())

    @rule(goes_on=st.booleans(), forgets=st.booleans())
    def crash(self, *, goes_on: bool, forgets: bool) -> None:
        if forgets:
            self.table.drop_before(self.table.snapshots()[-1], 1_000)
        recovered = recover(self.table, LIMITS, self.latest_ms)
        copy = Living(state=recovered.state)
        assert recovered.next_sequence == self.row
        assert copy.snapshot() == self.living.snapshot()
        for known in self.having(OPEN):
            assert recovered.state.transaction(known.pointers[0]) == known.transaction
        if goes_on:
            copy.now_ms = self.living.now_ms
            self.living = copy

    @rule()
    def forget_lists(self) -> None:
        """Rebuild all lists."""
        self.living.state.excluded._kept.clear()
        self.living.state.excluded._kept_pointers = 0
