"""Collects requests into batches: requests made while one batch is in progress go into the next.

So no request waits for a timer, a single one is sent at once, and many cost little more than one.
Each request has its own outcome. Requests are sent in the order in which they were made.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from tms.core.errors import MetadataUnavailable

Request = TypeVar("Request")
Answer = TypeVar("Answer")

QUEUED_MAX = 100_000
"""The most requests that may wait; more are refused."""


class Batcher(Generic[Request, Answer]):
    """Sends requests in batches, one batch at a time. Used from one event loop."""

    def __init__(
        self,
        send: Callable[[list[Request]], Awaitable[Sequence[Answer | Exception]]],
        count_that_fit: Callable[[Sequence[Request]], int],
    ) -> None:
        """`send` returns an outcome for each; it may raise, which is the outcome of all.

        `count_that_fit` returns how many waiting requests, from the first on, fit into one batch.
        """
        self._send = send
        self._count_that_fit = count_that_fit
        self._queue: deque[tuple[Request, asyncio.Future[Answer]]] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._refusal: Exception | None = None

    async def ask(self, request: Request) -> Answer:
        """Return the outcome of a request, or raise it. It is sent even if the caller is cancelled.

        Also raises `MetadataUnavailable` if `QUEUED_MAX` requests wait.
        """
        if self._refusal is not None:
            raise self._refusal
        if len(self._queue) >= QUEUED_MAX:
            raise MetadataUnavailable(reason="too many calls are waiting")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._queue.append((request, future))
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send_all())
        return await future

    async def _send_all(self) -> None:
        try:
            while self._queue:
                waiting = [request for request, _ in self._queue]
                count = max(1, self._count_that_fit(waiting))
                batch = [self._queue.popleft() for _ in range(count)]
                await self._carry_out(batch)
        finally:
            self._sending = None

    async def _carry_out(self, batch: list[tuple[Request, "asyncio.Future[Answer]"]]) -> None:
        outcomes: Sequence[Answer | Exception]
        try:
            outcomes = await self._send([request for request, _ in batch])
        except Exception as error:  # whatever it is, all waiting callers get it
            outcomes = [error] * len(batch)
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if future.done():
                continue  # its caller was cancelled
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    async def close(self, refusal: Exception) -> None:
        """Refuse waiting and new requests, and wait for those in progress."""
        self._refusal = refusal
        for _, future in self._queue:
            if not future.done():
                future.set_exception(refusal)
        self._queue.clear()
        if self._sending is not None:
            await asyncio.wait([self._sending])
