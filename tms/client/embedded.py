"""A client's access to a store in this process, but never in a child of `os.fork()`.

The child has a copy of the store's memory without its threads, and the same files: a call there
would hang, or write without the parent's knowledge. So it raises at once.
"""

import os

from tms.core.runtime import extras
from tms.core.runtime.event_loops import OwnLoop
from tms.core.runtime.forks import tell_in_child
from tms.core.services.messaging import Messaging
from tms.core.services.schemas import AsyncSchemas
from tms.core.services.server_services import Services
from tms.core.services.transactions import AsyncTransactions
from tms.core.values.groups import Groups
from tms.core.values.namespaces import AsyncNamespaces
from tms.core.values.ranges import Ranges
from tms.core.values.schedules import Schedules
from tms.core.values.store_access import StoreAccess
from tms.core.values.subscriptions import Subscriptions

REFUSAL_IN_CHILD = (
    "the store was opened before os.fork() and belongs to the parent process: "
    "in the child, connect to a server (http://HOST:PORT); or open the store after the fork"
)


class EmbeddedServices:
    """Services that belong to the process that opened them (`server_services.Services`).

    Each property raises `RuntimeError` in another process or another event loop than `loop`.
    """

    def __init__(self, services: Services, loop: OwnLoop | None = None) -> None:
        """Wrap `services`, opened in this process."""
        self._opened = services
        self._pid = os.getpid()
        self._loop = loop
        tell_in_child(self)

    def forget_parent(self) -> Services:
        """Give up the services, whose tasks run in the parent's loop."""
        return self._opened

    @property
    def _services(self) -> Services:
        if os.getpid() != self._pid:
            raise RuntimeError(REFUSAL_IN_CHILD)
        if self._loop is not None:
            self._loop.check()
        return self._opened

    @property
    def messaging(self) -> Messaging:
        """Topics and messages."""
        return self._services.messaging

    @property
    def transactions(self) -> AsyncTransactions:
        """Transactions."""
        return self._services.transactions

    @property
    def subscriptions(self) -> Subscriptions:
        """Positions of consumers."""
        return self._services.subscriptions

    @property
    def groups(self) -> Groups:
        """Groups of consumers."""
        return self._services.groups

    @property
    def schedules(self) -> Schedules:
        """Messages that are published later."""
        return self._services.schedules

    @property
    def ranges(self) -> Ranges:
        """The readable ranges of topics, in parts."""
        return self._services.ranges

    @property
    def namespaces(self) -> AsyncNamespaces:
        """Namespaces and their settings."""
        return self._services.namespaces

    @property
    def schemas(self) -> AsyncSchemas:
        """The schema registry."""
        return self._services.schemas

    async def close(self) -> None:
        """Close the store; does nothing in another process."""
        if os.getpid() == self._pid:
            await self._opened.close()


async def open_embedded(
    store_url: str, access: StoreAccess = StoreAccess.CREATE, loop: OwnLoop | None = None
) -> EmbeddedServices:
    """Open the store at `store_url`, for use in the event loop `loop` if that is set.

    Raises as `tms.connect`, and `StoreNotFound`.
    """
    try:
        from tms.server.node import open_embedded as opened  # noqa: PLC0415  only when asked for
    except ModuleNotFoundError as error:
        what = "a store in this process needs the server's packages"
        raise extras.missing(what, error, "server") from error
    return EmbeddedServices(await opened(store_url, access), loop)
