"""A server, and a program to kill, which joins a database to the server's transactions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import tms
from tests.servers.server_process import ServerProcess


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("memory:") as server:
        yield server
        assert server.stop() == 0


@pytest.fixture
def namespace(tmp_path: Path) -> str:
    """A namespace that no other test uses."""
    return "p" + "".join(char for char in tmp_path.name if char.isalnum())


@pytest.fixture
def client(server: ServerProcess, namespace: str) -> Iterator[tms.Client]:
    with tms.connect(server.url, namespace) as client:
        client.topic("orders").create()
        yield client
