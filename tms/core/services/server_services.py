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
    """The services that each store has, be it a shard."""

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
    """All that a client stands on."""

    @property
    def namespaces(self) -> AsyncNamespaces:
        """Namespaces and their settings."""
        ...

    @property
    def schemas(self) -> AsyncSchemas:
        """The schema registry."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, refuse what comes after, and give up what is held."""
        ...


class ServerServices(Services, Protocol):
    """The same in the process, as REST needs it."""

    @property
    def messaging(self) -> MessagingService:
        """Topics and messages."""
        ...

    def in_shard(self, shard: int) -> "ServerServices":
        """Return the services of one shard alone, those that a server has once included.

        A store that is not sharded is the shard 0. Raises `InvalidRequest` (invalid_query).
        """
        ...

    async def refresh_lags(self) -> None:
        """Look how far readers are behind; a bounded time."""
        ...

    def lags(self) -> Sequence[ReaderLag]:
        """Return how far readers are behind, as they were last looked at."""
        ...

    async def room(self) -> Room | None:
        """Look how much of its disk the store takes; None if it is not in a folder."""
        ...

    async def refresh_metrics(self) -> None:
        """See to it that metrics that have to be looked for are up to date; a bounded time."""
        ...

    def warnings(self) -> list[str]:
        """Return what should be done something about soon, in words; always in the same time."""
        ...

    def findings(self) -> Sequence[Finding]:
        """Return which shards are away or take no writes now; always in the same time."""
        ...

    def present(self) -> "tuple[ServerServices, Sequence[int]]":
        """Return the services whose lists and sums leave out the shards that are away, and these.

        No others are away: a shard that goes meanwhile raises `NoLeader`.
        """
        ...

    @property
    def inspection(self) -> PartwiseInspection | None:
        """A look into the tables; None where there is none."""
        ...

    @property
    def cleanup(self) -> Cleanup | None:
        """Cleanup; None where the server has none."""
        ...
