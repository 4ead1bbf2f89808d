"""A server that takes over finds atomic writes whole, wherever the last one died."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest

from tables.hbase import intents
from tables.hbase.connections import CallFailed, Gateway, Refused
from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tables.hbase.writes import Run
from tables.store import MESSAGE, METADATA, PAYLOAD, SUBSCRIPTION, TRANSACTION
from tests.contracts.store_contract import empty, put, rows_of
from tests.tables.hbase.conftest import gateway_to
from tests.tables.hbase.waiting import settled
from tests.waiting import wait_until
from tms.core.errors import OutcomeUnknown, StoreLocked, StoreUnavailable

pytestmark = pytest.mark.slow

TOKENS = count(100)
"""The tokens of leaders, which ascend from test to test because the store is shared."""
LATE_S = 4.0
"""How late a call may arrive in these tests."""


class Mortal:
    """A store that dies, or leaves calls unanswered, on request."""

    def __init__(self, place: Place, timeout_s: float = 30.0) -> None:
        self.place = place
        self.gateway = Gateway(place.host, place.port, timeout_s=timeout_s, retry_s=0.0)
        self._once = self.gateway.once
        self.store = HBaseStore(place, self.gateway)
        self.store.take_over(lambda _: None)
        self.calls = 0
        self.late: list[Callable[[Any], Any]] = []

    def die_after(self, calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Drop all calls after this number of them."""

        def once(call: Callable[[Any], Any]) -> Any:
            self.calls += 1
            if self.calls > calls:
                raise CallFailed("dead")
            return self._once(call)

        monkeypatch.setattr(self.gateway, "once", once)

    def lose_next(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keep the next call in flight, without an answer, until `come_late`."""

        def once(call: Callable[[Any], Any]) -> Any:
            monkeypatch.setattr(self.gateway, "once", self._once)
            self.late.append(call)
            raise CallFailed("no answer in time")

        monkeypatch.setattr(self.gateway, "once", once)

    def come_late(self) -> None:
        """Carry out the calls in flight."""
        for call in self.late:
            self._once(call)


@pytest.fixture
def mortal(place: Place, hbase_store: HBaseStore) -> Iterator[Mortal]:
    assert hbase_store
    mortal = Mortal(place, LATE_S)
    yield mortal
    mortal.store.close()


def successor(place: Place) -> HBaseStore:
    """Take over; in these tests dead servers have no calls in flight."""
    waited: list[float] = []
    store = HBaseStore(place, gateway_to(place))
    store.take_over(waited.append)
    assert waited == [30.0]
    return store


def all_rows(store: HBaseStore) -> dict[str, list[tuple[bytes, bytes]]]:
    tables = (MESSAGE, SUBSCRIPTION, TRANSACTION, PAYLOAD)
    return {table: rows_of(store, table) for table in tables}


ROW = {
    MESSAGE: [(b"ns:a:1", b"1"), (b"ns:b:1", b"2")],
    SUBSCRIPTION: [(b"ns:a:s", b"new")],
    TRANSACTION: [(b"e1", b"edits")],
    PAYLOAD: [],
}


def is_finished(store: HBaseStore, key: bytes) -> bool:
    try:
        store.check_unanswered(SUBSCRIPTION, [key])
    except StoreUnavailable:
        return False
    return True


def write_whole(store: HBaseStore) -> None:
    batch = store.batch()
    batch.require_atomic()
    for table in (MESSAGE, SUBSCRIPTION, TRANSACTION):
        batch.put_rows(table, ROW[table])
    batch.delete(PAYLOAD, b"ns:a:gone")
    store.write(batch)


@pytest.mark.parametrize("calls", range(6))
def test_what_is_to_be_whole_is_there_whole_or_not_at_all(
    place: Place, hbase_store: HBaseStore, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    put(hbase_store, SUBSCRIPTION, (b"ns:a:s", b"old"))
    put(hbase_store, PAYLOAD, (b"ns:a:gone", b"v"))
    before = all_rows(hbase_store)
    mortal = Mortal(place)
    mortal.die_after(calls, monkeypatch)
    try:
        write_whole(mortal.store)
    except OutcomeUnknown:
        assert calls < 5
    else:
        assert calls == 5
    mortal.store.close()
    store = successor(place)

    assert all_rows(store) == (ROW if calls else before)
    store.close()


@pytest.mark.parametrize("table", [MESSAGE, SUBSCRIPTION])
def test_what_was_changed_since_is_not_undone(place: Place, mortal: Mortal, table: str) -> None:
    write_whole(mortal.store)
    key = ROW[table][0][0]
    put(mortal.store, table, (key, b"newer"))
    put(mortal.store, PAYLOAD, (b"ns:a:gone", b"back"))
    other = successor(place)

    assert other.get(table, key) == b"newer"
    assert other.get(PAYLOAD, b"ns:a:gone") == b"back"
    other.close()


def test_a_request_of_many_rows_is_there_whole_or_not_at_all(
    place: Place, hbase_store: HBaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(b"ns:a:%06d" % number, bytes(10)) for number in range(12_000)]
    mortal = Mortal(place)
    mortal.die_after(2, monkeypatch)
    with pytest.raises(OutcomeUnknown):
        put(mortal.store, MESSAGE, *rows)
    assert rows_of(hbase_store, MESSAGE) == rows[:5000]
    mortal.store.close()
    store = successor(place)

    assert rows_of(store, MESSAGE) == rows
    store.close()


def test_what_hbase_refuses_for_good_keeps_nobody_from_taking_over(
    place: Place, hbase_store: HBaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server dies just before it records that there is nothing to finish."""
    assert hbase_store
    mortal = Mortal(place)
    batch = mortal.store.batch()
    batch.require_atomic()
    sizes = ((b"ns:a:1", 9), (b"ns:b:1", 17))  # the first one fits, and has a call of its own
    batch.put_rows(MESSAGE, [(key, bytes(size * 1024 * 1024)) for key, size in sizes])
    batch.put_rows(TRANSACTION, ROW[TRANSACTION])
    refused = mortal.gateway.once

    def once(call: Callable[[Any], Any]) -> Any:
        try:
            return refused(call)
        except Refused:
            mortal.die_after(0, monkeypatch)
            raise

    monkeypatch.setattr(mortal.gateway, "once", once)
    with pytest.raises(StoreUnavailable):
        mortal.store.write(batch)
    mortal.store.close()
    successor(place).close()
    store = HBaseStore(place, gateway_to(place))
    store.take_over(lambda _: None)

    assert rows_of(store, MESSAGE) == rows_of(store, TRANSACTION) == []
    store.close()


def led(place: Place, token: int) -> HBaseStore:
    store = HBaseStore(place, gateway_to(place))
    store.take_over(lambda _: None, token=token)
    return store


def test_a_late_intent_of_a_leader_before_does_not_count(
    place: Place, hbase_store: HBaseStore
) -> None:
    before = all_rows(hbase_store)
    first = led(place, 1)
    write_whole(first)
    finished = all_rows(first)
    rows = first.special_rows(*intents.RANGE)
    assert {intents.token_of(row) for row in rows} == {1}
    second = led(place, 2)
    assert all_rows(second) == finished
    assert {intents.token_of(row) for row in second.special_rows(*intents.RANGE)} == {2}
    empty(second)

    late = intents.intent(first._intent + 1, [Run(MESSAGE, False, {b"\x00late": b"v"})], 1)
    for run in late:
        first._sender.send(run)
    third = led(place, 3)

    assert all_rows(third) == before
    behind = HBaseStore(place, gateway_to(place))
    with pytest.raises(StoreUnavailable) as refused:
        behind.take_over(lambda _: None, token=2)
    assert refused.value.detail["later_token"] == 3
    for store in (first, second, third, behind):
        store.close()


def test_after_a_close_nobody_waits(place: Place, mortal: Mortal) -> None:
    mortal.store.close()
    waited: list[float] = []
    store = HBaseStore(place, gateway_to(place))
    store.take_over(waited.append)
    store.close()

    assert waited == []


def test_a_late_put_comes_before_a_newer_one(
    mortal: Mortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = mortal.store
    mortal.lose_next(monkeypatch)
    with pytest.raises(OutcomeUnknown):
        put(store, SUBSCRIPTION, (b"k", b"old"))
    settled(store)
    with pytest.raises(StoreUnavailable, match="late"):
        store.check_unanswered(SUBSCRIPTION, [b"other", b"k"])
    store.check_unanswered(SUBSCRIPTION, [b"other"])
    put(store, SUBSCRIPTION, (b"other", b"v"))
    threading.Timer(LATE_S / 4, mortal.come_late).start()
    with pytest.raises(StoreUnavailable, match="late"):
        put(store, SUBSCRIPTION, (b"k", b"new"))
    settled(store)
    assert store.get(SUBSCRIPTION, b"k") == b"old"
    wait_until(lambda: is_finished(store, b"k"))
    put(store, SUBSCRIPTION, (b"k", b"new"))

    assert store.get(SUBSCRIPTION, b"k") == b"new"


def test_a_late_compare_and_put_finds_no_more_what_it_expects(
    mortal: Mortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = mortal.store
    put(store, METADATA, (b"k", b"0"))
    mortal.lose_next(monkeypatch)
    assert store.compare_and_put(METADATA, b"k", b"0", b"1")
    assert store.compare_and_put(METADATA, b"k", b"1", b"2")
    mortal.come_late()
    assert store.get(METADATA, b"k") == b"2"

    with pytest.raises(StoreUnavailable, match="late"):
        store.compare_and_put(METADATA, b"k", b"2", b"0")
    settled(store)
    assert store.get(METADATA, b"k") == b"2"


def test_a_compare_and_put_of_none_is_atomic_against_other_writes(hbase_store: HBaseStore) -> None:
    """A row that was put in the meantime is never deleted instead of the expected one."""
    store = hbase_store
    lost: list[bytes] = []
    put(store, METADATA, (b"k", b"0"))
    done = threading.Event()

    def delete() -> None:
        while not done.is_set():
            store.compare_and_put(METADATA, b"k", b"expected", None)

    deleter = threading.Thread(target=delete)
    deleter.start()
    for number in range(100):
        put(store, METADATA, (b"k", b"expected"))
        put(store, METADATA, (b"k", b"%d" % number))
        if store.get(METADATA, b"k") != b"%d" % number:
            lost.append(b"%d" % number)
    done.set()
    deleter.join()
    empty(store)

    assert lost == []


def test_a_late_deletion_takes_nothing_that_was_put_since(
    mortal: Mortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = mortal.store
    assert store.compare_and_put(METADATA, b"k", None, b"old")
    remove = store._sender.remove

    def lose_the_first(*arguments: Any) -> None:
        if not mortal.late:
            mortal.lose_next(monkeypatch)
        remove(*arguments)

    monkeypatch.setattr(store._sender, "remove", lose_the_first)
    with pytest.raises(OutcomeUnknown):
        store.compare_and_put(METADATA, b"k", b"old", None)
    wait_until(lambda: store.get(METADATA, b"k") is None)
    other = led(mortal.place, next(TOKENS))
    assert other.compare_and_put(METADATA, b"k", None, b"new")

    mortal.come_late()

    assert other.get(METADATA, b"k") == b"new"
    assert not other.compare_and_put(METADATA, b"k", b"old", None)
    assert other.compare_and_put(METADATA, b"k", b"new", None)
    assert other.compare_and_put(METADATA, b"k", None, None)
    other.close()


def waits_for(place: Place, token: int = 0) -> list[float]:
    """Return how long a server waits when it takes over, and close it."""
    waited: list[float] = []
    store = HBaseStore(place, gateway_to(place))
    try:
        store.take_over(waited.append, token=token)
    finally:
        store.close()
    return waited


def test_a_server_alone_refuses_a_store_until_the_clusters_last_server_has_closed_it(
    place: Place, hbase_store: HBaseStore
) -> None:
    assert hbase_store
    waits_for(place, next(TOKENS))
    for is_last in (False, True):
        store = HBaseStore(place, gateway_to(place))
        store.take_over(token=next(TOKENS), is_last=partial(bool, is_last))
        with pytest.raises(StoreLocked) as refused:
            waits_for(place)
        assert refused.value.problem.code == "store_of_a_cluster"
        store.close()

    assert waits_for(place) == []
    assert waits_for(place, next(TOKENS)) == waits_for(place) == []


def test_a_store_of_a_dead_cluster_is_released_by_hand(
    place: Place, hbase_store: HBaseStore
) -> None:
    dead = led(place, next(TOKENS))
    dead._is_server = False
    dead.close()
    assert waits_for(place, next(TOKENS)) == []
    dead = led(place, next(TOKENS))
    dead._is_server = False
    dead.close()
    with pytest.raises(StoreLocked):
        waits_for(place)

    assert not hbase_store.release(through=dead._opened_token - 1), "a later leader has it"
    with pytest.raises(StoreLocked):
        waits_for(place)
    assert hbase_store.release(through=dead._opened_token)
    assert not hbase_store.release()
    assert waits_for(place) == [30.0]
    assert waits_for(place) == []


def test_a_leader_waits_for_a_server_that_died_alone(place: Place, mortal: Mortal) -> None:
    assert mortal.store
    assert waits_for(place, next(TOKENS)) == [30.0]
    assert waits_for(place, next(TOKENS)) == []
