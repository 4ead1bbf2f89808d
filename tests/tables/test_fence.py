"""The fence of a shard on a simulated HBase: raised first, read after each batch, never lowered."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tables.hbase.fence import FENCE_KEY
from tables.hbase.store import HBaseStore
from tables.hbase.taking_over import TakenOver
from tables.store import BOUND, METADATA, SUBSCRIPTION, TRANSACTION
from tests.contracts.store_contract import put, rows_of
from tests.simulation.gateway import PLACE, Mode, Rows, SimulatedGateway
from tests.waiting import wait_until
from tms.cluster.lease import Lease, SteadySeconds
from tms.core.errors import OutcomeUnknown, StoreCorrupt, StoreUnavailable
from tms.core.runtime.clock import SystemClock
from tms.server.serving.parts import fenced_writes

NAME = PLACE.name_of(TRANSACTION)


class Watched(SimulatedGateway):
    """Records the rows that are read, and may not answer for the fence."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows, lambda: None)
        self.gets: list[bytes] = []
        self.is_deaf = False
        client: Any = self._client
        get = client.get

        def noted(table: bytes, row: bytes, column: bytes, more: Any) -> Any:
            self.gets.append(row)
            if self.is_deaf and row == FENCE_KEY:
                raise TimeoutError("no answer")
            return get(table, row, column, more)

        client.get = noted


def opened(
    rows: Rows, token: int, on_fenced: Callable[[], object] = lambda: None
) -> tuple[HBaseStore, Watched]:
    gateway = Watched(rows)
    store = HBaseStore(PLACE, gateway)
    gateway.gets.clear()
    store.take_over(lambda _: None, token=token, on_fenced=on_fenced)
    return store, gateway


def fence_of(rows: Rows) -> bytes | None:
    cell = rows.tables[NAME].get(FENCE_KEY)
    return None if cell is None else cell.value


def test_a_leader_raises_it_before_it_reads_anything_and_never_lowers_it() -> None:
    rows = Rows()
    _, gateway = opened(rows, 5)
    assert gateway.gets[0] == FENCE_KEY
    assert fence_of(rows) == bytes(7) + b"\x05"
    for token in (1, 5):
        with pytest.raises(StoreUnavailable) as refused:
            opened(rows, token)
        assert refused.value.detail["later_token"] == 5
    opened(rows, 6)

    assert fence_of(rows) == bytes(7) + b"\x06"


def test_nothing_is_read_behind_a_fence_that_could_not_be_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = Rows()
    gateway = Watched(rows)
    store = HBaseStore(PLACE, gateway)
    gateway.mode = Mode.HELD
    taken: list[TakenOver] = []
    monkeypatch.setattr(store, "special_rows", taken.append)
    with pytest.raises(StoreUnavailable):
        store.take_over(lambda _: None, token=1)

    assert taken == []
    store.close()


def test_a_server_that_is_alone_has_no_fence() -> None:
    rows = Rows()
    store, gateway = opened(rows, 0)
    gateway.gets.clear()
    put(store, BOUND, (b"k", b"v"))

    assert gateway.gets == []
    assert fence_of(rows) is None


def test_a_damaged_one_is_reported() -> None:
    rows = Rows()
    rows._put(NAME, FENCE_KEY, b"short")
    with pytest.raises(StoreCorrupt):
        opened(rows, 1)


def test_a_write_is_of_unknown_outcome_once_another_has_raised_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows, metrics, lease = (
        Rows(),
        CollectorRegistry(),
        Lease(1, 5.0, SteadySeconds(SystemClock()), 0.0),
    )
    lease.on_lost.append(fenced_writes(metrics).inc)
    store, gateway = opened(rows, 1, lease.lose)
    put(store, BOUND, (b"k", b"1"))
    assert gateway.gets[-1] == FENCE_KEY
    assert metrics.get_sample_value("tms_cluster_fenced_writes_total") == 0
    opened(rows, 2)

    with pytest.raises(OutcomeUnknown):
        put(store, BOUND, (b"k", b"2"))
    asked = len(gateway.gets)
    wait_until(lambda: len(gateway.gets) > asked, "the store asks for the fence again")
    assert metrics.get_sample_value("tms_cluster_fenced_writes_total") == 1
    assert caplog.text.count("is not acknowledged") == 1
    with pytest.raises(StoreUnavailable):
        store.check_writable()
    store.close()


def test_nothing_follows_an_intent_that_the_next_leader_may_not_find() -> None:
    rows = Rows()
    store, _ = opened(rows, 1)
    other, _ = opened(rows, 2)
    batch = store.batch()
    batch.put(SUBSCRIPTION, b"k", b"v")
    batch.put(METADATA, b"k", b"v")
    batch.require_atomic()
    with pytest.raises(OutcomeUnknown):
        store.write(batch)

    assert rows_of(other, SUBSCRIPTION) == []
    store.close()


def test_while_it_cannot_be_read_nothing_is_written_and_then_all_continues() -> None:
    rows, fenced = Rows(), threading.Event()
    store, gateway = opened(rows, 1, fenced.set)
    gateway.is_deaf = True
    with pytest.raises(OutcomeUnknown):
        put(store, BOUND, (b"k", b"1"))
    with pytest.raises(StoreUnavailable):
        put(store, BOUND, (b"k", b"2"))
    assert store.get(BOUND, b"k") == b"1"
    gateway.is_deaf = False
    wait_until(lambda: store._failed_writes.is_finished)
    put(store, BOUND, (b"k", b"3"))

    assert not fenced.is_set()
    assert store.get(BOUND, b"k") == b"3"
    store.close()
