"""A follower, and the loop that it runs in."""

import pytest

from tests.api.cluster.standing_by import leader, second

__all__ = ["leader", "second"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
