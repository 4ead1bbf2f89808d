"""A registry that is served."""

from collections.abc import AsyncIterator

import pytest

from tests.api.registry.live import Api, served


@pytest.fixture
async def api(anyio_backend: object) -> AsyncIterator[Api]:
    """A registry without schemas."""
    async with served() as opened:
        yield opened
