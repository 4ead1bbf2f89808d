"""The world of the model of isolation: its recorded history, and its invariants."""

from hypothesis.stateful import RuleBasedStateMachine, invariant

from tables.memory import MemoryStore
from tables.store import Store
from tables.transaction_table import StoreTransactionTable
from tests.transactions.known import (
    ABORTED,
    COMMITTED,
    GONE,
    INVALID,
    LIMITS,
    OPEN,
    PRINCIPALS,
    Known,
    check_owners,
)
from tests.transactions.living import NOW_MS, Living
from tms.core.services.transactions import TransactionStatus
from tms.transactions.edits import encode_row
from tms.transactions.pruning import invalid_list
from tms.transactions.recovery import recover


class IsolationWorld(RuleBasedStateMachine):
    """The recorded history, and the rules that hold after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.store = self.open_store()
        self.table = StoreTransactionTable(self.store)
        self.living = Living(state=recover(self.table, LIMITS, NOW_MS).state)
        self.known: list[Known] = []
        self.step = self.row = 0
        self.latest_ms = self.keys_ms = NOW_MS
        self.last_sequences: dict[str, int] = {}
        self.whose: dict[str, str | None] = {}
        """For each owner that has committed a sequence, the principal that did so first."""

    def open_store(self) -> Store:
        return MemoryStore()

    def having(self, *statuses: str) -> list[Known]:
        return [known for known in self.known if known.status in statuses]

    def pick(self, pick: int, *statuses: str) -> Known:
        found = self.having(*statuses)
        return found[pick % len(found)]

    def done(self) -> None:
        """Write the step's edits as a row."""
        self.step += 1
        if self.living.edits:
            batch = self.store.batch()
            self.table.append(batch, self.row, encode_row(self.living.edits))
            self.store.write(batch)
            self.living.edits = []
            self.row += 1

    def _holders(self) -> dict[str, str | None]:
        """Return the owners that occupy a place, with their principals."""
        numbered = [known for known in self.having(OPEN) if known.sequence is not None]
        opened = {known.owner or "": known.principal for known in numbered}
        return {**opened, **self.whose}

    @invariant()
    def lists_are_sorted_and_right(self) -> None:
        latest = self.living.state.latest_snapshot()
        in_progress = [p for known in self.having(OPEN) for p in known.pointers]
        invalid = {
            pointer
            for known in self.having(INVALID)
            for pointer in known.pointers
            if pointer not in known.truncated
        }
        assert list(latest.in_progress) == sorted(in_progress)
        assert list(latest.invalids) == sorted(invalid)
        assert all(map(self.living.state.is_in_progress, in_progress))
        assert not any(map(self.living.state.is_in_progress, invalid))

    @invariant()
    def each_sees_what_had_committed_when_it_started(self) -> None:
        for reader in self.having(OPEN):
            transaction = self.living.state.transaction(reader.pointers[0])
            assert transaction == reader.transaction
            for writer in self.known:
                if writer.status in (ABORTED, GONE):
                    continue  # nothing that it wrote remains
                was_committed = writer.status == COMMITTED and writer.committed < reader.started
                # Nothing remains of a truncated pointer either.
                for pointer in set(writer.pointers) - writer.truncated:
                    sees = transaction.is_visible(pointer)
                    assert sees == (writer is reader or was_committed)

    @invariant()
    def it_is_known_from_when_on_each_may_have_written(self) -> None:
        """Recorded for each pointer, until the transaction has ended without a trace."""
        state = self.living.state
        listed = invalid_list(state, 0)
        for known in self.having(OPEN):
            for pointer in known.pointers:
                assert state.opened.by_pointer[pointer].keys_from_ms == known.keys_from_ms
        for known in self.having(INVALID):
            for pointer in set(known.pointers) - known.truncated:
                assert listed.searched_from_ms([pointer]) == known.keys_from_ms

    @invariant()
    def it_is_known_whose_each_is(self) -> None:
        state = self.living.state
        for known in self.having(OPEN, INVALID):
            if not known.truncated:
                assert state.info(known.pointers[0]).principal == known.principal
        for principal in PRINCIPALS:
            of_it = [known for known in self.having(OPEN) if known.principal == principal]
            assert state.opened.count_of(principal) == len(of_it)
        check_owners(state.owners, self._holders(), self.whose, self.last_sequences)

    @invariant()
    def statuses_are_known(self) -> None:
        of: dict[str, set[TransactionStatus | None]] = {
            OPEN: {TransactionStatus.IN_PROGRESS, TransactionStatus.COMMITTING},
            COMMITTED: {TransactionStatus.COMMITTED, None},
            ABORTED: {TransactionStatus.ABORTED},
            INVALID: {TransactionStatus.INVALID},
            GONE: {None},
        }
        for known in self.known:
            assert self.living.state.status(known.pointers[0]) in of[known.status]
