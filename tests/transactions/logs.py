"""The log of transactions, for tests of its recovery."""

from tables.memory import MemoryStore
from tables.transaction_table import StoreTransactionTable
from tests.transactions.living import NOW_MS, Living
from tms.core.limits import Limits
from tms.transactions.edits import encode_row
from tms.transactions.recovery import RecoveredState, recover

LIMITS = Limits()


class Log:
    """A table of edits, one row for each step, and the living state that made them."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.table = StoreTransactionTable(self.store)
        self.living = Living(state=self.recovered(NOW_MS).state)
        self.rows = 0

    def put(self, sequence: int, row: bytes) -> None:
        batch = self.store.batch()
        self.table.append(batch, sequence, row)
        self.store.write(batch)

    def write(self) -> None:
        """Put the edits made since the last call as a row."""
        self.put(self.rows, encode_row(self.living.edits))
        self.living.edits = []
        self.rows += 1

    def recovered(self, now_ms: int | None = None) -> RecoveredState:
        return recover(self.table, LIMITS, now_ms or self.living.now_ms)
