"""A client for asyncio, for a server's REST interface or a store in this process."""

import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar
from weakref import WeakSet

from tenacity import AsyncRetrying

from tms.client.embedded import open_embedded
from tms.client.groups.async_group_message import AsyncGroupMessage, acknowledging
from tms.client.groups.client_parts import ClientParts
from tms.client.groups.held_messages import HeldMessages
from tms.client.groups.taking import Takers
from tms.client.reading.given_messages import GivenMessages, bodies
from tms.client.reading.half_read import Readers
from tms.client.reading.stops import Stops
from tms.client.reading.topic_values import ClientRecords
from tms.client.remote.access import Certificate, access_of
from tms.client.remote.addresses import is_of_servers
from tms.client.remote.credentials import Auth
from tms.client.remote.remote_services import RemoteServices
from tms.client.remote.retry import reruns
from tms.client.topics.async_topic import AsyncTopic
from tms.client.transactions.async_transaction import AsyncTransactionContext
from tms.client.transactions.participants import TransactionAware
from tms.core.runtime.deadlines import deadline
from tms.core.runtime.event_loops import OwnLoop
from tms.core.services.messaging import AllPublished
from tms.core.services.schemas import AsyncSchemas
from tms.core.services.server_services import Services
from tms.core.services.transactions import AsyncTransactions, IfOpen, StartRequest
from tms.core.text.credentials import without_credentials
from tms.core.text.durations import Duration, seconds_of, whole_seconds_of
from tms.core.text.store_url import is_in_process, written
from tms.core.values.namespaces import AsyncNamespaces
from tms.core.values.ranges import TopicRange
from tms.core.values.reading import isolation_of
from tms.core.values.store_access import StoreAccess
from tms.core.values.topic import TopicId, check_namespace, topic_id_of
from tms.core.values.transaction import TransactionType

TIMEOUT_S = 30.0
RETRY_FOR_S = 30.0
COMMIT_S_MIN = 2.0
"""How long a commit is tried even if nothing is repeated: giving up leaves it in doubt."""

IfOpenName = IfOpen | Literal["refuse", "fence", "join"]

Result = TypeVar("Result")

_HOST = socket.gethostname()
"""With the process id, it shows operators of the server which client has a transaction."""


class AsyncClient:
    """The topics of one namespace. Made by `tms.aio.connect`; closes as a context manager.

    Any number of tasks may use it at once, in the event loop in which it was made.
    """

    def __init__(
        self, services: Services, namespace: str, url: str, *, commit_for_s: Duration
    ) -> None:
        """Use `services`, which `url` named, and close them at the end.

        If a commit has no answer, the client asks for its outcome, for up to `commit_for_s`.
        """
        self._url = without_credentials(url)
        self._services = services
        self._namespace = check_namespace(namespace)
        self._commit_for_s = max(seconds_of(commit_for_s), COMMIT_S_MIN)
        self._closed = False
        self._stops = Stops(services)
        members: WeakSet[HeldMessages] = WeakSet()
        self._parts = ClientParts(
            services,
            ClientRecords(services),
            self._stops,
            lambda: self._closed,
            self.transaction,
            members,
            Takers(services, members, lambda: self._closed),
            Readers(),
        )

    def __repr__(self) -> str:
        """Return the class, the URL without credentials and the namespace."""
        return f"{type(self).__name__}({self._url}, namespace={self._namespace})"

    @property
    def namespace(self) -> str:
        """The namespace of the client's topics."""
        return self._namespace

    @property
    def transactions(self) -> AsyncTransactions:
        """All transactions of the server or store, for operators."""
        return self._services.transactions

    @property
    def stops(self) -> Stops:
        """Logs when readers wait at a transaction."""
        return self._stops

    @property
    def namespaces(self) -> AsyncNamespaces:
        """All namespaces of the server or store, for operators."""
        return self._services.namespaces

    @property
    def registry(self) -> AsyncSchemas:
        """The schema registry of the server or store."""
        return self._services.schemas

    def topic(self, name: str) -> AsyncTopic:
        """Return the topic `name`, whether it exists or not; nothing is sent.

        `NAMESPACE:NAME` is a topic of another namespace. Raises `InvalidRequest`
        (invalid_topic_name, invalid_namespace_name).
        """
        return AsyncTopic(topic_id_of(name, self._namespace), self._parts)

    async def topics(self) -> list[str]:
        """Return the names of the namespace's topics.

        Repeated while the server is unavailable. Raises `Unavailable`, `InternalError`.
        """
        return await self._services.messaging.topics(self._namespace)

    async def ranges(
        self, topics: Iterable[str], *, committed: bool = True
    ) -> dict[str, TopicRange | None]:
        """Return the range of each topic, as `Topic.range`; None for a topic that does not exist.

        In one request. Raises `TooLarge` (too_many_topics), `InvalidRequest` (invalid_topic_name).
        """
        topic_ids = [TopicId(self._namespace, name) for name in topics]
        isolation = isolation_of(committed=committed)
        by_topic = (await self._services.ranges.ranges(topic_ids, isolation)).topics
        return {topic_id.name: one for topic_id, one in by_topic.items()}

    async def publish_all(
        self,
        publications: Mapping[str, GivenMessages],
        *,
        acks: Iterable[AsyncGroupMessage] = (),
        owner: str | None = None,
        sequence: int | None = None,
        timeout_s: Duration | None = None,
    ) -> AllPublished:
        """Publish messages to several topics by name: readers see all of them or none.

        One request begins and commits a transaction. With an owner and a sequence (`transaction`)
        it is repeated while the server is unavailable, and still done once: `is_duplicate` of the
        answer says whether it was done before. Without them, `OutcomeUnknown` is raised if the
        connection broke after it was sent. `timeout_s` is as in `AsyncTopic.publish`. Raises as
        that method, `OwnerBusy`, and `InvalidRequest` (invalid_owner).

        `acks` are messages of groups that are acknowledged if and only if the others are published.
        Raises `AckRefused`, `LeaseLost` if one of them has been lost; all are then held as before.
        """
        by_topic = {
            TopicId(self._namespace, name): bodies(messages)
            for name, messages in publications.items()
        }
        messaging = self._services.messaging
        with acknowledging(acks) as request, deadline(timeout_s):
            return await messaging.publish_all(
                by_topic, owner=owner, sequence=sequence, request=request
            )

    def transaction(
        self,
        *,
        timeout_s: Duration | None = None,
        long: bool = False,
        owner: str | None = None,
        sequence: int | None = None,
        origin: str | None = None,
        if_open: IfOpenName = IfOpen.REFUSE,
        home: str | None = None,
        participants: Iterable[TransactionAware] = (),
    ) -> AsyncTransactionContext:
        """Return a transaction for one `async with`: it commits, or rolls back, as a whole.

            async with client.transaction() as tx:
                await topic.publish(b"…", tx)

        After `timeout_s`, in seconds or as `"5m"`, it becomes invalid; None means the server's
        default. A `long` one becomes invalid after a day. `participants` are committed and rolled
        back with it.

        `owner` names the producer or job, `sequence` numbers its work, ascending, from 0 to
        `2**53 - 1`: a sequence is committed once, so you may repeat work whose outcome is in doubt.
        If runs of the owner number their work from the start, name each by an `origin`: the old
        sequence of another run is then an `OwnerElsewhere`, not a `TransactionDuplicate`. `if_open`
        decides about an older transaction of the owner that is still open: "refuse" leaves it,
        "fence" makes it invalid, which suits a restarted producer, and "join" continues it, with
        all that was published in it, if it has the same sequence.

        `home` is a topic of the client that the transaction will use: if the store has shards by
        topic, the transaction can use only topics in the same shard as `home`; others raise
        `OtherShard`. The shard remembers the sequence, so name the same topic each time. Raises
        `InvalidRequest` (invalid_topic_name).
        """
        at = None if home is None else topic_id_of(home, self._namespace)
        request = StartRequest(
            type=TransactionType.LONG if long else TransactionType.SHORT,
            timeout_s=None if timeout_s is None else whole_seconds_of(timeout_s),
            client=f"{_HOST}:{os.getpid()}",
            owner=owner,
            sequence=sequence,
            origin=origin,
            if_open=IfOpen(if_open),
            namespace=self._namespace if at is None else at.namespace,
            topic=None if at is None else at.name,
        )
        return AsyncTransactionContext(
            self._services, request, participants, commit_for_s=self._commit_for_s
        )

    async def run_in_transaction(
        self,
        function: Callable[[AsyncTransactionContext], Awaitable[Result]],
        *,
        retries: int = 3,
        timeout_s: Duration | None = None,
        home: str | None = None,
        participants: Iterable[TransactionAware] = (),
    ) -> Result:
        """Call `function` with a transaction, commit that, and return the function's result.

        If the transaction conflicts with another (`TransactionConflict`, `SubscriptionMoved`), the
        function is called again in a new one, at most `retries` times, after a short pause. So it
        should do nothing that a rollback does not undo. `home` is as in `transaction`. Raises the
        errors of `function` and of a commit.
        """
        taking_part = tuple(participants)

        async def run() -> Result:
            begun = self.transaction(timeout_s=timeout_s, home=home, participants=taking_part)
            async with begun as tx:
                return await function(tx)

        return await AsyncRetrying(**reruns(retries))(run)

    async def close(self) -> None:
        """Close the connections, or the embedded store. Closing twice is harmless.

        It first gives back unsettled messages of groups.
        """
        if not self._closed:
            self._closed = True
            try:
                await self._parts.readers.close()
                for member in tuple(self._parts.members):
                    await member.close(leave=True)
            finally:
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
    direct: bool = False,
) -> AsyncClient | None:
    """Return a client of the server at `url`; None if that names a store in this process.

    It needs no event loop yet. Raises as `tms.connect`.
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
        url,
        timeout_s=timeout_s,
        retry_for_s=retry_for_s,
        compress=compress,
        access=access,
        direct=direct,
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
    direct: bool = False,
) -> AsyncClient:
    """Return a client for the topics of `namespace`.

    `url` names a server, `http://HOST:PORT` or `https://…`; or several servers of a cluster,
    `http://A:PORT,B:PORT`, which are tried in turn if one is unavailable; or a store in this
    process, `leveldb:DIR` or `memory:`, which needs the package's `server` extra. For a server,
    `timeout_s` is how long an answer may take, and `retry_for_s` how long a call that is safe to
    repeat is repeated while the server is unavailable or busy (0 disables that), both in seconds or
    as `"2m"`; `compress` sends and accepts bodies as gzip. No connection to a server is made yet.

    `auth` has the credentials for a server: a token; `(user, password)`; a `pathlib.Path` of a file
    with a token; or a function that returns a token, which may be asynchronous. The file or
    function is read again if a server refuses the token. The default is the environment's
    TMS_TOKEN, else the file that TMS_TOKEN_FILE names, else ~/.config/tms/token; "" sends no
    credentials. `ca` is a file of certificates to check an https:// server against, by default the
    machine's own; `certificate` is a file with the client's own certificate and key, or a pair of
    files. The environment's TMS_CA, TMS_CERTIFICATE and TMS_CERTIFICATE_KEY can set them too. With
    `allow_plaintext` or TMS_ALLOW_PLAINTEXT, credentials may be sent to another machine by http://,
    where others can read them.

    A server that is not the leader forwards requests; the client then sends later ones to the
    leader itself, if `url` names it. With `direct`, it also uses leaders that only an answer names;
    with credentials only those in `GET /v1/cluster`, which you must have the right to read.

    Use the client in one event loop, and close it there, best by `async with`; in another one it
    raises `RuntimeError`. A program may end without closing it: nothing acknowledged is lost, but
    calls in progress are not finished. In a child of `os.fork()`, a client of a server works again
    in the child's own event loop; one of a store in this process raises `RuntimeError`.

    Raises `InvalidRequest` (invalid_namespace_name, plaintext_credentials), `ValueError` for
    another kind of URL, and for a file or token that cannot be used; for a store in this process
    `StoreError` if it cannot be opened, and `ModuleNotFoundError` if the extra is not installed.
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
        direct=direct,
    )
    if client is not None:
        return client
    return await connect_embedded(url, namespace, retry_for_s=retry_for_s, loop=OwnLoop())
