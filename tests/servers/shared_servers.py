"""The servers that tests of a process share: a real ZooKeeper, a real etcd, an HBase, and Spark.

Each starts when a test first asks for it. `end_unused` ends it after the last test of the files
that use it, so that it takes no time and memory from other tests. (pytest's own scope for a folder
requires an `__init__.py` in it.)
"""

import shutil
from collections.abc import Iterator

import pytest

from dev.etcd import servers as etcd_servers
from dev.processes import CannotStart, Servers
from dev.zookeeper import servers as zookeeper_servers
from tests.scheduling import ON_METADATA_SERVERS

_SHARED = (
    ((*ON_METADATA_SERVERS, "tests/faults/hbase/"), ("zookeeper", "etcd")),
    (("tests/faults/hbase/", "tests/tables/hbase/"), ("hbase",)),
    (("tests/faults/hbase/",), ("cluster",)),
    (("tests/tables/hbase/test_spark.py",), ("spark",)),
    (("tests/spark/",), ("server", "spark")),
)
"""Files and folders, and the fixtures that end, in this order, after their last test."""


def _skip_without(*tools: str) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: apt-get install default-jdk-headless maven")


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    _skip_without("java", "mvn")
    servers = zookeeper_servers.start(tmp_path_factory.mktemp("zookeeper"))
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    try:
        servers = etcd_servers.start(tmp_path_factory.mktemp("etcd"))
    except CannotStart as error:
        pytest.skip(str(error))
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def hbase(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """An HBase in one JVM with its gateways, for tests that do not kill it."""
    from dev.hbase.servers import start  # noqa: PLC0415  its libraries are not for each process

    _skip_without("java", "mvn")
    servers = start(tmp_path_factory.mktemp("hbase"))
    yield servers
    servers.stop()


def end_unused(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the servers of this test that the next one does not use; later tests start new ones."""
    if not isinstance(item, pytest.Function):
        return
    for files, names in _SHARED:
        if not item.nodeid.startswith(files):
            continue
        if nextitem is not None and nextitem.nodeid.startswith(files):
            continue
        for name in names:
            for fixture in item.session._fixturemanager.getfixturedefs(name, item) or ():
                fixture.finish(item._request)  # type: ignore[arg-type]  # any request does
