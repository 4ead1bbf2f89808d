"""The services of an application without any: another server has them, or no server."""

from collections.abc import Sequence
from typing import Never

from tms.core.errors import NoLeader
from tms.core.services.findings import Finding
from tms.core.values.lags import ReaderLag


def not_ready() -> None:
    """Raise `NoLeader`: a server without services accepts nothing."""
    raise NoLeader


class NoServices:
    """Implements `ServerServices`: each access to a service raises an error that says so."""

    messaging: Never
    transactions: Never
    subscriptions: Never
    ranges: Never
    namespaces: Never
    schemas: Never
    inspection = cleanup = None

    def __getattr__(self, name: str) -> Never:
        """Raise `NoLeader`: the service is not here."""
        if name in NoServices.__annotations__:
            raise NoLeader(reason=f"this server has no {name}")
        raise AttributeError(name)

    def in_shard(self, shard: int) -> Never:
        """Raise `NoLeader`: no shard is here."""
        raise NoLeader(shard=shard)

    async def refresh_lags(self) -> None:
        """Do nothing: there are no readers here."""

    def lags(self) -> list[ReaderLag]:
        """Return nothing: there are no readers here."""
        return []

    async def room(self) -> None:
        """Return nothing: there is no store."""

    async def refresh_metrics(self) -> None:
        """Do nothing: there is nothing to measure."""

    def warnings(self) -> list[str]:
        """Return nothing: nothing fills up here."""
        return []

    def findings(self) -> list[Finding]:
        """Return nothing: no shard is here."""
        return []

    def present(self) -> "tuple[NoServices, Sequence[int]]":
        """Return this, and no shard."""
        return self, ()

    async def close(self) -> None:
        """Do nothing: nothing is open."""
