"""A real HBase of five processes, and a server on it that notices faults soon."""

import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import pytest

import tms.aio
from dev.hbase.servers import HBaseServers, start
from dev.processes import CannotStart
from tables.hbase.connections import Gateway
from tables.hbase.creation import create
from tables.hbase.layout import Place
from tests.faults.ledger import Ledger, Request
from tests.faults.load import check_log
from tests.scale import scaled
from tests.servers.server_process import ServerProcess
from tests.waiting import until
from tms.core.errors import OutcomeUnknown, Unavailable

ROUNDS = scaled(1)
GIVE_UP_S = 5
TIMEOUT_S = 6
RETRY_S = 3
BUCKETS = 2
STARTS_MAX = 4

Serve = Callable[..., ServerProcess]


class TimedLedger(Ledger):
    """A ledger that measures the longest time without an acknowledgement."""

    def __init__(self) -> None:
        super().__init__()
        self.stall_s = 0.0
        self._last = 0.0

    def watch(self) -> None:
        """Begin to measure."""
        self.stall_s, self._last = 0.0, time.monotonic()

    def acknowledge(self, request: Request) -> None:
        super().acknowledge(request)
        now = time.monotonic()
        self.stall_s = max(self.stall_s, now - self._last)
        self._last = now


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HBaseServers]:
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"HBase needs {', '.join(missing)}: apt-get install default-jdk-headless maven")
    folder: Path = tmp_path_factory.mktemp("hbase-cluster")
    servers = start(folder, cluster=True, give_up_s=GIVE_UP_S)
    yield servers
    servers.stop()


def new_place(cluster: HBaseServers) -> Place:
    """Create a store for this test alone."""
    place = Place("127.0.0.1", cluster.gateway_port, f"t{uuid.uuid4().hex[:8]}", BUCKETS)
    gateway = Gateway(place.host, place.port, retry_s=60.0)
    create(place, gateway, ("127.0.0.1", cluster.admin_port))
    gateway.close()
    return place


def serve_on(
    place: Place,
    transactions: str = "foreign",
    *,
    port: int | None = None,
    flags: Sequence[str] = (),
) -> ServerProcess:
    """Start a server on a store, through its gateway or a proxy in front of it."""
    return ServerProcess(
        f"hbase://{place.host}:{port or place.port}/{place.prefix}",
        *("--transactions", transactions),
        *("--hbase-timeout-s", str(TIMEOUT_S), "--hbase-retry-s", str(RETRY_S)),
        *flags,
    )


@pytest.fixture
def place(cluster: HBaseServers) -> Place:
    """A store of this test's own."""
    return new_place(cluster)


@pytest.fixture
def serve(place: Place) -> Serve:
    """Start a server on that store."""
    return partial(serve_on, place)


def running(cluster: HBaseServers) -> None:
    """Start the processes that do not run, and wait until HBase accepts puts.

    Start again if others have exited: HBase's processes exit if ZooKeeper was away for too long.
    """
    for attempt in range(STARTS_MAX):
        for name in cluster.commands:
            if name not in cluster.running():
                cluster.start(name)
        try:
            cluster.wait_until_ready()
        except CannotStart:
            if attempt == STARTS_MAX - 1:
                raise
        else:
            return


async def check_unanswered(server: ServerProcess, topic: str, ledger: Ledger) -> None:
    """Check an unused topic once HBase answers and failed writes are decided."""
    attempts = count()
    async with await tms.aio.connect(server.url, retry_for_s=0) as client:

        async def is_settled() -> bool:
            # An acknowledged message comes after all messages that failed before it.
            name = f"marker {len(ledger.requests)} {next(attempts)}"
            request = ledger.begin(name, [name.encode()])
            try:
                await client.topic(topic).publish(request.payloads)
                ledger.acknowledge(request)
                await check_log(server.url, topic, ledger, settled=True)
            except (Unavailable, OutcomeUnknown):
                return False
            return True

        await until(is_settled)
