"""Two servers on one HBase: the one that leads is paused or stopped, and the other continues.

These tests have their own gateway, which closes idle connections soon; metadata is in the ZooKeeper
that HBase has.
"""

import asyncio
import os
import re
import signal
import threading
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

import tms
from dev.hbase.servers import HBaseServers
from dev.processes import HOST, free_ports
from tables.hbase.connections import Gateway
from tables.hbase.creation import create
from tables.hbase.layout import Place
from tests.scale import scaled
from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX, until, wait_until
from tms.cluster.lease import Lease, SteadySeconds, ceiling_ms
from tms.core.runtime.clock import SystemClock
from tms.core.services.transactions import StartRequest
from tms.core.values.message import position_of
from tms.core.values.reading import Reading, isolation_of
from tms.core.values.topic import TopicId
from tms.server.node import OpenServices, open_services
from tms.server.stores import release_store
from tms.settings import Settings

pytestmark = pytest.mark.slow

LEASE_S = 2.0
IDLE_S = 2.0
TIMEOUT_S = 5.0
FLAGS = (
    *("--lease-s", str(LEASE_S), "--hbase-gateway-idle-s", str(IDLE_S)),
    *("--hbase-timeout-s", str(TIMEOUT_S), "--hbase-retry-s", "1"),
)
TOPIC = TopicId("default", "t")
PATH = "/v1/namespaces/default/topics/t"


@pytest.fixture
def own_place(servers: HBaseServers, quick_port: int) -> Place:
    """A store for this test alone."""
    place = Place(HOST, quick_port, f"t{uuid.uuid4().hex[:8]}", 1)
    create(place, Gateway(HOST, quick_port), (HOST, servers.admin_port))
    return place


@pytest.fixture
def url(own_place: Place) -> str:
    return f"hbase://{HOST}:{own_place.port}/{own_place.prefix}?buckets=1"


class Ahead(SystemClock):
    """A clock so far ahead that messages with a ttl of a second expire at once for cleanup."""

    def now_ms(self) -> int:
        return super().now_ms() + int(TIMEOUT_S * 1000) + 10_000


class Woken:
    """The services of a leader that wakes up after its lease is over."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.settings = Settings.model_construct(hbase_timeout_s=TIMEOUT_S, hbase_retry_s=0.2)
        until_ms = ceiling_ms(SystemClock().now_ms(), 1e6)
        steady = SteadySeconds(SystemClock())
        self.lease = Lease(1, 1e6, steady, steady.now_s(), keys_until_ms=until_ms)

    async def open(self, *, is_guarded: bool) -> OpenServices:
        lease = self.lease if is_guarded else None
        clock = SystemClock() if is_guarded else Ahead()
        return await open_services(self.url, clock=clock, settings=self.settings, lease=lease)


async def payloads(services: OpenServices, topic: TopicId, *, committed: bool) -> list[bytes]:
    polled = services.messaging.poll(
        topic, Reading(position_of(None), view=isolation_of(committed=committed))
    )
    return [message.payload async for block in polled for message in block]


def test_a_leader_whose_lease_is_over_can_not_commit_prune_or_write(url: str) -> None:
    async def run() -> None:
        woken = Woken(url)
        old = await woken.open(is_guarded=True)
        await old.messaging.create_topic(TOPIC, {"ttl": 600})
        await old.messaging.publish(TOPIC, [b"before"])
        short = TopicId("default", "short")
        await old.messaging.create_topic(short, {"ttl": 1})
        await old.messaging.publish(short, [b"expires"] * 10)
        tx = await old.transactions.start(StartRequest())
        await old.messaging.publish(TOPIC, [b"in a transaction"], tx.write_pointer)

        async def has_expired() -> bool:
            return not await payloads(old, short, committed=False)

        await until(has_expired)
        cleanup = old.cleanup
        assert cleanup is not None

        woken.lease.end()

        for attempt in (
            old.transactions.commit(tx.transaction_id),
            old.messaging.publish(TOPIC, [b"late"]),
            old.messaging.create_topic(TopicId("default", "late")),
            old.messaging.update_topic(TOPIC, {"ttl": 1}),
            old.transactions.start(StartRequest()),
        ):
            with pytest.raises(tms.Unavailable):
                await attempt
        await cleanup.run_pass(10.0)
        await old.close()
        assert cleanup._runner.counts.dropped == {}

        with pytest.raises(
            tms.StoreLocked
        ) as refused:  # it is a standalone server, and the cluster's mark is there
            await woken.open(is_guarded=False)
        assert refused.value.problem.code == "store_of_a_cluster"
        assert await asyncio.to_thread(release_store, url, woken.settings)
        new = await woken.open(is_guarded=False)
        assert await payloads(new, TOPIC, committed=False) == [b"before", b"in a transaction"]
        assert await payloads(new, TOPIC, committed=True) == [b"before"]
        assert await new.messaging.topics("default") == ["short", "t"]
        assert new.cleanup is not None
        await new.cleanup.run_pass(30.0)
        assert sum(new.cleanup._runner.counts.dropped.values()) == 9
        await new.transactions.commit(tx.transaction_id)
        assert await payloads(new, TOPIC, committed=True) == [b"before", b"in a transaction"]
        await new.close()

    asyncio.run(run())


class Pair:
    """Two servers on one store."""

    def __init__(self, url: str, metadata: str) -> None:
        self.servers = [self._server(url, metadata, port) for port in free_ports(2)]
        assert all(server.url for server in self.servers)
        self.http = httpx.Client(timeout=WAIT_S_MAX, trust_env=False)

    @staticmethod
    def _server(url: str, metadata: str, port: int) -> ServerProcess:
        advertise = ("--advertise", f"http://{HOST}:{port}", "--metadata", metadata)
        return ServerProcess(url, *advertise, *FLAGS, port=port)

    @property
    def urls(self) -> str:
        return ",".join(server.url for server in self.servers)

    def role(self, server: ServerProcess) -> str:
        """Return a server's role; empty while it does not reach the metadata store."""
        return str(self.http.get(f"{server.url}/v1/cluster").json().get("role", ""))

    def leader(self) -> ServerProcess:
        """Return the server that leads, once one does."""
        found: ServerProcess | None = wait_until(
            lambda: next((s for s in self.servers if self.role(s) == "leader"), None)
        )
        assert found is not None
        return found

    def other(self, server: ServerProcess) -> ServerProcess:
        [other] = [each for each in self.servers if each is not server]
        return other

    def ready(self) -> None:
        """Return once both servers answer all requests."""
        for server in self.servers:
            wait_until(partial(self._is_ready, server))

    def _is_ready(self, server: ServerProcess) -> bool:
        return self.http.get(f"{server.url}/ready").status_code == 200

    def poll(self, server: ServerProcess) -> list[dict[str, str]]:
        answer = self.http.post(f"{server.url}{PATH}/poll", json={"limit": 1_000_000})
        assert answer.status_code == 200, answer.text
        told: list[dict[str, str]] = answer.json()
        return told

    def close(self) -> None:
        self.http.close()
        for server in self.servers:
            server.kill()


@pytest.fixture
def pair(url: str, own_place: Place, servers: HBaseServers) -> Iterator[Pair]:
    site = Path(servers.folder, "conf", "gateway", "hbase-site.xml").read_text(encoding="utf-8")
    found = re.search(r"clientPort</name><value>(\d+)", site)
    assert found is not None
    pair = Pair(url, f"zk://{HOST}:{found[1]}/{own_place.prefix}?session_timeout_s=4")
    yield pair
    pair.close()


class Load:
    """Publishers that record which of their messages were acknowledged."""

    def __init__(self, urls: list[str]) -> None:
        self.acknowledged: set[str] = set()
        self.sent: set[str] = set()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._publish, args=(url, f"{number}"), daemon=True)
            for number, url in enumerate(urls * 3)
        ]
        for thread in self._threads:
            thread.start()

    def _publish(self, url: str, name: str) -> None:
        number = 0
        with httpx.Client(timeout=WAIT_S_MAX, trust_env=False) as http:
            while not self._stop.is_set():
                message = f"{name}-{number}"
                number += 1
                self.sent.add(message)
                answer = http.post(f"{url}{PATH}/publish", json={"messages": [message]})
                if answer.status_code == 200:
                    self.acknowledged.add(message)
                else:
                    assert answer.status_code in (503, 504), answer.text
                    self._stop.wait(0.1)

    def until_more(self) -> None:
        """Return once a hundred more messages were acknowledged."""
        enough = len(self.acknowledged) + 100
        wait_until(lambda: len(self.acknowledged) >= enough)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(WAIT_S_MAX)


def test_a_paused_leader_that_wakes_up_changes_nothing(pair: Pair) -> None:
    pair.leader()
    pair.ready()
    pair.http.put(f"{pair.servers[0].url}{PATH}")
    load = Load([server.url for server in pair.servers])
    try:
        for _ in range(scaled(1)):
            _pause_the_leader(pair, load)
    finally:
        load.stop()
    pair.ready()

    all_seen = pair.poll(pair.servers[0])
    ids, found = [each["id"] for each in all_seen], [each["payload"] for each in all_seen]
    assert ids == sorted(set(ids))
    assert len(found) == len(set(found))
    assert load.acknowledged <= set(found) <= load.sent
    assert pair.poll(pair.servers[1]) == all_seen


def _pause_the_leader(pair: Pair, load: Load) -> None:
    leader = pair.leader()
    successor = pair.other(leader)
    load.until_more()
    started = pair.http.post(f"{leader.url}/v1/transactions?codec=false", json={"timeout_s": 3600})
    transaction = f"/v1/transactions/{started.json()['transaction_id']}"
    answers: list[int] = []

    def commit() -> None:
        answers.append(pair.http.post(f"{leader.url}{transaction}/commit").status_code)

    os.kill(leader.pid, signal.SIGSTOP)
    late = threading.Thread(target=commit, daemon=True)
    late.start()
    wait_until(lambda: pair.role(successor) == "leader")
    assert pair.http.post(f"{successor.url}{transaction}/invalidate").status_code == 200
    load.until_more()
    seen = pair.poll(successor)
    os.kill(leader.pid, signal.SIGCONT)
    wait_until(lambda: pair.role(leader) == "standby")
    late.join(WAIT_S_MAX)
    load.until_more()

    [status] = answers
    assert status in (409, 503, 504)
    info = pair.http.get(f"{successor.url}{transaction}").json()
    assert info["status"] == "invalid"
    assert pair.poll(successor)[: len(seen)] == seen


def test_a_leader_that_is_stopped_hands_over_and_clients_continue(pair: Pair) -> None:
    leader = pair.leader()
    pair.ready()
    known: list[bytes] = []
    with tms.connect(pair.urls, retry_for_s=WAIT_S_MAX) as client:
        topic = client.topic("t")
        topic.create()
        topic.publish(b"first")
        assert leader.stop() == 0
        for number in range(50):
            try:
                topic.publish(b"%d" % number)
            except tms.OutcomeUnknown:
                continue  # the stopped server closed its connection
            known.append(b"%d" % number)

        found = [message.payload for message in topic.poll(limit=100)]
    assert pair.role(pair.other(leader)) == "leader"
    assert found[0] == b"first"
    assert [payload for payload in found if payload in known] == known
    assert len(known) > 45
