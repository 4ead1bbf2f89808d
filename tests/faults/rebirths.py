"""A topic that is created, written to, deleted and created again, and its expected state.

One task sends one request after another, so a crash leaves at most one unknown outcome. The topic
is then in the state before that request or in the state after it.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import tms.aio
from tms.client.topics.async_topic import AsyncTopic
from tms.core.errors import OutcomeUnknown, TopicNotFound, Unavailable

MESSAGES_MAX = 5


class Rebirths:
    """The topic `reborn`, and its expected state."""

    def __init__(self) -> None:
        self.count = 0
        """The number of generations known to be created."""
        self._exists = False
        self._payloads: list[bytes] = []
        self._pending: str | None = None

    @asynccontextmanager
    async def under_way(self, url: str) -> AsyncGenerator[None, None]:
        """Delete and create the topic until the server fails or the context ends."""
        task = asyncio.create_task(self._go_on(url))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _go_on(self, url: str) -> None:
        async with await tms.aio.connect(url, retry_for_s=0) as client:
            topic = client.topic("reborn")
            try:
                while True:
                    await self._step(topic)
            except (Unavailable, OutcomeUnknown):
                pass

    async def _step(self, topic: AsyncTopic) -> None:
        if not self._exists:
            self._pending = "create"
            await topic.create()
            self._created()
        elif len(self._payloads) == MESSAGES_MAX:
            self._pending = "delete"
            await topic.delete()
            self._deleted()
        else:
            self._pending = "publish"
            await topic.publish(self._next_payload())
            self._payloads.append(self._next_payload())
        self._pending = None

    def _next_payload(self) -> bytes:
        return b"%d/%d" % (self.count, len(self._payloads))

    def _created(self) -> None:
        self._exists = True
        self.count += 1
        self._payloads.clear()

    def _deleted(self) -> None:
        self._exists = False
        self._payloads.clear()

    async def check(self, url: str) -> None:
        """Check the topic's state, and record the outcome that was unknown."""
        async with await tms.aio.connect(url, retry_for_s=0) as client:
            topic = client.topic("reborn")
            try:
                properties = await topic.properties()
            except TopicNotFound:
                exists, generation = False, self.count
            else:
                exists, generation = True, int(properties["generation"])
            if exists != self._exists:
                assert self._pending == ("create" if exists else "delete"), self.__dict__
                if exists:
                    self._created()
                else:
                    self._deleted()
            assert generation == self.count
            payloads = [m.payload async for m in topic.poll()] if exists else []
        if self._pending == "publish" and len(payloads) > len(self._payloads):
            self._payloads.append(self._next_payload())
        assert payloads == self._payloads
        self._pending = None
