"""Real metadata servers and a server that stands by, for the tests that need them."""

import pytest

from tests.cluster.standing_by import leader, second
from tests.metadata.servers import etcd, remote, sessions_at, zookeeper

__all__ = ["etcd", "leader", "remote", "second", "sessions_at", "zookeeper"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
