"""A row, its bill and the ack of its order agree, whichever process is killed with -9.

Workers take orders from a group. For each they insert a row into PostgreSQL, publish a bill and
acknowledge the order, in one transaction. The server, a worker, or all of them are killed in the
middle, or a worker pauses until others have its orders: then its commit is refused. In the meantime
the group's settings change, and another group is deleted while a take waits, and created again.
In the end, each order is billed once, or is one dead letter.
"""

import random
import signal
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice
from pathlib import Path
from subprocess import Popen

import psycopg
import pytest

import tms
from tests.faults.billing import (
    BILLS,
    DATABASE_NAME,
    DEAD,
    GROUP,
    ORDERS,
    STAND_STILL,
    is_rejected,
    start_worker,
)
from tests.participants.postgresql_server import PostgresqlServer, find_programs
from tests.scale import scaled
from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX, wait_until
from tms.client.groups.database_recovery import Recovered
from tms.client.groups.group import TopicGroup
from tms.core.values.group_settings import GroupOptions
from tms.postgresql import PostgresqlParticipant

ROUNDS = scaled(4)
PROGRAMS = find_programs()
WORKERS = 2
ORDERS_EACH = 60
KEYS = 7
LEASE_S = 1
TIMEOUT_S = 4
"""More than the time after which other workers get the orders of a paused worker."""
VICTIMS = ("all", "server", "worker", "still")
NAMESPACE = "shop"
OTHERS = "others"
PREPARED_MAX = 100

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROGRAMS is None, reason="PostgreSQL is not installed: apt-get install postgresql"
    ),
]


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresqlServer]:
    assert PROGRAMS is not None
    with PostgresqlServer(PROGRAMS, prepared_max=PREPARED_MAX) as postgresql:
        yield postgresql


class Shop:
    """A server, its workers and its database, some of which are killed."""

    def __init__(self, database: str, folder: Path, order: str) -> None:
        """Start the server."""
        self._store = f"leveldb:{folder / 'store'}"
        self.log = folder / "workers.log"
        self._database = database
        self._workers: list[Popen[bytes]] = []
        self.published: list[str] = []
        self._others = 0
        """The number of messages in the topic whose group is deleted and created again."""
        self._order = order
        self._server = self._started(port=0)

    def create(self) -> None:
        """Create the topics, the table and the group."""
        with closing(psycopg.connect(self._database, autocommit=True)) as connection:
            connection.execute("DROP TABLE IF EXISTS billed")
            connection.execute("CREATE TABLE billed (name TEXT)")
        with self.connected() as client:
            client.topic(ORDERS).create()
            client.topic(BILLS).create()
            client.topic(DEAD).create()
            group = client.topic(ORDERS).group(GROUP)
            settings: GroupOptions = {
                "lease_s": LEASE_S,
                "retry_s": 0,
                "dead_letter": DEAD,
                "dead_letters_max": 10_000,
            }
            group.create(self._order, **settings)  # type: ignore[arg-type]

    def _started(self, port: int) -> ServerProcess:
        flags = ("--transaction-timeout-s-default", str(TIMEOUT_S), "--log-level", "warning")
        return ServerProcess(self._store, *flags, port=port)

    def connected(self) -> tms.Client:
        return tms.connect(self._server.url, NAMESPACE)

    def publish(self) -> None:
        first = len(self.published)
        names = [str(number) for number in range(first, first + ORDERS_EACH)]
        with self.connected() as client:
            client.topic(ORDERS).publish(
                [tms.Message(name.encode(), key=b"k%d" % (int(name) % KEYS)) for name in names]
            )
        self.published += names

    def start_workers(self) -> None:
        url = self._server.url
        while len(self._workers) < WORKERS:
            self._workers.append(start_worker(url, NAMESPACE, self._database, self.log))

    def billed(self) -> list[str]:
        with closing(psycopg.connect(self._database)) as connection:
            return [name for (name,) in connection.execute("SELECT name FROM billed")]

    def has_billed(self, count: int) -> bool:
        return len(self.billed()) >= count

    def check_workers(self) -> None:
        """Assert that no worker has ended by itself."""
        assert [worker.poll() for worker in self._workers] == [None] * WORKERS, self.log.read_text()

    def kill(self, victims: str, chance: random.Random) -> None:
        """Kill the server, a worker or all, in any order; restart the server."""
        doomed: list[Popen[bytes] | ServerProcess] = []
        count = {"server": 0, "worker": 1, "all": WORKERS}[victims]
        doomed += [self._workers.pop() for _ in range(count)]
        if victims != "worker":
            doomed.append(self._server)
        chance.shuffle(doomed)
        port = self._server.port
        for each in doomed:
            each.kill()
            if isinstance(each, Popen) and chance.random() < 0.5:
                each.wait()  # before the next one is killed
        for each in doomed:
            if isinstance(each, Popen):
                each.wait()
        if self._server in doomed:
            self._server = self._started(port)

    def look_after_groups(self, chance: random.Random) -> None:
        """Change the group's settings; delete another group during a take, and create it again.

        Messages acknowledged in the new group stay acknowledged.
        """
        with self.connected() as client:
            settings: GroupOptions = {
                "lease_s": chance.choice((1, 2, 5)),
                "open_max": chance.choice((20, 10_000)),
            }
            client.topic(ORDERS).group(GROUP).set(**settings)
            topic = client.topic(OTHERS)
            topic.create(exist_ok=True)
            topic.publish([b"1", b"2", b"3"])
            self._others += 3
            other = topic.group("other")
            other.create()
            with ThreadPoolExecutor(1) as threads:
                self.acknowledge_all(other)
                waiting = threads.submit(next, other.take())
                wait_until(lambda: len(other.members()) > 1, "a take waits")
                other.delete()
                assert isinstance(waiting.exception(WAIT_S_MAX), tms.SubscriptionNotFound)
            other.create()
            self.acknowledge_all(other)
            state = other.show().state
            assert (state.open, state.unread) == (0, 0)
            other.delete()

    def acknowledge_all(self, group: TopicGroup) -> None:
        for each in islice(group.take(), self._others):
            each.ack()

    def stand_still(self) -> None:
        """Pause a worker before a commit until others have its order, then let it continue."""
        self.publish()
        [worker, *_] = self._workers
        worker.send_signal(STAND_STILL)
        stat = Path(f"/proc/{worker.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(") ")[2][0] == "T", "a worker stands still")
        wait_until(self.is_drained, "others get the orders of one that stands still")
        worker.send_signal(signal.SIGCONT)

    def stop_workers(self) -> None:
        """Stop the workers like an operator does, and check that they end in good order."""
        for worker in self._workers:
            worker.terminate()
        assert [worker.wait(WAIT_S_MAX) for worker in self._workers] == [0] * WORKERS
        self._workers.clear()

    def end(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()
        self._server.kill()

    def is_drained(self) -> bool:
        with self.connected() as client:
            state = client.topic(ORDERS).group(GROUP).show().state
            return state.open == state.unread == 0

    def check(self) -> list[str]:
        """Check, after the workers have stopped, that rows, bills and acks have the same orders.

        All other settled orders, which workers reject, are dead letters, and no order appears
        twice. The server has refused what it had to, and has not failed. Return the names of the
        billed orders, in the order of their bills.
        """
        assert "Traceback" not in self._server.log
        with self.connected() as client:
            wait_until(lambda: not client.transactions.in_progress(), "transactions end")
            with closing(psycopg.connect(self._database)) as connection:
                part = PostgresqlParticipant(connection, DATABASE_NAME)
                part.recover(client.transactions)
                assert part.recover(client.transactions) == Recovered()
            bills = [bill.payload.decode() for bill in client.topic(BILLS).poll(committed=True)]
            group = client.topic(ORDERS).group(GROUP)
            through = group.show().state.through or b""
            open_ids = {each.id for each in group.open(limit=1_000)}
            settled = [
                order.payload.decode()
                for order in client.topic(ORDERS).poll(committed=True)
                if order.id <= through and order.id not in open_ids
            ]
            dead = [letter.payload.decode() for letter in client.topic(DEAD).poll()]
        assert sorted(self.billed()) == sorted(bills)
        assert sorted([*bills, *dead]) == sorted(settled)
        assert sorted(dead) == sorted(filter(is_rejected, settled))
        assert len(set(bills)) == len(bills)
        return bills


@pytest.mark.parametrize("order", ["none", "key"])
def test_rows_bills_and_acks_agree_after_kill_9(
    postgresql: PostgresqlServer, tmp_path: Path, chance: random.Random, order: str
) -> None:
    shop = Shop(postgresql.url, tmp_path, order)
    with ExitStack() as stack:
        stack.callback(shop.end)
        shop.create()
        for number in range(ROUNDS):
            enough = len(shop.billed()) + chance.choice((1, 10, 40))
            shop.publish()
            shop.start_workers()
            wait_until(partial(shop.has_billed, enough), "orders are billed")
            shop.check_workers()
            shop.look_after_groups(chance)
            victims = VICTIMS[number % len(VICTIMS)]
            if victims == "still":
                shop.stand_still()
            else:
                shop.kill(victims, chance)
            if victims == "all":
                shop.check()
        shop.start_workers()
        wait_until(shop.is_drained, "all orders are billed")
        shop.check_workers()
        shop.stop_workers()
        bills = shop.check()

    assert sorted(bills) == sorted(name for name in shop.published if not is_rejected(name))
    if order == "key":
        by_key = defaultdict(list)
        for name in bills:
            by_key[int(name) % KEYS].append(int(name))
        assert all(names == sorted(names) for names in by_key.values())
