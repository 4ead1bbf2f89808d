"""Real metadata servers for tests that need them; a world of servers that is closed at the end."""

from collections.abc import AsyncIterator

import pytest

from tests.cluster.world import World
from tests.metadata.servers import remote, sessions_at
from tests.virtual_loop import VIRTUAL

__all__ = ["remote", "sessions_at"]


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


@pytest.fixture
async def world(anyio_backend: object) -> AsyncIterator[World]:
    world = World()
    yield world
    await world.close()
