"""A client for asyncio, on a server's REST interface or on a service in this process."""

from types import TracebackType
from typing import Protocol, Self

from tms.client.async_topic import AsyncTopic
from tms.client.remote import RemoteMessaging
from tms.core.messaging import Messaging
from tms.core.topic import TopicId, check_namespace

STORES = ("leveldb:", "memory:")
TIMEOUT_S = 30.0
RETRY_FOR_S = 30.0


class OpenMessaging(Messaging, Protocol):
    """What a client stands on: a `Messaging` that it closes in the end."""

    async def close(self) -> None:
        """Give up what is held."""
        ...


class AsyncClient:
    """The topics of one namespace. Made by `tms.aio.connect`; closes as a context manager.

    Any number of tasks may use it at once, in the event loop it was made in.
    """

    def __init__(self, messaging: OpenMessaging, namespace: str) -> None:
        """Stand on `messaging`, and close it in the end."""
        self._messaging = messaging
        self._namespace = check_namespace(namespace)
        self._closed = False

    @property
    def namespace(self) -> str:
        """The namespace of the client's topics."""
        return self._namespace

    def topic(self, name: str) -> AsyncTopic:
        """Return the topic `name`, which exists or not; nothing is sent.

        Raises `InvalidRequest` (invalid_topic_name).
        """
        topic_id = TopicId(self._namespace, name)
        return AsyncTopic(topic_id, self._messaging, lambda: self._closed)

    async def topics(self) -> list[str]:
        """Return the names of the namespace's topics, as `tms.Client.topics`."""
        return await self._messaging.topics(self._namespace)

    async def close(self) -> None:
        """Close the connections, or the embedded store. Closing twice is the same as once."""
        if not self._closed:
            self._closed = True
            await self._messaging.close()

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


async def connect(
    url: str,
    namespace: str = "default",
    *,
    timeout_s: float = TIMEOUT_S,
    retry_for_s: float = RETRY_FOR_S,
    compress: bool = False,
) -> AsyncClient:
    """Return a client for asyncio; the arguments and errors are those of `tms.connect`."""
    check_namespace(namespace)
    if url.startswith(("http://", "https://")):
        remote = RemoteMessaging(
            url, timeout_s=timeout_s, retry_for_s=retry_for_s, compress=compress
        )
        return AsyncClient(remote, namespace)
    if not url.startswith(STORES):
        raise ValueError(
            f"cannot connect to {url!r}: give http://HOST:PORT of a server, "
            "or leveldb:DIR or memory: for a store in this process"
        )
    return AsyncClient(await _open_embedded(url), namespace)


async def _open_embedded(store_url: str) -> OpenMessaging:
    try:
        from tms.node import open_service  # noqa: PLC0415  server packages, only when asked for
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"a store in this process needs the server's packages ({error.name} is missing): "
            "pip install 'tms-messaging[server]'",
            name=error.name,
        ) from error
    return await open_service(store_url)
