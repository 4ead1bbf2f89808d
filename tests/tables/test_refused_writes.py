"""A write is given up from the first step on that HBase refuses for good, on a simulated HBase."""

from typing import Any

import happybase  # noqa: F401  what follows needs it imported first
import pytest
from Hbase_thrift import IOError as HBaseError

from tables.hbase import intents
from tables.hbase.store import HBaseStore
from tables.store import MESSAGE, TRANSACTION
from tests.contracts.store_contract import put, rows_of
from tests.simulation.gateway import PLACE, Call, Mode, Rows, SimulatedGateway
from tests.waiting import wait_until
from tms.core.errors import OutcomeUnknown, StoreUnavailable

LIMIT = 1000
TOO_LARGE = (
    b"org.apache.hadoop.hbase.client.RetriesExhaustedWithDetailsException: Failed 1 action: "
    b"org.apache.hadoop.hbase.DoNotRetryIOException: Cell[k/d:v/LATEST_TIMESTAMP/Put/vlen=1001]"
    b" with size 1021 exceeds limit of 1000 bytes\n\tat org.apache.hadoop.hbase.regionserver"
)
SMALL, LARGE = (b"ns:a:1", b"small"), (b"ns:b:1", bytes(LIMIT))


class Strict(SimulatedGateway):
    """Refuses large cells, as if each row were in a region of its own, and may not answer."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows, lambda: None)
        self.limits = dict.fromkeys(rows.tables, LIMIT)
        self.is_deaf = False

    def change(self, call: Call) -> Any:
        if self.is_deaf:
            raise TimeoutError("no answer")
        if call.name != "mutateRows":
            return super().change(call)
        table, batches, more = call.arguments
        limit = self.limits[table]
        fitting = [
            each for each in batches if len(each.row) + len(each.mutations[0].value or b"") <= limit
        ]
        super().change(Call("mutateRows", (table, fitting, more)))
        if fitting != batches:
            raise HBaseError(message=TOO_LARGE)
        return None


def opened(rows: Rows, intent_limit: int = LIMIT) -> tuple[HBaseStore, Strict]:
    gateway = Strict(rows)
    gateway.limits[PLACE.name_of(TRANSACTION)] = intent_limit
    store = HBaseStore(PLACE, gateway)
    store.take_over(lambda _: None)
    return store, gateway


def write(store: HBaseStore, *, is_whole: bool) -> None:
    """Write messages, one of them too large, and the commit that publishes them."""
    batch = store.batch()
    batch.put_rows(MESSAGE, [SMALL, LARGE])
    batch.put(TRANSACTION, b"commit", b"edits")
    if is_whole:
        batch.require_atomic()
    store.write(batch)


def test_of_a_whole_write_nothing_exists_if_a_row_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intents, "_PART_BYTES", 100)
    rows = Rows()
    store, _ = opened(rows)
    with pytest.raises(StoreUnavailable, match="exceeds limit of 1000 bytes"):
        write(store, is_whole=True)
    assert rows_of(store, MESSAGE) == []
    put(store, MESSAGE, SMALL)
    store.close()
    other, _ = opened(rows)

    assert rows_of(other, MESSAGE) == [SMALL]
    other.close()


@pytest.mark.parametrize("is_whole", [False, True])
def test_after_an_outage_nothing_follows_what_is_refused(*, is_whole: bool) -> None:
    store, gateway = opened(Rows())
    gateway.is_deaf = True
    with pytest.raises(OutcomeUnknown):
        write(store, is_whole=is_whole)
    gateway.is_deaf = False
    wait_until(lambda: store._failed_writes.is_finished)

    assert rows_of(store, TRANSACTION, b"commit") == []
    store.close()


def test_a_half_refused_write_is_of_unknown_outcome_even_if_its_intent_cannot_be_retired() -> None:
    store, gateway = opened(Rows(), 2 * LIMIT)
    gateway.mode = Mode.REPEATED  # the first put of the intent may arrive late
    with pytest.raises(OutcomeUnknown, match="exceeds limit"):
        write(store, is_whole=True)
    assert rows_of(store, MESSAGE) == [SMALL]
    store.close()


def test_a_server_that_takes_over_writes_nothing_after_what_is_refused() -> None:
    """HBase accepted the intent, because its table has another limit."""
    rows = Rows()
    store, gateway = opened(rows, 2 * LIMIT)
    gateway.mode, gateway.skip = Mode.HELD, 1
    with pytest.raises(OutcomeUnknown):
        write(store, is_whole=True)
    gateway.is_deaf = True
    store.close()
    other, _ = opened(rows)

    assert rows_of(other, TRANSACTION, b"commit") == []
    other.close()
