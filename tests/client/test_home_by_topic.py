"""A store with its topics in three shards: a client's transaction is in the shard of its topic."""

from collections.abc import Iterator

import pytest

import tms
import tms.aio
from tests.client.taking import running
from tests.servers.server_process import ServerProcess
from tests.waiting import wait_until
from tms.core.errors import InvalidRequest, OtherShard, TransactionDuplicate
from tms.core.values.shards import ShardBy, Sharding

SHARDING = Sharding(3, ShardBy.TOPIC)
NAMESPACE = "shop"
ORDERS, BILLS, SALES = "orders", "bills", "sales"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ServerProcess("memory:", shard_by=ShardBy.TOPIC) as server:
        yield server.url
        assert server.stop() == 0


@pytest.fixture
def client(url: str) -> Iterator[tms.Client]:
    with tms.connect(url, NAMESPACE) as client:
        for name in (ORDERS, BILLS, SALES):
            client.topic(name).create()
        yield client
        for name in (ORDERS, BILLS, SALES):
            client.topic(name).delete()


def committed(client: tms.Client, name: str) -> list[bytes]:
    return [message.payload for message in client.topic(name).poll(committed=True)]


def test_the_topics_are_where_these_tests_have_them() -> None:
    homes = [SHARDING.home(NAMESPACE, name) for name in (ORDERS, BILLS, SALES)]
    assert homes == [2, 2, 1]
    assert SHARDING.home(NAMESPACE) == 0


def test_a_transaction_uses_the_topics_that_are_with_its_home(client: tms.Client) -> None:
    orders, bills, sales = [client.topic(name) for name in (ORDERS, BILLS, SALES)]
    with client.transaction(home=ORDERS) as tx:
        orders.publish(b"1", tx)
        bills.publish(b"1", tx, buffer=True)
    assert SHARDING.shard_of_transaction(tx.transaction_id) == 2

    def sell_beside(tx: tms.TransactionContext) -> None:
        orders.publish(b"2", tx)
        sales.publish(b"2", tx)

    with pytest.raises(OtherShard) as refused, client.transaction(home=ORDERS) as tx:
        sell_beside(tx)
    assert refused.value.detail == {
        "transaction_id": tx.transaction_id,
        "transaction_shard": 2,
        "topic": "shop:sales",
        "topic_shard": 1,
    }
    with pytest.raises(OtherShard), client.transaction() as tx:
        orders.publish(b"3", tx)

    client.run_in_transaction(lambda tx: orders.publish(b"4", tx), home=BILLS)
    assert committed(client, ORDERS) == [b"1", b"4"]
    assert committed(client, BILLS) == [b"1"]
    assert committed(client, SALES) == []


@pytest.mark.anyio
async def test_it_is_so_for_asyncio(client: tms.Client, url: str) -> None:
    async with await tms.aio.connect(url, NAMESPACE) as own:
        sales = own.topic(SALES)

        async def sell(tx: tms.aio.AsyncTransactionContext) -> None:
            await sales.publish(b"1", tx)

        await own.run_in_transaction(sell, home=SALES)
        with pytest.raises(OtherShard):
            await own.run_in_transaction(sell, home=ORDERS)
        with pytest.raises(InvalidRequest, match="255 letters"):
            own.transaction(home="a topic")
    assert committed(client, SALES) == [b"1"]


def test_a_sequence_is_remembered_at_home(client: tms.Client) -> None:
    def work(home: str, sequence: int) -> None:
        with client.transaction(owner="o", sequence=sequence, home=home) as tx:
            client.topic(home).publish(b"%d" % sequence, tx)

    work(ORDERS, 1)
    for home in (ORDERS, BILLS):
        with pytest.raises(TransactionDuplicate):
            work(home, 1)
    work(SALES, 1)
    assert client.publish_all({BILLS: [b"x"]}, owner="o", sequence=1).is_duplicate
    assert [committed(client, name) for name in (ORDERS, BILLS, SALES)] == [[b"1"], [], [b"1"]]


def test_a_loop_on_a_subscription_works_where_its_topic_is(client: tms.Client) -> None:
    orders, billing = client.topic(ORDERS), client.topic(ORDERS).subscription("billing")
    billing.create()
    orders.publish([b"1", b"2"])

    def bill(message: tms.Message, tx: tms.TransactionContext) -> None:
        if message.payload == b"end":
            raise EOFError
        client.topic(BILLS).publish(message.payload, tx)
        if message.payload == b"2":
            orders.publish(b"end")

    with pytest.raises(EOFError):
        billing.run(bill)
    assert committed(client, BILLS) == [b"1", b"2"]


def test_a_groups_worker_works_where_its_topic_is(client: tms.Client) -> None:
    orders, bills = client.topic(ORDERS), client.topic(BILLS)
    group = orders.group("billing")
    group.create()
    orders.publish([b"1", b"2"])

    @group.worker(transaction=True)
    def bill(message: tms.GroupMessage, tx: tms.TransactionContext) -> None:
        bills.publish(message.payload, tx)

    with running(bill):
        wait_until(lambda: len(committed(client, BILLS)) == 2)
    assert not group.open()
