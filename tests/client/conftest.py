"""The real service three ways: in this process in memory and on LevelDB, and a server over REST."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import tms
from tests.servers.server_process import ServerProcess

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("memory:", "--cache-bytes-max", "100000") as server:
        yield server
        assert server.stop() == 0


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test uses."""
    return f"n{next(_numbers)}"


@pytest.fixture(params=["memory", "leveldb", "rest"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match request.param:
        case "memory":
            return "memory:"
        case "leveldb":
            return f"leveldb:{tmp_path / 'data'}"
        case _:
            server: ServerProcess = request.getfixturevalue("server")
            return server.url


@pytest.fixture
def client(url: str, namespace: str) -> Iterator[tms.Client]:
    with tms.connect(url, namespace) as client:
        yield client


@pytest.fixture
def topic(client: tms.Client) -> tms.Topic:
    topic = client.topic("orders")
    topic.create()
    return topic


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
