"""Publishers and a follower that record all answers, until they are stopped.

`tests.faults.ledger` checks the answers. A seed determines each request of a publisher: one plain
message or several, a transaction's messages, some of which are rolled back, or messages stored
first and published by reference.
"""

import asyncio
import random
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import tms.aio
from tests.faults.ledger import Ledger, Outcome, Request
from tests.waiting import WAIT_S_MAX, in_time
from tms.client.topics.async_topic import AsyncTopic
from tms.core.errors import OutcomeUnknown, Unavailable
from tms.core.services.messaging import Published
from tms.core.values.message import Message
from tms.core.values.transaction import ALL_VISIBLE_LATEST

PAUSE_AFTER_FAILURE_S = 0.02
FOLLOW_WAIT_S = 0.1
BATCH_MESSAGES_MAX = 30
PAYLOAD_BYTES_MAX = 2_000


class Load:
    """Publishers to one topic; a context manager that waits for the last of them."""

    def __init__(
        self,
        url: str,
        topic: str,
        ledger: Ledger,
        chance: random.Random,
        *,
        publishers: int = 8,
        payload_bytes_max: int = PAYLOAD_BYTES_MAX,
    ) -> None:
        self._client = tms.aio.connect(url, retry_for_s=0, timeout_s=WAIT_S_MAX)
        self._topic_name = topic
        self._ledger = ledger
        self._chances = [random.Random(chance.random()) for _ in range(publishers)]
        self._payload_bytes_max = payload_bytes_max
        self._stopped = asyncio.Event()
        self._changed = asyncio.Condition()
        self.failures: list[Exception] = []
        """The errors that publishers got, in order."""
        self.poll_failures: list[Exception] = []
        """The errors that the follower got."""
        self.polls = 0
        """How many times the follower was answered."""

    async def __aenter__(self) -> Self:
        client = await self._client
        topic = client.topic(self._topic_name)
        self._close = client.close
        start = len(self._ledger.requests)
        self._tasks = [
            asyncio.create_task(self._publish_forever(topic, chance, f"{start}.{number}"))
            for number, chance in enumerate(self._chances)
        ]
        self._tasks.append(asyncio.create_task(self._follow(topic)))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped.set()
        try:
            await asyncio.gather(*self._tasks)
        finally:
            await self._close()

    async def until_acknowledged(self, more: int) -> None:
        """Return after `more` further requests were acknowledged."""
        wanted = self._ledger.acknowledged + more
        await self._until(lambda: self._ledger.acknowledged >= wanted)

    async def until_failed(self, more: int) -> None:
        """Return after `more` further requests have failed."""
        wanted = len(self.failures) + more
        await self._until(lambda: len(self.failures) >= wanted)

    async def until_polled(self, more: int) -> None:
        """Return after the follower has polled `more` more times."""
        wanted = self.polls + more
        await self._until(lambda: self.polls >= wanted)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with in_time(), self._changed:
            await self._changed.wait_for(lambda: holds() or any(t.done() for t in self._tasks))
        for task in self._tasks:
            if task.done():
                task.result()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _publish_forever(self, topic: AsyncTopic, chance: random.Random, name: str) -> None:
        number = 0
        while not self._stopped.is_set():
            number += 1
            try:
                await self._publish(topic, chance, f"{name}.{number}")
            except (Unavailable, OutcomeUnknown) as error:
                self.failures.append(error)
                await self._tell()
                await self._pause()
            else:
                await self._tell()

    async def _follow(self, topic: AsyncTopic) -> None:
        followed = self._ledger.followed
        while not self._stopped.is_set():
            after = followed[-1].id if followed else None
            try:
                async for message in topic.poll(after=after, wait_s=FOLLOW_WAIT_S):
                    followed.append(message)
            except (Unavailable, OutcomeUnknown) as error:
                self.poll_failures.append(error)
                await self._pause()
            else:
                self.polls += 1
                await self._tell()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(PAUSE_AFTER_FAILURE_S):
                await self._stopped.wait()
        except TimeoutError:
            pass

    async def _publish(self, topic: AsyncTopic, chance: random.Random, name: str) -> None:
        count = chance.choice((1, 1, 1, 2, BATCH_MESSAGES_MAX))
        size = chance.choice((0, 100, self._payload_bytes_max))
        payloads = [f"{name}/{index} ".encode() + chance.randbytes(size) for index in range(count)]
        form = chance.choice(("plain", "plain", "transaction", "rollback", "reference"))
        pointer = None if form == "plain" else _new_pointer()
        if form == "reference":
            assert pointer is not None
            half = len(payloads) // 2
            for part in (payloads[:half], payloads[half:]):
                if part:
                    await topic.store(part, pointer)
        request = self._ledger.begin(name, payloads)
        try:
            sent = [] if form == "reference" else payloads
            published = await topic.publish(sent, pointer)
            self._ledger.acknowledge(request)
            if form == "rollback":
                await self._roll_back(topic, request, published)
        except (Unavailable, OutcomeUnknown) as error:
            self._ledger.failed(request, error)
            raise

    @staticmethod
    async def _roll_back(topic: AsyncTopic, request: Request, published: Published) -> None:
        request.rolled_back = Outcome.UNKNOWN
        await topic.rollback(published)
        request.rolled_back = Outcome.DONE


_pointers = iter(range(1, 10**12))


def _new_pointer() -> int:
    """Return a new write pointer, of a transaction that began now."""
    return (time.time_ns() // 1_000_000) * 1_000_000 + next(_pointers)


async def check_log(url: str, topic_name: str, ledger: Ledger, *, settled: bool) -> list[Message]:
    """Poll everything, check it against the ledger, and return it."""
    async with await tms.aio.connect(url, retry_for_s=0) as client:
        topic = client.topic(topic_name)
        log = [message async for message in topic.poll()]
        visible = [message async for message in topic.poll(tx=ALL_VISIBLE_LATEST)]
    ledger.check(log, visible, settled=settled)
    return log
