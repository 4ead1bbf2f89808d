"""A group under successive leaders, whose last write may arrive at any later moment.

Writes that were acknowledged to a leader stay done, in their order. Other writes are complete or
missing when the next leader reads, and never appear later.
"""

from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tables.group_table import StoredGroup, StoreGroupLog
from tables.keys import prefix
from tables.memory import MemoryStore
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tests.scale import scaled
from tests.tables.sealing.reign import Reign
from tests.tables.stored_groups import CREATED, ORDERS, create_group, create_topic
from tms.core.errors import OutcomeUnknown, StoreUnavailable
from tms.core.values.batch import Batch

START = prefix(ORDERS, 1)
END = b";"


class LateStore(MemoryStore):
    """Holds a write back on request; it can be carried out later."""

    def __init__(self) -> None:
        super().__init__()
        self.writes_until_held: int | None = None
        self.late: list[Batch] = []

    def write(self, batch: Batch) -> None:
        if self.writes_until_held == 0:
            self.writes_until_held = None
            self.late.append(batch)
            raise OutcomeUnknown(reason="no answer")
        if self.writes_until_held is not None:
            self.writes_until_held -= 1
        super().write(batch)


class Leaders(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = LateStore()
        self.token = 0
        self.rows = 0
        self.done: list[bytes] = []
        """The rows that count."""
        self.doubtful: list[bytes] = []
        """The entries of a write that got no answer."""
        self.log: StoreGroupLog | None = None
        """None if the leader has died."""

    @initialize()
    def begin(self) -> None:
        self.tables = self.leader()
        create_topic(self.tables)
        self.log = create_group(self.tables, "g")
        self.done = [b"begun"]

    def leader(self) -> SealedTables:
        self.token += 1
        reign = Reign(self.token, 100 * self.token, 100 * self.token + 100)
        return SealedTables(SealedStore(self.store, reign))

    def read(self, tables: SealedTables) -> tuple[StoredGroup, list[bytes]]:
        tables.subscriptions.read(ORDERS, START)
        found = tables.groups.read(START, "g", CREATED)
        return found, [*found.snapshot.split(END), *found.rows]

    @precondition(lambda self: self.log is not None)
    @rule(is_held=st.booleans(), count=st.integers(1, 3))
    def append(self, count: int, *, is_held: bool) -> None:
        assert self.log is not None
        batch, rows = self.tables.batch(), []
        for _ in range(count):
            self.rows += 1
            rows.append(b"row %d" % self.rows)
            self.log.append(batch, rows[-1])
        self.store.writes_until_held = 0 if is_held else None
        try:
            self.tables.write(batch)
            self.done += rows
        except OutcomeUnknown:
            self.doubtful, self.log = rows, None

    @precondition(lambda self: self.log is not None)
    @rule(held=st.none() | st.integers(0, 1))
    def put_snapshot(self, held: int | None) -> None:
        assert self.log is not None
        self.store.writes_until_held = held
        try:
            self.log.put_snapshot(self.log.next_number, END.join(self.done))
        except OutcomeUnknown:
            self.log = None
        self.store.writes_until_held = None

    @precondition(lambda self: self.log is not None)
    @rule(is_held=st.booleans(), limit=st.integers(1, 9))
    def drop(self, limit: int, *, is_held: bool) -> None:
        assert self.log is not None
        self.store.writes_until_held = 0 if is_held else None
        try:
            self.log.drop(limit)
        except OutcomeUnknown:
            self.log = None
        self.store.writes_until_held = None

    @precondition(lambda self: self.store.late)
    @rule(data=st.data())
    def come_late(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.store.late))
        self.store.late.remove(batch)
        self.store.write(batch)

    @rule(held=st.none() | st.integers(0, 4))
    def another_leads(self, held: int | None) -> None:
        self.tables, self.log = self.leader(), None
        self.store.writes_until_held = held
        with suppress(OutcomeUnknown, StoreUnavailable):
            found, rows = self.read(self.tables)
            assert rows in (self.done, self.done + self.doubtful)
            found.log.put_snapshot(found.log.next_number, END.join(rows))
            self.log, self.done, self.doubtful = found.log, rows, []
        self.store.writes_until_held = None

    @invariant()
    def what_is_done_is_there(self) -> None:
        if self.log is not None:
            assert self.read(self.tables)[1] == self.done


TestLeaders = Leaders.TestCase
TestLeaders.settings = settings(max_examples=scaled(40), stateful_step_count=30)
