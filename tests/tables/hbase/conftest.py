"""A real HBase for the tests of this folder: started once, stopped at the end.

`HBASE_EXAMPLES=50` in the environment has the properties tried on that many examples.
"""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.hbase.servers import HBaseServers, start
from tables.hbase.connections import Gateway
from tables.hbase.creation import create
from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tests.contracts.store_contract import empty

BUCKETS = 3


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HBaseServers]:
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"HBase needs {', '.join(missing)}: apt-get install default-jdk-headless maven")
    folder: Path = tmp_path_factory.mktemp("hbase")
    servers = start(folder)
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def place(servers: HBaseServers) -> Place:
    """A store with its tables created, for all tests."""
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
    gateway.close_idle()


@pytest.fixture
def hbase_store(place: Place, gateway: Gateway) -> Iterator[HBaseStore]:
    """Empty, and closed by the last server, if not by its own doing."""
    last = HBaseStore(place, gateway_to(place))
    last.take_over(lambda _: None)
    last.close()
    store = HBaseStore(place, gateway)
    empty(store)
    yield store
    store.close()
