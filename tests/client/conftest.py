"""The real service three ways: in this process in memory and on LevelDB, and a server over REST.

Tests that depend on the place of topics and transactions also run on a server of three shards
(`ON_SHARDS`). Others do not: readers that wait at a transaction, and programs that end, are about
time and processes; values, frames, names in bodies and event loops have nothing to do with shards;
cancelled calls, lost answers, proxies and followers over a restart have their own servers and
stores.
"""

import itertools
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import tms
from tests.servers.server_process import ServerProcess
from tms.core.values.shards import ShardBy

_numbers = itertools.count()

WHOLE = ["memory", "leveldb", "server"]
ON_SHARDS = {
    "test_async_topic",
    "test_async_transaction",
    "test_client",
    "test_conditional_publish",
    "test_group_commits",
    "test_groups",
    "test_namespaces",
    "test_ranges",
    "test_schemas",
    "test_subscription",
    "test_topic",
    "test_topics_of_the_service",
    "test_transaction_context",
    "test_transactions",
    "test_trim",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that depend on the place of topics and transactions on three shards, too."""
    is_given = any(
        mark.args[0] == "store_kind" for mark in metafunc.definition.iter_markers("parametrize")
    )
    if "store_kind" in metafunc.fixturenames and not is_given:
        name = metafunc.module.__name__.rpartition(".")[2]
        metafunc.parametrize("store_kind", [*WHOLE, *(["shards"] if name in ON_SHARDS else [])])


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("memory:", "--cache-bytes-max", "100000") as server:
        yield server
        assert server.stop() == 0


@pytest.fixture(scope="session")
def shards() -> Iterator[ServerProcess]:
    with ServerProcess(
        "memory:", "--cache-bytes-max", "100000", shard_by=ShardBy.NAMESPACE
    ) as server:
        yield server
        assert server.stop() == 0


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test uses."""
    return f"n{next(_numbers)}"


@pytest.fixture
def url(store_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match store_kind:
        case "memory":
            return "memory:"
        case "leveldb":
            return f"leveldb:{tmp_path / 'data'}"
        case _:
            server: ServerProcess = request.getfixturevalue(store_kind)
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
def free_port() -> Iterator[int]:
    """Return a port at which nobody listens, and that no other caller gets."""
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
