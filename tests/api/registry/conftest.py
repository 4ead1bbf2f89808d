"""A registry that is served."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api.registry.live import Api, served
from tests.api.registry.secured_registry import Secured, secured_registry


@pytest.fixture
async def api(anyio_backend: object) -> AsyncIterator[Api]:
    """A registry without schemas."""
    async with served() as opened:
        yield opened


@pytest.fixture
async def secured(anyio_backend: object, tmp_path: Path) -> AsyncIterator[Secured]:
    """A registry with subjects a, b and ctx:c, whose schemas have the ids 1, 2 and (in .ctx) 1."""
    async with secured_registry(tmp_path) as served_one:
        yield served_one
