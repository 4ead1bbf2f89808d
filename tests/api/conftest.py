"""Fixtures of REST's tests: an application in the process, and one behind a socket."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.api.rest import Live, Rest, live


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The loop that the server runs in."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
async def rest(anyio_backend: object) -> AsyncIterator[Rest]:
    """An application with the default limits and no topics."""
    async with live() as opened_rest:
        yield opened_rest


@pytest.fixture
async def served(anyio_backend: object) -> AsyncIterator[Live]:
    """The same, served on 127.0.0.1."""
    async with live() as live_rest:
        yield live_rest


@pytest.fixture
async def own(anyio_backend: object) -> AsyncIterator[Rest]:
    """The same as `rest`, with transactions of the server's own."""
    async with live(own=True) as opened_rest:
        yield opened_rest
