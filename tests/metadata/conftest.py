"""Real servers, for all tests of this folder."""

import pytest

from tests.metadata.servers import remote, sessions_at

__all__ = ["remote", "sessions_at"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
