"""Fixtures of the registry's tests: a store in memory, and registries on it."""

from collections.abc import AsyncIterator

import pytest

from tests.registry.registries import Registries, opened


@pytest.fixture
async def registries() -> AsyncIterator[Registries]:
    """Registries on one log, created on request."""
    async with opened() as made:
        yield made
