"""A broker for taskiq: tasks are messages of a topic, and the workers members of a group.

    broker = TmsBroker("http://127.0.0.1:11015", topic="tasks")

A task is acknowledged when taskiq says so. The leases of tasks in progress are extended, so a task
whose worker dies runs again on another worker when its lease expires. The label `delay`, in
seconds, publishes a task later. Needs the extra `taskiq`.
"""

from collections.abc import AsyncGenerator
from typing import Any, Final, Unpack

from taskiq import AckableMessage, AsyncBroker, BrokerMessage

import tms.aio
from tms.client.groups.take_settings import PREFETCH
from tms.core.values.group_settings import GroupOptions

_DELAY: Final = "delay"


class TmsBroker(AsyncBroker):
    """A broker on a topic. Its topic and group are created at the start if they do not exist."""

    def __init__(
        self,
        url: str,
        *,
        topic: str = "taskiq",
        group: str = "workers",
        prefetch: int = PREFETCH,
        connection: dict[str, Any] | None = None,
        **options: Unpack[GroupOptions],
    ) -> None:
        """Use a server or store. Nothing is sent before `startup`.

        `connection` has the arguments of `tms.aio.connect`, such as `token`; `options` are the
        settings of the group, and are not changed if it exists.
        """
        super().__init__()
        self._url = url
        self._names = topic, group
        self._prefetch = prefetch
        self._connection = connection or {}
        self._options = options
        self._client: tms.aio.AsyncClient | None = None

    async def startup(self) -> None:
        """Connect, and create what is missing. A second call, as of a worker, does not connect."""
        if self._client is None:
            self._client = await tms.aio.connect(self._url, **self._connection)
        topic, group = self._names
        await self._client.topic(topic).create(exist_ok=True)
        await self._client.topic(topic).group(group).create(**self._options)
        await super().startup()

    async def shutdown(self) -> None:
        """Give back tasks that have not begun, and disconnect."""
        await super().shutdown()
        if self._client is not None:
            await self._client.close()
            self._client = None

    @property
    def _topic(self) -> tms.aio.AsyncTopic:
        assert self._client is not None, "await broker.startup() first"
        return self._client.topic(self._names[0])

    async def kick(self, message: BrokerMessage) -> None:
        """Publish a task; durable when it returns."""
        delay = message.labels.get(_DELAY)
        if delay is None:
            await self._topic.publish(message.message)
        else:
            await self._topic.schedule(message.message, after=float(delay))

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        """Yield the tasks of the group without end."""
        taken = self._topic.group(self._names[1]).take(prefetch=self._prefetch)
        try:
            async for message in taken:
                yield AckableMessage(data=message.payload, ack=message.ack)
        finally:
            await taken.aclose()
