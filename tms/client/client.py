"""A client as threads use it: the asynchronous one, driven in an event loop of its own."""

from types import TracebackType
from typing import Self

from tms.client.async_client import RETRY_FOR_S, TIMEOUT_S, AsyncClient
from tms.client.async_client import connect as connect_async
from tms.client.bridge import Bridge
from tms.client.topic import Topic


class Client:
    """The topics of one namespace. Made by `tms.connect`; closes as a context manager.

    Any number of threads may use it at once; it has one thread of its own.
    """

    def __init__(self, client: AsyncClient, bridge: Bridge) -> None:
        """Stand on `client`, called through `bridge`, and close both in the end."""
        self._client = client
        self._bridge = bridge

    @property
    def namespace(self) -> str:
        """The namespace of the client's topics."""
        return self._client.namespace

    def topic(self, name: str) -> Topic:
        """Return the topic `name`, which exists or not; nothing is sent.

        Raises `InvalidRequest` (invalid_topic_name).
        """
        return Topic(self._client.topic(name), self._bridge)

    def topics(self) -> list[str]:
        """Return the names of the namespace's topics.

        Repeated while the server is unavailable. Raises `Unavailable`, `InternalError`.
        """
        return self._bridge.call(self._client.topics)

    def close(self) -> None:
        """Close the connections, or the embedded store. Closing twice is the same as once.

        A call that another thread has under way raises `OutcomeUnknown`; later ones raise
        `RuntimeError`.
        """
        self._bridge.close(self._client.close)

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
    timeout_s: float = TIMEOUT_S,
    retry_for_s: float = RETRY_FOR_S,
    compress: bool = False,
) -> Client:
    """Return a client for the topics of `namespace`.

    `url` is a server's, `http://HOST:PORT` or `https://…`; or `leveldb:DIR` or `memory:` for a
    store in this process, which needs the package's `server` extra. For a server: `timeout_s` is
    how many seconds an answer may take; `retry_for_s` for how many seconds a call that is safe to
    repeat is repeated while the server is away or busy, 0 for never; `compress` sends and takes
    bodies as gzip. No connection to a server is made yet.

    Raises `InvalidRequest` (invalid_namespace_name), `ValueError` for another kind of URL; for a
    store in this process `StoreError` where it cannot be opened, and `ModuleNotFoundError` where
    the extra is not installed.
    """
    bridge = Bridge()
    try:
        client = bridge.call(
            lambda: connect_async(
                url,
                namespace,
                timeout_s=timeout_s,
                retry_for_s=retry_for_s,
                compress=compress,
            )
        )
    except BaseException:
        bridge.close()
        raise
    return Client(client, bridge)
