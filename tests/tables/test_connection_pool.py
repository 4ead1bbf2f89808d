"""The connections to a gateway that several stores share. They lead to the simulated HBase."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import happybase  # noqa: F401  the store needs it imported first
import pytest

from tables.hbase.connections import CallFailed, Gateway
from tables.hbase.creation import create_store_or_shards
from tables.hbase.layout import Place
from tables.hbase.pool import ConnectionPool
from tests.simulation.gateway import PLACE, Rows, SimulatedGateway
from tests.waiting import wait_until
from tms.core.values.shards import ShardBy, Sharding
from tms.server.sharded import ShardStores
from tms.settings import Settings


class Counted(ConnectionPool):
    """A pool that counts its connections, which can lead to any client."""

    def __init__(self, client: Any = None, **options: Any) -> None:
        super().__init__(PLACE.host, PLACE.port, **options)
        self.client = client
        self.made = self.open = 0

    def connect(self) -> Any:
        self.made += 1
        self.open += 1

        def close() -> None:
            self.open -= 1

        return SimpleNamespace(client=self.client, open=lambda: None, close=close)

    def user(self, size: int, timeout_s: float = 30.0, own: int = 1) -> Gateway:
        address = PLACE.host, PLACE.port
        return Gateway(*address, size=size, timeout_s=timeout_s, retry_s=0.0, pool=self, own=own)


Hang = Callable[[Gateway], "Future[Any]"]


@pytest.fixture
def hang() -> Iterator[Hang]:
    """Start calls that HBase does not answer until the test ends."""
    answered = threading.Event()
    with ThreadPoolExecutor(20) as threads:
        yield lambda user: threads.submit(user.once, lambda _: answered.wait())
        answered.set()


def used(user: Gateway) -> int:
    return user._share.used


def test_what_one_store_has_used_the_others_use() -> None:
    pool = Counted()
    first, second = pool.user(2), pool.user(2)
    for user in (first, second, first, second):
        user.once(lambda _: None)
    assert pool.made == 1
    first.close()
    assert pool.open == 1
    second.close()
    assert pool.open == 0, "the last one closes it"


def test_sick_stores_leave_each_other_what_is_their_own(hang: Hang) -> None:
    pool = Counted(spare=3)
    sick = [pool.user(4, timeout_s=0.0, own=own) for own in (1, 2, 1)]
    well = pool.user(4, timeout_s=0.0)
    for user, has in zip(sick, (4, 2, 1), strict=True):
        for _ in range(has):
            hang(user)
        wait_until(lambda: used(user) == has)  # noqa: B023  called at once
    for user in sick:
        with pytest.raises(CallFailed, match="no connection became free") as failed:
            user.once(lambda _: None)
        assert not failed.value.is_in_doubt
    assert well.once(lambda _: "answered") == "answered"
    assert pool.made == 8


def test_no_store_has_more_than_its_share(hang: Hang) -> None:
    pool = Counted(spare=10)
    greedy, other = pool.user(2, timeout_s=0.0), pool.user(3)
    for _ in range(2):
        hang(greedy)
    wait_until(lambda: used(greedy) == 2)
    with pytest.raises(CallFailed, match="no connection became free"):
        greedy.once(lambda _: None)
    for _ in range(3):
        hang(other)
    wait_until(lambda: used(other) == 3)


def test_who_waits_continues_when_another_store_ends_a_call(hang: Hang) -> None:
    pool = Counted(spare=1)
    first, second = pool.user(2), pool.user(2)
    ends = threading.Event()
    hang(second)
    with ThreadPoolExecutor(3) as threads:
        for _ in range(2):
            threads.submit(first.once, lambda _: ends.wait())
        wait_until(lambda: (used(first), used(second)) == (2, 1))
        waiting = threads.submit(second.once, lambda _: "answered")
        ends.set()
        assert waiting.result() == "answered"


def test_a_connection_that_is_idle_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr("tables.hbase.pool.time.monotonic", lambda: now_s[0])
    pool = Counted(idle_s_max=10.0)
    user = pool.user(2)
    user.once(lambda _: user.once(lambda _: None))
    assert (pool.made, pool.open) == (2, 2)
    now_s[0] = 9.0
    user.once(lambda _: None)
    now_s[0] = 11.0
    user.once(lambda _: None)
    assert (pool.made, pool.open) == (2, 1)
    now_s[0] = 30.0
    user.once(lambda _: None)
    assert (pool.made, pool.open) == (3, 1)


def test_the_shards_of_a_process_share_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, sharding = Rows(), Sharding(16, ShardBy.TOPIC)
    rows.tables.clear()
    simulated = SimulatedGateway(rows, lambda: None)
    place = Place(PLACE.host, PLACE.port, "n", None)
    create_store_or_shards(place, simulated, None, sharding, lambda _done, _all: None)
    made: list[Counted] = []

    def counted(_: str, __: int, **options: Any) -> Counted:
        made.append(Counted(simulated._client, **options))
        return made[-1]

    monkeypatch.setattr("tables.hbase.opening.ConnectionPool", counted)
    stores = ShardStores("hbase://simulated:1/n", sharding, Settings())
    opened = [stores.open(shard) for shard in range(sharding.shards)]
    for _, upkeep in opened:
        upkeep.store.get("metadata", b"k")
    assert [pool.made for pool in made] == [1]
    for tables, _ in opened:
        tables.close()
    assert made[0].open == 0
