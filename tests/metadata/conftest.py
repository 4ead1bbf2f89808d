"""Real servers, for all tests of this folder."""

from tests.metadata.servers import remote, sessions_at

__all__ = ["remote", "sessions_at"]
