"""Hosts whose sessions tests can end: in memory, and journalled; and real servers."""

import pytest

from tables.coordination_rows import CoordinationRows
from tables.memory import MemoryStore
from tests.metadata.servers import remote, sessions_at
from tests.virtual_loop import VIRTUAL
from tms.metadata.host import MetadataHost, open_host
from tms.metadata.journal import MetadataJournal

__all__ = ["remote", "sessions_at"]


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


@pytest.fixture(params=["memory", "local"])
async def host(request: pytest.FixtureRequest) -> MetadataHost:
    if request.param == "memory":
        return MetadataHost()
    return await open_host(MetadataJournal(CoordinationRows(MemoryStore())))
