"""The service on a real HBase: against its model, and in a server that is killed and restarted."""

from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

import tms
from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tables.store import Store
from tests.contracts.store_contract import empty
from tests.messaging.service_machine import ServiceMachine
from tests.scale import scaled
from tests.servers.server_process import ServerProcess
from tests.tables.hbase.conftest import gateway_to
from tms.core.values.topic import TopicId
from tms.messaging import cache

pytestmark = pytest.mark.slow


@pytest.fixture
def _tiny_cache_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BLOCK_BYTES", 200)


@pytest.mark.usefixtures("_tiny_cache_blocks")
def test_the_service_does_as_its_model_on_hbase(place: Place) -> None:
    class HBaseMachine(ServiceMachine):
        def open_store(self) -> Store:
            is_first = not hasattr(self, "store")
            store = HBaseStore(place, gateway_to(place))
            store.take_over(lambda _: None)
            if is_first:
                empty(store)
            return store

    run_state_machine_as_test(
        HBaseMachine,
        settings=settings(
            max_examples=scaled(8),
            stateful_step_count=25,
        ),
    )


@pytest.fixture
def url(place: Place, hbase_store: HBaseStore) -> str:
    return f"hbase://{place.host}:{place.port}/{place.prefix}"


def served(url: str) -> ServerProcess:
    return ServerProcess(url, "--hbase-timeout-s", "6")


def test_what_was_acknowledged_survives_the_server(url: str) -> None:
    with served(url) as server:
        with tms.connect(server.url) as client:
            orders = client.topic("orders")
            orders.create()
            with client.transaction() as tx:
                orders.publish([b"one", b"two"], tx)
            orders.publish(b"three")
            with suppress(ZeroDivisionError), client.transaction() as tx:
                orders.publish(b"never", tx)
                raise ZeroDivisionError
        server.kill()
    with served(url) as server, tms.connect(server.url) as client:
        orders = client.topic("orders")
        orders.publish(b"four")
        with client.transaction() as tx:
            found = [message.payload for message in orders.poll(tx=tx)]

    assert found == [b"one", b"two", b"three", b"four"]


def test_what_tasks_stored_is_read_in_parts(url: str) -> None:
    with served(url) as server, tms.connect(server.url) as client:
        orders = client.topic("orders")
        orders.create()
        transaction = client.transactions.start(tms.StartRequest()).transaction_id
        pointers = [client.transactions.checkpoint(transaction).write_pointer for _ in range(3)]
        for number, pointer in enumerate(pointers):
            orders.store([b"%d.%d" % (number, message) for message in range(100)], pointer)
        kept = [
            tms.Stored(TopicId(orders.namespace, orders.name), pointer)
            for pointer in (pointers[2], pointers[0])
        ]
        client.transactions.commit(transaction, tms.CommitRequest(publish=kept))
        server.kill()
    with served(url) as server, tms.connect(server.url) as client:
        orders = client.topic("orders")
        start, end, _ = orders.range()
        middle = orders.reach(start, end, messages=150)
        parts = [
            (part.start, part.end)
            for low, high in ((start, middle.end), (middle.end, end))
            for part in orders.splits(low, high, 4)
        ]
        found = [
            message.payload
            for low, high in parts
            for message in orders.poll(start=low, end=high, committed=True)
        ]

    assert middle.messages == 150
    assert found == [b"%d.%d" % (number, message) for number in (2, 0) for message in range(100)]
