"""Fixtures of REST's tests: an application in the process, and one behind a socket."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.api.rest import Live, Rest, live
from tms.core.values.shards import ShardBy

ON_SHARDS = {
    "test_messages",
    "test_poll_transactions",
    "test_publish_all",
    "test_ranges",
    "test_stored_commits",
    "test_subscriptions",
    "test_topics",
    "test_transaction_admin",
    "test_transactions",
}
"""The suites that also run on a store of three shards."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The loop that the server runs in."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def shard_by(request: pytest.FixtureRequest) -> ShardBy | None:
    """The rule of a store of three shards, None for a whole store."""
    by: ShardBy | None = getattr(request, "param", None)
    return by


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that depend on the place of topics and transactions on three shards, too."""
    name = metafunc.module.__name__.rpartition(".")[2]
    if "shard_by" in metafunc.fixturenames and name in ON_SHARDS:
        rules = [None, ShardBy.NAMESPACE]
        metafunc.parametrize("shard_by", rules, ids=["whole", "shards"], indirect=True)


@pytest.fixture
async def rest(anyio_backend: object, shard_by: ShardBy | None) -> AsyncIterator[Rest]:
    """An application with the default limits and no topics."""
    async with live(shard_by=shard_by) as opened_rest:
        yield opened_rest


@pytest.fixture
async def served(anyio_backend: object) -> AsyncIterator[Live]:
    """The same, served on 127.0.0.1."""
    async with live() as live_rest:
        yield live_rest


@pytest.fixture
async def own(anyio_backend: object, shard_by: ShardBy | None) -> AsyncIterator[Rest]:
    """The same as `rest`, with transactions of the server's own."""
    async with live(own=True, shard_by=shard_by) as opened_rest:
        yield opened_rest
