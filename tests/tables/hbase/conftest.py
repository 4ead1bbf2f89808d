"""Stores on a real HBase, which all tests here share (tests/servers/shared_servers.py)."""

import shutil
import signal
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.hbase.servers import HBaseServers
from dev.processes import HOST, free_ports
from tables.hbase.connections import Gateway
from tables.hbase.creation import create
from tables.hbase.layout import FORMAT_KEY, Place, format_row
from tables.hbase.sending import Swap
from tables.hbase.store import HBaseStore
from tables.keys import prefix
from tables.store import MESSAGE, METADATA
from tests.contracts.store_contract import empty
from tests.waiting import wait_until
from tms.core.runtime.clock import SystemClock
from tms.core.values.message import KEY
from tms.core.values.topic import TopicId

BUCKETS = 3
QUICK = "quick-gateway"
SITE = {
    "hbase.thrift.server.socket.read.timeout": "1500",
    "hbase.client.operation.timeout": "4000",
    "hbase.rpc.timeout": "4000",
}


@pytest.fixture(scope="session")
def servers(hbase: HBaseServers) -> HBaseServers:
    return hbase


def put_old(store: HBaseStore, topic: TopicId, count: int) -> None:
    """Put this many one-hour-old messages into a topic's first generation."""
    start, written_ms = prefix(topic, 1), SystemClock().now_ms() - 3_600_000
    batch = store.batch()
    batch.put_rows(MESSAGE, [(start + KEY.pack(written_ms, n), b"\0old") for n in range(count)])
    store.write(batch)


@pytest.fixture(scope="session")
def quick_port(servers: HBaseServers) -> Iterator[int]:
    """The port of a gateway that closes idle connections soon."""
    conf = Path(servers.folder, "conf", QUICK)
    shutil.copytree(Path(servers.folder, "conf", "gateway"), conf)
    site = conf / "hbase-site.xml"
    more = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in SITE.items()
    )
    text = site.read_text(encoding="utf-8")
    site.write_text(text.replace("</configuration>", f"{more}</configuration>"), encoding="utf-8")
    [own] = free_ports(1)
    servers.commands[QUICK] = [
        f"{own}"
        if part == f"{servers.gateway_port}"
        else part.replace("/conf/gateway:", f"/conf/{QUICK}:")
        for part in servers.commands["gateway"]
    ]
    servers.start(QUICK)

    def listens() -> bool:
        servers.check_running()
        with socket.socket() as probe:
            return probe.connect_ex((HOST, own)) == 0

    wait_until(listens)
    yield own
    servers.kill(QUICK, signal.SIGTERM)


@pytest.fixture(scope="session")
def place(servers: HBaseServers) -> Place:
    """A store with its tables, shared by all tests."""
    place = Place("127.0.0.1", servers.gateway_port, f"t{uuid.uuid4().hex[:8]}", BUCKETS)
    create(place, gateway_to(place), ("127.0.0.1", servers.admin_port))
    return place


def gateway_to(place: Place, *, size: int = 8, retry_s: float = 30.0) -> Gateway:
    return Gateway(place.host, place.port, size=size, retry_s=retry_s)


@pytest.fixture
def gateway(place: Place) -> Iterator[Gateway]:
    """Gives up soon."""
    gateway = gateway_to(place, retry_s=1.0)
    yield gateway
    gateway.close()


@pytest.fixture
def hbase_store(place: Place, gateway: Gateway) -> Iterator[HBaseStore]:
    """An empty store without features, after a server has closed it in good order."""
    last = HBaseStore(place, gateway_to(place))
    last.take_over(lambda _: None)
    last.close()
    store = HBaseStore(place, gateway)
    empty(store)
    forget_features(store)
    yield store
    store.close()


def forget_features(store: HBaseStore) -> None:
    """Record that an empty store has no features; their tables stay."""
    row, recorded = store.recorded()
    with store.changing():
        store.swap(Swap(METADATA, FORMAT_KEY, row, format_row(recorded.buckets)))
    assert not store.features()
