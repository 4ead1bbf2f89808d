"""`Client` for threads, made from `tms.client.async_client`.

Do not edit it: change that, and run `python -m dev.sync_client`.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tenacity import Retrying

from tms.client.async_client import (
    RETRY_FOR_S,
    TIMEOUT_S,
    AsyncClient,
    IfOpenName,
    Result,
    connect_remote,
)
from tms.client.groups.group_message import GroupMessage
from tms.client.in_process import open_in_thread
from tms.client.namespaces import Namespaces
from tms.client.reading.given_messages import GivenMessages
from tms.client.reading.stops import Stops
from tms.client.remote.access import Certificate
from tms.client.remote.credentials import Auth
from tms.client.remote.retry import reruns
from tms.client.schemas import Schemas
from tms.client.threads.bridge import Bridge
from tms.client.topics.topic import Topic
from tms.client.transactions.participants import TransactionAware
from tms.client.transactions.transaction import TransactionContext
from tms.client.transactions.transactions import Transactions
from tms.core.services.messaging import AllPublished
from tms.core.services.transactions import IfOpen
from tms.core.text.durations import Duration
from tms.core.values.ranges import TopicRange


class Client:
    """The topics of one namespace. Made by `tms.connect`; closes as a context manager.

    Any number of threads may use it at once; it has one thread of its own. Signal handlers may use
    it too. One that interrupts the client's first call gets `RuntimeError` with what to do instead.
    """

    def __init__(self, client: AsyncClient, bridge: Bridge) -> None:
        """Stand on `client`, called through `bridge`."""
        self._client = client
        self._bridge = bridge

    def __repr__(self) -> str:
        """Return the class, the URL without credentials and the namespace."""
        return repr(self._client).replace("Async", "", 1)

    @property
    def namespace(self) -> str:
        """The namespace of the client's topics."""
        return self._client.namespace

    @property
    def transactions(self) -> Transactions:
        """All transactions of the server or store, for those who look after it."""
        return Transactions(self._client.transactions, self._bridge)

    @property
    def stops(self) -> Stops:
        """When the client logs that readers wait at a transaction."""
        return self._client.stops

    @property
    def namespaces(self) -> Namespaces:
        """All namespaces of the server or store, for those who look after it."""
        return Namespaces(self._client.namespaces, self._bridge)

    @property
    def registry(self) -> Schemas:
        """The schema registry of the server or store."""
        return Schemas(self._client.registry, self._bridge)

    def topic(self, name: str) -> Topic:
        """Return the topic `name`, whether it exists or not; nothing is sent.

        `NAMESPACE:NAME` is one of another namespace. Raises `InvalidRequest` (invalid_topic_name,
        invalid_namespace_name).
        """
        return Topic(self._client.topic(name), self._bridge)

    def topics(self) -> list[str]:
        """Return the names of the namespace's topics.

        Repeated while the server is unavailable. Raises `Unavailable`, `InternalError`.
        """
        return self._bridge.call(self._client.topics)

    def ranges(
        self, topics: Iterable[str], *, committed: bool = True
    ) -> dict[str, TopicRange | None]:
        """Return where each topic begins and stably ends, as `Topic.range`; None for no topic.

        In one request. Raises `TooLarge` (too_many_topics), `InvalidRequest` (invalid_topic_name).
        """
        return self._bridge.call(self._client.ranges, topics, committed=committed)

    def publish_all(
        self,
        publications: Mapping[str, GivenMessages],
        *,
        acks: Iterable[GroupMessage] = (),
        owner: str | None = None,
        sequence: int | None = None,
        timeout_s: Duration | None = None,
    ) -> AllPublished:
        """Publish messages to several topics, given by name: all or none, also for readers.

        It is a transaction that is begun and committed at once, in one request. With an owner and a
        sequence (`transaction`) it is repeated while the server is away, and still done once:
        `is_duplicate` of the answer says whether it was done before. Without them, `OutcomeUnknown`
        is raised if the connection broke after it was sent. `timeout_s` is that of `Topic.publish`.
        Raises as that, `OwnerBusy`, and `InvalidRequest` (invalid_owner).

        `acks` are messages of groups that are acknowledged if and only if the others are published.
        Raises `AckRefused`, `LeaseLost` if one of them has been lost; all are held as before then.
        """
        taken = [message.taken for message in acks]
        return self._bridge.call(
            self._client.publish_all,
            publications,
            acks=taken,
            owner=owner,
            sequence=sequence,
            timeout_s=timeout_s,
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
    ) -> TransactionContext:
        """Return a transaction to be used once, by `with`: it commits, or rolls back all.

            with client.transaction() as tx:
                topic.publish(b"…", tx)

        After `timeout_s`, in seconds or as `"5m"`, it becomes invalid; None is the server's
        default. A `long` one becomes invalid after a day. `participants` are committed and rolled
        back with it.

        `owner` names the producer or job, `sequence` numbers its work, ascending, from 0 to
        `2**53 - 1`: a sequence is committed once, so that work may be repeated when in doubt. If
        runs of the owner number their work from the start, name each by an `origin`: the old
        sequence of another run is then an `OwnerElsewhere`, not a `TransactionDuplicate`. `if_open`
        says what becomes of an older transaction of the owner that is still open: "refuse" leaves
        it, "fence" makes it invalid, as a restarted producer wants, and "join" goes on with it if
        it has the same sequence, with all that was published in it.

        `home` is a topic of the client that the transaction will use: if the store has shards by
        topic, it can use the topics that are in one shard with that, and others are an
        `OtherShard`. A sequence is remembered there, so name the same topic each time. Raises
        `InvalidRequest` (invalid_topic_name).
        """
        return TransactionContext(
            self._client.transaction(
                timeout_s=timeout_s,
                long=long,
                owner=owner,
                sequence=sequence,
                origin=origin,
                if_open=if_open,
                home=home,
                participants=participants,
            ),
            self._bridge,
        )

    def run_in_transaction(
        self,
        function: Callable[[TransactionContext], Result],
        *,
        retries: int = 3,
        timeout_s: Duration | None = None,
        home: str | None = None,
        participants: Iterable[TransactionAware] = (),
    ) -> Result:
        """Return what `function` gives, which is called with a transaction that is then committed.

        If it conflicts with another (`TransactionConflict`, `SubscriptionMoved`), the function is
        called again in a new one, `retries` times at most, after a short pause. So it should do
        nothing that a rollback does not undo. `home` is as in `transaction`. Raises the errors of
        `function` and of a commit.
        """
        taking_part = tuple(participants)

        def run() -> Result:
            begun = self.transaction(timeout_s=timeout_s, home=home, participants=taking_part)
            with begun as tx:
                return function(tx)

        return Retrying(**reruns(retries))(run)

    def close(self) -> None:
        """Close the connections, or the embedded store. Closing twice is the same as once.

        Messages of groups that are not settled are given back first.

        A call that is under way, in another thread or interrupted by the signal handler that
        closes, raises `OutcomeUnknown`; later ones raise `RuntimeError`. A program that ends
        without closing does it as it ends.
        """
        self._bridge.close()

    def __enter__(self) -> Self:
        """Return the client itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the client."""
        self.close()


def connect(
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
) -> Client:
    """Return a client for the topics of `namespace`.

    `url` is a server's, `http://HOST:PORT` or `https://…`; or several servers' of a cluster,
    `http://A:PORT,B:PORT`, of which the next is asked where one is not there; or `leveldb:DIR` or
    `memory:` for a store in this process, which needs the package's `server` extra. For a server:
    `timeout_s` is how long an answer may take; `retry_for_s` for how long a call that is safe to
    repeat is repeated while the server is away or busy, 0 for never, both in seconds or as `"2m"`;
    `compress` sends and takes bodies as gzip. No connection to a server is made yet.

    `auth` has the credentials for a server: a token; `(user, password)`; a `pathlib.Path` of a file
    with a token; or a function that returns a token, which may be asynchronous. File and function
    are asked again if a server refuses the token. By default it is TMS_TOKEN of the environment,
    else the file that TMS_TOKEN_FILE names, else ~/.config/tms/token; "" is nobody. `ca` is a file
    of the certificates that an https:// server is trusted by, by default the machine's own;
    `certificate` is a file with the client's own certificate and key, or a pair of files. They may
    be in TMS_CA, TMS_CERTIFICATE and TMS_CERTIFICATE_KEY too. With `allow_plaintext` or
    TMS_ALLOW_PLAINTEXT credentials may go to another machine by http://, for all to read.

    A server that is not the leader forwards; the client then asks the leader itself, if `url` names
    it. With `direct`, it asks other servers too that an answer names as a leader; with credentials
    only those that `GET /v1/cluster` has named, which the caller must be allowed to ask.

    Close the client, best by `with`. One that nobody refers to any more closes itself, with a
    `ResourceWarning`; a program that ends closes those that are left. In a child of `os.fork()`, a
    client of a server that was made before works with connections of its own; one on a store in
    this process raises `RuntimeError` at once.

    Raises `InvalidRequest` (invalid_namespace_name, plaintext_credentials), `ValueError` for
    another kind of URL, and for a file or token that cannot be used; for a store in this process
    `StoreError` where it cannot be opened, and `ModuleNotFoundError` where the extra is not
    installed.
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
    if client is None:
        return Client(*open_in_thread(url, namespace, retry_for_s=retry_for_s))
    bridge = Bridge()
    bridge.close_with(client.close)
    return Client(client, bridge)
