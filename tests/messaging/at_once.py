"""Concurrent requests that wait for a store, so that the writer's queue fills."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

from tables.store import Store
from tests.waiting import turns
from tms.core.values.topic import TopicId
from tms.messaging.service import Service


class Gate:
    """A store whose writes can be made to wait."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.passes = threading.Event()
        self.passes.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, batch: Any) -> None:
        self.passes.wait()
        self._store.write(batch)


async def asked_at_once(
    service: Service, gate: Gate, topic_id: TopicId, works: Sequence[Coroutine[Any, Any, Any]]
) -> list[Any]:
    """Return the answers or errors of requests that wait while the gate holds the first one."""
    queue = service._writer._queue
    await service.topic(topic_id)
    gate.passes.clear()
    waiting: list[asyncio.Future[Any]] = []
    try:
        for work in works:
            before = len(queue)
            waiting.append(asyncio.ensure_future(work))
            await turns()
            while len(waiting) == 1 and queue:
                await turns()
            while len(waiting) > 1 and not waiting[-1].done() and len(queue) == before:
                await turns()  # until the request waits, or was refused
    finally:
        gate.passes.set()
    return await asyncio.gather(*waiting, return_exceptions=True)
