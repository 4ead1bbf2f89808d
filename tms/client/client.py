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
    it too. A handler that interrupts the client's first call gets a `RuntimeError` that says what
    to do instead.
    """

    def __init__(self, client: AsyncClient, bridge: Bridge) -> None:
        """Use `client`, called through `bridge`."""
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
        """All transactions of the server or store, for operators."""
        return Transactions(self._client.transactions, self._bridge)

    @property
    def stops(self) -> Stops:
        """Logs when readers wait at a transaction."""
        return self._client.stops

    @property
    def namespaces(self) -> Namespaces:
        """All namespaces of the server or store, for operators."""
        return Namespaces(self._client.namespaces, self._bridge)

    @property
    def registry(self) -> Schemas:
        """The schema registry of the server or store."""
        return Schemas(self._client.registry, self._bridge)

    def topic(self, name: str) -> Topic:
        """Return the topic `name`, whether it exists or not; nothing is sent.

        `NAMESPACE:NAME` is a topic of another namespace. Raises `InvalidRequest`
        (invalid_topic_name, invalid_namespace_name).
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
        """Return the range of each topic, as `Topic.range`; None for a topic that does not exist.

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
        """Publish messages to several topics by name: readers see all of them or none.

        One request begins and commits a transaction. With an owner and a sequence (`transaction`)
        it is repeated while the server is unavailable, and still done once: `is_duplicate` of the
        answer says whether it was done before. Without them, `OutcomeUnknown` is raised if the
        connection broke after it was sent. `timeout_s` is as in `Topic.publish`. Raises as that
        method, `OwnerBusy`, and `InvalidRequest` (invalid_owner).

        `acks` are messages of groups that are acknowledged if and only if the others are published.
        Raises `AckRefused`, `LeaseLost` if one of them has been lost; all are then held as before.
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
        """Return a transaction for one `with`: it commits, or rolls back, as a whole.

            with client.transaction() as tx:
                topic.publish(b"…", tx)

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
        """Call `function` with a transaction, commit that, and return the function's result.

        If the transaction conflicts with another (`TransactionConflict`, `SubscriptionMoved`), the
        function is called again in a new one, at most `retries` times, after a short pause. So it
        should do nothing that a rollback does not undo. `home` is as in `transaction`. Raises the
        errors of `function` and of a commit.
        """
        taking_part = tuple(participants)

        def run() -> Result:
            begun = self.transaction(timeout_s=timeout_s, home=home, participants=taking_part)
            with begun as tx:
                return function(tx)

        return Retrying(**reruns(retries))(run)

    def close(self) -> None:
        """Close the connections, or the embedded store. Closing twice is harmless.

        It first gives back unsettled messages of groups.

        A call in progress, in another thread or interrupted by the signal handler that closes,
        raises `OutcomeUnknown`; later calls raise `RuntimeError`. Open clients are closed when the
        program ends.
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

    Close the client, best by `with`. An unreferenced client closes itself, with a
    `ResourceWarning`; open ones are closed when the program ends. In a child of `os.fork()`, a
    client of a server that was made before the fork makes connections of its own; one of a store in
    this process raises `RuntimeError` at once.

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
    if client is None:
        return Client(*open_in_thread(url, namespace, retry_for_s=retry_for_s))
    bridge = Bridge()
    bridge.close_with(client.close)
    return Client(client, bridge)
