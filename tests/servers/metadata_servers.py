"""A real ZooKeeper and a real etcd: one of each for a process, while its tests use them.

They start when a test first asks for them. `end_unused` ends them after the last test of the files
that use them, so that they take no time from other tests.
"""

import shutil
from collections.abc import Iterator

import pytest

from dev.etcd import servers as etcd_servers
from dev.processes import CannotStart, Servers
from dev.zookeeper import servers as zookeeper_servers
from tests.scheduling import uses_metadata_servers

_FIXTURES = ("zookeeper", "etcd")


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"ZooKeeper needs {', '.join(missing)}: apt-get install maven")
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


def end_unused(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End both unless the next test is in a file that uses them; later tests start new ones."""
    if not isinstance(item, pytest.Function) or uses_metadata_servers(nextitem):
        return
    for name in _FIXTURES:
        for fixture in item.session._fixturemanager.getfixturedefs(name, item) or ():
            fixture.finish(item._request)  # type: ignore[arg-type]  # any request does
