"""Real metadata servers for the tests that need them."""

import pytest

from tests.metadata.servers import etcd, remote, sessions_at, zookeeper

__all__ = ["etcd", "remote", "sessions_at", "zookeeper"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
