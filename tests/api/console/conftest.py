"""Fixtures of the console's tests: a server with the console, without or with access control."""

from collections.abc import AsyncIterator

import pytest

from tests.api.console.site import Site, site
from tests.api.console.watched import Watched, watched
from tests.api.doors import Doors


@pytest.fixture
async def open_site(anyio_backend: object) -> AsyncIterator[Site]:
    """A server without access control."""
    async with site() as opened:
        yield opened


@pytest.fixture
async def guarded_site(anyio_backend: object) -> AsyncIterator[Site]:
    """A server with access control, at which nobody is signed in."""
    doors = Doors()
    await doors.open()
    async with site(doors) as opened:
        yield opened


@pytest.fixture
async def server(anyio_backend: object) -> AsyncIterator[Watched]:
    """A server without access control, with a topic and a clock that tests move."""
    async with watched() as opened:
        yield opened


@pytest.fixture
async def guarded(anyio_backend: object) -> AsyncIterator[tuple[Watched, Doors]]:
    """The same with access control."""
    doors = Doors()
    await doors.open()
    async with watched(doors) as opened:
        yield opened, doors
