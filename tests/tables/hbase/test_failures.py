"""The outcome of calls when the gateway, an answer, a connection or a table is lost."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from Hbase_thrift import Mutation

from dev.hbase.servers import HBaseServers
from tables.hbase.connections import CallFailed, Gateway
from tables.hbase.creation import create
from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tables.store import MESSAGE, METADATA, PAYLOAD
from tests.contracts.store_contract import put, rows_of
from tests.tables.hbase.conftest import gateway_to
from tests.tables.hbase.waiting import settled
from tms.core.errors import OutcomeUnknown, StoreFormatUnknown, StoreUnavailable

pytestmark = pytest.mark.slow


class Losing:
    """A proxy of a gateway: loses calls of one name, or only their answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gateway: Gateway) -> None:
        self.name = ""
        self.calls_lost: Callable[[int], bool] = lambda _: False
        self.answers_lost: Callable[[int], bool] = lambda _: False
        self.number = 0
        whole = gateway.once

        def once(call: Callable[[Any], Any]) -> Any:
            return whole(lambda client: call(_Client(client, self)))

        monkeypatch.setattr(gateway, "once", once)

    def ask(self, call: Callable[..., Any], *given: Any) -> Any:
        self.number += 1
        if self.calls_lost(self.number):
            raise CallFailed("the call was lost")
        answer = call(*given)
        if self.answers_lost(self.number):
            raise CallFailed("the answer was lost")
        return answer


class _Client:
    def __init__(self, client: Any, losing: Losing) -> None:
        self._client, self._losing = client, losing

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if name != self._losing.name:
            return call
        return lambda *given: self._losing.ask(call, *given)


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch, gateway: Gateway, hbase_store: HBaseStore) -> Losing:
    return Losing(monkeypatch, gateway)


def test_a_gateway_that_was_restarted_is_connected_again(
    servers: HBaseServers, place: Place
) -> None:
    store = HBaseStore(place, gateway_to(place))
    rows = [(b"ns:long:%05d" % number, bytes(300)) for number in range(10_000)]
    put(store, MESSAGE, *rows)
    with store.scan(MESSAGE, b"ns:long:", b"ns:long;") as found:
        first = [next(found) for _ in range(5000)]
        servers.kill("gateway")
        servers.start("gateway")
        servers.wait_until_ready()
        rest = list(found)
    put(store, METADATA, (b"k", b"v"))

    assert [*first, *rest] == rows
    assert store.get(METADATA, b"k") == b"v"
    with store.scan(MESSAGE, b"ns:long:", b"ns:long;", reverse=True) as found:
        assert list(found) == rows[::-1]
    store.close()


def test_while_there_is_no_gateway_writes_are_refused_and_then_finished(
    servers: HBaseServers, hbase_store: HBaseStore
) -> None:
    store = hbase_store
    earlier = store.batch()
    earlier.put(METADATA, b"earlier", b"v")
    servers.kill("gateway")
    with pytest.raises(OutcomeUnknown):
        put(store, METADATA, (b"failed", b"v"))
    for call in (store.check_writable, store.batch, lambda: store.get(METADATA, b"k")):
        with pytest.raises(StoreUnavailable):
            call()
    servers.start("gateway")
    servers.wait_until_ready()
    settled(store)

    assert store.get(METADATA, b"failed") == b"v"
    with pytest.raises(StoreUnavailable, match="a write has failed since the batch was made"):
        store.write(earlier)
    put(store, METADATA, (b"later", b"v"))
    assert rows_of(store, METADATA) == [(b"failed", b"v"), (b"later", b"v")]


def test_of_a_batch_that_fails_half_way_there_is_the_beginning_until_it_is_finished(
    hbase_store: HBaseStore, losing: Losing
) -> None:
    store = hbase_store
    batch = store.batch()
    batch.put_rows(MESSAGE, [(b"ns:t:1", b"a"), (b"ns:t:2", b"b")])
    batch.put(METADATA, b"k", b"v")
    batch.delete_rows(MESSAGE, [b"ns:t:1"])
    healed = threading.Event()
    losing.name = "mutateRows"
    losing.calls_lost = lambda number: number > 1 and not healed.is_set()
    with pytest.raises(OutcomeUnknown, match="the call was lost"):
        store.write(batch)

    assert rows_of(store, MESSAGE) == [(b"ns:t:1", b"a"), (b"ns:t:2", b"b")]
    assert rows_of(store, METADATA) == []
    healed.set()
    settled(store)
    assert rows_of(store, MESSAGE) == [(b"ns:t:2", b"b")]
    assert store.get(METADATA, b"k") == b"v"


def test_a_put_whose_answer_is_lost_is_made_again(hbase_store: HBaseStore, losing: Losing) -> None:
    losing.name = "mutateRows"
    losing.answers_lost = lambda number: number < 3
    put(hbase_store, PAYLOAD, (b"k", b"v"))

    assert rows_of(hbase_store, PAYLOAD) == [(b"k", b"v")]
    assert losing.number == 3


@pytest.mark.parametrize("what", ["calls_lost", "answers_lost"])
def test_a_compare_and_put_finds_out_what_became_of_it(
    hbase_store: HBaseStore, losing: Losing, what: str
) -> None:
    losing.name = "checkAndPut"
    setattr(losing, what, lambda number: number % 2 == 1)

    assert hbase_store.compare_and_put(METADATA, b"k", None, b"1")
    assert hbase_store.get(METADATA, b"k") == b"1"
    losing.number = 0
    assert not hbase_store.compare_and_put(METADATA, b"k", b"0", b"2")
    losing.number = 0
    assert hbase_store.compare_and_put(METADATA, b"k", b"1", b"2")
    assert hbase_store.get(METADATA, b"k") == b"2"


def test_a_compare_and_put_that_fails_is_settled_before_others(
    hbase_store: HBaseStore, losing: Losing
) -> None:
    healed = threading.Event()
    losing.name = "checkAndPut"
    losing.calls_lost = lambda _: not healed.is_set()
    with pytest.raises(OutcomeUnknown):
        hbase_store.compare_and_put(METADATA, b"k", None, b"1")
    with pytest.raises(StoreUnavailable):
        put(hbase_store, METADATA, (b"k", b"2"))
    healed.set()
    settled(hbase_store)

    assert hbase_store.get(METADATA, b"k") == b"1"


def test_an_empty_value_is_not_taken_for_none(hbase_store: HBaseStore) -> None:
    put(hbase_store, METADATA, (b"k", b""))

    assert not hbase_store.compare_and_put(METADATA, b"k", None, b"1")
    assert not hbase_store.compare_and_put(METADATA, b"absent", b"", b"1")
    assert hbase_store.compare_and_put(METADATA, b"k", b"", b"1")


@pytest.mark.parametrize(("mebibytes", "reason"), [(13, "exceeds limit"), (17, "size too large")])
def test_a_row_that_is_too_large_is_refused_and_holds_nothing_up(
    hbase_store: HBaseStore, mebibytes: int, reason: str
) -> None:
    """A region server refuses the first one, and the gateway the other."""
    with pytest.raises(StoreUnavailable, match=reason):
        put(hbase_store, MESSAGE, (b"k", bytes(mebibytes * 1024 * 1024)))

    put(hbase_store, MESSAGE, (b"k", b"v"))
    assert rows_of(hbase_store, MESSAGE) == [(b"k", b"v")]


def test_a_value_of_ten_mebibytes_and_a_bit_fits(hbase_store: HBaseStore) -> None:
    value = bytes(10 * 1024 * 1024 + 9)
    put(hbase_store, MESSAGE, (b"k", value), (b"l", value))

    assert rows_of(hbase_store, MESSAGE) == [(b"k", value), (b"l", value)]


def test_if_no_connection_is_left_a_call_fails_in_time(place: Place) -> None:
    gateway = Gateway(place.host, place.port, size=1, timeout_s=0.5, retry_s=0.0)
    held, done = threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        held.set()
        done.wait()

    holder = threading.Thread(target=gateway.once, args=(hold,))
    holder.start()
    held.wait()
    with pytest.raises(StoreUnavailable, match="no connection became free"):
        gateway.read(lambda client: client.getTableNames())
    done.set()
    holder.join()
    assert gateway.read(lambda client: client.getTableNames())
    gateway.close()


def test_without_its_tables_a_store_cannot_be_opened(place: Place, gateway: Gateway) -> None:
    with pytest.raises(StoreFormatUnknown, match="tms init"):
        HBaseStore(Place(place.host, place.port, "nothing", None), gateway)


def test_with_another_number_of_buckets_it_cannot_be_opened_nor_created(
    place: Place, gateway: Gateway
) -> None:
    other = Place(place.host, place.port, place.prefix, 7)
    for call in (HBaseStore, create):
        with pytest.raises(StoreFormatUnknown, match="created with 3 buckets"):
            call(other, gateway)


def test_creating_twice_finds_all_there(place: Place, gateway: Gateway) -> None:
    again = create(Place(place.host, place.port, place.prefix, None), gateway)

    assert (again.buckets, again.tables, again.splits) == (3, [], {})


def test_each_bucket_has_a_region(place: Place, gateway: Gateway) -> None:
    regions = gateway.read(lambda client: client.getTableRegions(place.name_of(MESSAGE)))

    assert sorted(region.startKey for region in regions) == [b"", b"\x01", b"\x02"]


def test_a_table_that_is_gone_fails_at_once_and_works_when_it_is_back(
    place: Place, gateway: Gateway
) -> None:
    """Also after a creation that stopped half-way and that another one finishes."""
    lone = Place(place.host, place.port, f"{place.prefix}lone", None)
    created = create(lone, gateway)
    assert len(created.splits[lone.name_of(MESSAGE).decode()]) == created.buckets - 1
    store = HBaseStore(lone, gateway)
    name = lone.name_of(PAYLOAD)
    gateway.read(lambda client: client.disableTable(name))
    gateway.read(lambda client: client.deleteTable(name))
    with pytest.raises(StoreUnavailable, match="TableNotFound"):
        rows_of(store, PAYLOAD)
    with pytest.raises(OutcomeUnknown):
        put(store, PAYLOAD, (b"k", b"v"))
    assert create(lone, gateway).tables == [name.decode()]
    settled(store)

    assert store.get(PAYLOAD, b"k") == b"v"
    store.close()


def test_a_row_without_a_value_is_damage(
    place: Place, gateway: Gateway, hbase_store: HBaseStore
) -> None:
    name, mutation = place.name_of(METADATA), Mutation(False, b"d:other", b"v", True)
    gateway.read(lambda client: client.mutateRow(name, b"\x00k", [mutation], {}))
    try:
        with pytest.raises(Exception, match="a row has no value"):
            rows_of(hbase_store, METADATA)
    finally:
        gateway.read(lambda client: client.deleteAllRow(name, b"\x00k", {}))


def test_a_scan_holds_little(hbase_store: HBaseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    put(hbase_store, MESSAGE, *((b"ns:t:%04d" % n, bytes(100_000)) for n in range(100)))
    read = hbase_store._gateway.read

    def counted(call: Callable[[Any], Any]) -> Any:
        found = read(call)
        asked.append(len(found))
        return found

    monkeypatch.setattr(hbase_store._gateway, "read", counted)
    assert len(rows_of(hbase_store, MESSAGE, b"ns:t:", b"ns:t;")) == 100
    assert max(asked) == asked[0] == 64
