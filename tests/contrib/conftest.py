"""A server for other frameworks."""

from collections.abc import Iterator

import pytest

from tests.servers.server_process import ServerProcess


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ServerProcess("memory:") as server:
        yield server.url
        assert server.stop() == 0
