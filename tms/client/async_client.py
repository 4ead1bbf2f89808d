"""A client for asyncio, on a server's REST interface or on a service in this process."""

import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

from tenacity import AsyncRetrying

from tms.client.access import Certificate, access_of
from tms.client.addresses import is_of_servers
from tms.client.async_topic import AsyncTopic
from tms.client.async_transaction import AsyncTransactionContext
from tms.client.credentials import Auth
from tms.client.embedded import open_embedded
from tms.client.given_messages import GivenMessages, bodies
from tms.client.participants import Invoke, TransactionAware, invoke_in_loop
from tms.client.remote_services import RemoteServices
from tms.client.retry import reruns
from tms.client.stops import Stops
from tms.client.topic_values import ClientRecords
from tms.core.credentials import without_credentials
from tms.core.durations import Duration, seconds_of, whole_seconds_of
from tms.core.event_loops import OwnLoop
from tms.core.messaging import AllPublished
from tms.core.namespaces import AsyncNamespaces
from tms.core.ranges import TopicRange
from tms.core.schemas import AsyncSchemas
from tms.core.services import Services
from tms.core.store_access import StoreAccess
from tms.core.store_url import is_in_process, written
from tms.core.topic import TopicId, check_namespace
from tms.core.transaction import TransactionType
from tms.core.transactions import AsyncTransactions, IfOpen, StartRequest

TIMEOUT_S = 30.0
RETRY_FOR_S = 30.0
COMMIT_S_MIN = 2.0
"""How long a commit is tried if nothing else is repeated: giving up means not to know."""

IfOpenName = IfOpen | Literal["refuse", "fence", "join"]

Result = TypeVar("Result")

_HOST = socket.gethostname()
"""With the process it tells those who look after the server whose a transaction is."""


class AsyncClient:
    """The topics of one namespace. Made by `tms.aio.connect`; closes as a context manager.

    Any number of tasks may use it at once, in the event loop it was made in.
    """

    def __init__(
        self, services: Services, namespace: str, url: str, *, commit_for_s: Duration
    ) -> None:
        """Stand on `services`, which `url` named, and close them in the end.

        If a commit has no answer, the client asks for its outcome for `commit_for_s`.
        """
        self._url = without_credentials(url)
        self._services = services
        self._namespace = check_namespace(namespace)
        self._commit_for_s = max(seconds_of(commit_for_s), COMMIT_S_MIN)
        self._closed = False
        self._records = ClientRecords(services)
        self._stops = Stops(services)

    def __repr__(self) -> str:
        """Return the class, the URL without credentials and the namespace."""
        return f"{type(self).__name__}({self._url}, namespace={self._namespace})"

    @property
    def namespace(self) -> str:
        """The namespace of the client's topics."""
        return self._namespace

    @property
    def transactions(self) -> AsyncTransactions:
        """All transactions of the server or store, for those who look after it."""
        return self._services.transactions

    @property
    def stops(self) -> Stops:
        """The transactions at which readers of this client stand still: when that is logged."""
        return self._stops

    @property
    def namespaces(self) -> AsyncNamespaces:
        """All namespaces of the server or store, for those who look after it."""
        return self._services.namespaces

    @property
    def registry(self) -> AsyncSchemas:
        """The schema registry of the server or store."""
        return self._services.schemas

    def topic(self, name: str) -> AsyncTopic:
        """Return the topic `name`, which exists or not; nothing is sent.

        Raises `InvalidRequest` (invalid_topic_name).
        """
        topic_id = TopicId(self._namespace, name)
        return AsyncTopic(
            topic_id, self._services, self._records, self._stops, lambda: self._closed
        )

    async def topics(self) -> list[str]:
        """Return the names of the namespace's topics, as `tms.Client.topics`."""
        return await self._services.messaging.topics(self._namespace)

    async def ranges(
        self, topics: Iterable[str], *, committed: bool = True
    ) -> dict[str, TopicRange | None]:
        """Return where topics begin and stably end, as `tms.Client.ranges`."""
        topic_ids = [TopicId(self._namespace, name) for name in topics]
        found = (await self._services.ranges.ranges(topic_ids, committed=committed)).topics
        return {topic_id.name: one for topic_id, one in found.items()}

    async def publish_all(
        self,
        publications: Mapping[str, GivenMessages],
        *,
        owner: str | None = None,
        sequence: int | None = None,
    ) -> AllPublished:
        """Publish to several topics at once, as `tms.Client.publish_all`."""
        by_topic = {
            TopicId(self._namespace, name): bodies(messages)
            for name, messages in publications.items()
        }
        return await self._services.messaging.publish_all(by_topic, owner=owner, sequence=sequence)

    def transaction(
        self,
        *,
        timeout_s: Duration | None = None,
        long: bool = False,
        owner: str | None = None,
        sequence: int | None = None,
        origin: str | None = None,
        if_open: IfOpenName = IfOpen.REFUSE,
        participants: Iterable[TransactionAware] = (),
    ) -> AsyncTransactionContext:
        """Return a transaction for `async with`, as `tms.Client.transaction`."""
        return self.transaction_with(
            invoke_in_loop,
            timeout_s=timeout_s,
            long=long,
            owner=owner,
            sequence=sequence,
            origin=origin,
            if_open=if_open,
            participants=participants,
        )

    def transaction_with(
        self,
        invoke: Invoke,
        *,
        timeout_s: Duration | None,
        long: bool,
        owner: str | None,
        sequence: int | None,
        origin: str | None,
        if_open: IfOpenName,
        participants: Iterable[TransactionAware],
    ) -> AsyncTransactionContext:
        """Return the same, whose participants are called through `invoke`."""
        request = StartRequest(
            type=TransactionType.LONG if long else TransactionType.SHORT,
            timeout_s=None if timeout_s is None else whole_seconds_of(timeout_s),
            client=f"{_HOST}:{os.getpid()}",
            owner=owner,
            sequence=sequence,
            origin=origin,
            if_open=IfOpen(if_open),
        )
        return AsyncTransactionContext(
            self._services,
            request,
            participants,
            commit_for_s=self._commit_for_s,
            invoke=invoke,
        )

    async def run_in_transaction(
        self,
        function: Callable[[AsyncTransactionContext], Awaitable[Result]],
        *,
        retries: int = 3,
        timeout_s: Duration | None = None,
        participants: Iterable[TransactionAware] = (),
    ) -> Result:
        """Run a coroutine function in a transaction, as `tms.Client.run_in_transaction`."""
        taking_part = tuple(participants)

        async def run() -> Result:
            async with self.transaction(timeout_s=timeout_s, participants=taking_part) as tx:
                return await function(tx)

        return await AsyncRetrying(**reruns(retries))(run)

    async def close(self) -> None:
        """Close the connections, or the embedded store. Closing twice is the same as once."""
        if not self._closed:
            self._closed = True
            await self._stops.close()
            await self._services.close()

    async def __aenter__(self) -> Self:
        """Return the client itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the client."""
        await self.close()


def connect_remote(
    url: str,
    namespace: str,
    *,
    timeout_s: Duration,
    retry_for_s: Duration,
    compress: bool,
    auth: Auth | None = None,
    ca: str | Path | None = None,
    certificate: Certificate | None = None,
    allow_plaintext: bool = False,
) -> AsyncClient | None:
    """Return a client of the server at `url`, None where that names a store in this process.

    Needs no event loop yet. Raises as `tms.connect`.
    """
    check_namespace(namespace)
    if is_in_process(url):
        return None
    if not is_of_servers(url):
        raise ValueError(
            f"cannot connect to {without_credentials(url)!r}: give http://HOST:PORT of a server, "
            f"or {written(shared=False)} for a store in this process"
        )
    access = access_of(
        url, auth=auth, ca=ca, certificate=certificate, allow_plaintext=allow_plaintext
    )
    services = RemoteServices(
        url, timeout_s=timeout_s, retry_for_s=retry_for_s, compress=compress, access=access
    )
    return AsyncClient(services, namespace, url, commit_for_s=retry_for_s)


async def connect_embedded(
    url: str,
    namespace: str,
    *,
    retry_for_s: Duration,
    access: StoreAccess = StoreAccess.CREATE,
    loop: OwnLoop | None = None,
) -> AsyncClient:
    """Return a client of a store opened in this process. Raises as `open_embedded`."""
    check_namespace(namespace)
    services = await open_embedded(url, access, loop)
    return AsyncClient(services, namespace, url, commit_for_s=retry_for_s)


async def connect(
    url: str,
    namespace: str = "default",
    *,
    timeout_s: Duration = TIMEOUT_S,
    retry_for_s: Duration = RETRY_FOR_S,
    compress: bool = False,
    auth: Auth | None = None,
    ca: str | Path | None = None,
    certificate: Certificate | None = None,
    allow_plaintext: bool = False,
) -> AsyncClient:
    """Return a client for asyncio; the arguments and errors are those of `tms.connect`.

    Use it in one event loop, and close it there; in another one it raises `RuntimeError`. A program
    that ends without closing it ends all the same, and nothing acknowledged is lost; calls that are
    under way are not waited for. In a child of `os.fork()` a client of a server works anew, in an
    event loop of the child's own; one on a store in this process raises `RuntimeError`.
    """
    client = connect_remote(
        url,
        namespace,
        timeout_s=timeout_s,
        retry_for_s=retry_for_s,
        compress=compress,
        auth=auth,
        ca=ca,
        certificate=certificate,
        allow_plaintext=allow_plaintext,
    )
    if client is not None:
        return client
    return await connect_embedded(url, namespace, retry_for_s=retry_for_s, loop=OwnLoop())
