"""The services of a server, or of a store in the process."""

from collections.abc import Sequence
from typing import Protocol

from tms.core.services.findings import Finding
from tms.core.services.messaging import Messaging, MessagingService
from tms.core.services.schemas import AsyncSchemas
from tms.core.services.transactions import AsyncTransactions
from tms.core.values.cleanup import Cleanup
from tms.core.values.groups import Groups
from tms.core.values.inspection import PartwiseInspection
from tms.core.values.lags import ReaderLag
from tms.core.values.namespaces import AsyncNamespaces
from tms.core.values.ranges import Ranges
from tms.core.values.room import Room
from tms.core.values.schedules import Schedules
from tms.core.values.subscriptions import Subscriptions


class StoreServices(Protocol):
    """The services of a store or of one of its shards."""

    @property
    def messaging(self) -> Messaging:
        """Topics and messages."""
        ...

    @property
    def transactions(self) -> AsyncTransactions:
        """Transactions."""
        ...

    @property
    def subscriptions(self) -> Subscriptions:
        """Positions of consumers."""
        ...

    @property
    def groups(self) -> Groups:
        """Groups of consumers that share a topic's messages."""
        ...

    @property
    def schedules(self) -> Schedules:
        """Messages that are published later."""
        ...

    @property
    def ranges(self) -> Ranges:
        """The readable ranges of topics, in parts."""
        ...


class Services(StoreServices, Protocol):
    """The services that a client uses."""

    @property
    def namespaces(self) -> AsyncNamespaces:
        """Namespaces and their settings."""
        ...

    @property
    def schemas(self) -> AsyncSchemas:
        """The schema registry."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, refuse everything after, and release all resources."""
        ...


class ServerServices(Services, Protocol):
    """The services in the process, as REST needs them."""

    @property
    def messaging(self) -> MessagingService:
        """Topics and messages."""
        ...

    def in_shard(self, shard: int) -> "ServerServices":
        """Return the services of one shard only, including those that a server has once.

        A store that is not sharded is shard 0. Raises `InvalidRequest` (invalid_query).
        """
        ...

    async def refresh_lags(self) -> None:
        """Update how far readers are behind, in bounded time."""
        ...

    def lags(self) -> Sequence[ReaderLag]:
        """Return how far readers were behind at the last update."""
        ...

    async def room(self) -> Room | None:
        """Return how much of its disk the store uses; None if it is not in a folder."""
        ...

    async def refresh_metrics(self) -> None:
        """Update the metrics that must be collected first, in bounded time."""
        ...

    def warnings(self) -> list[str]:
        """Return in words what needs attention soon, in bounded time."""
        ...

    def findings(self) -> Sequence[Finding]:
        """Return findings about shards that are away or refuse writes, in bounded time."""
        ...

    def present(self) -> "tuple[ServerServices, Sequence[int]]":
        """Return services whose lists and sums leave out shards that are away, and those shards.

        A shard that loses its leader afterwards raises `NoLeader`.
        """
        ...

    @property
    def inspection(self) -> PartwiseInspection | None:
        """Inspects tables; None if that is not possible."""
        ...

    @property
    def cleanup(self) -> Cleanup | None:
        """Cleanup; None if the server has none."""
        ...
