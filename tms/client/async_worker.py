"""A worker: calls a function with each message that a group gives it, several at a time.

It takes before it begins a transaction, so that the transaction sees the message. What a function
raises is logged, and nacks its message. When it stops, it takes no more, waits for what is worked
on, and gives the rest back.
"""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tms.client.async_group_message import UNSETTLED, AsyncGroupMessage, Retry
from tms.client.async_transaction import AsyncTransactionContext
from tms.client.held_messages import HeldMessages, TakeSettings
from tms.client.participants import TransactionAware
from tms.core.errors import AckRefused, LeaseLost, TmsError

PREFETCH_EACH = 2
"""How many messages are taken ahead for each that is worked on."""

_log = logging.getLogger("tms.client")

Handle = Callable[[AsyncGroupMessage], Awaitable[None]]
"""Works on a message, and acknowledges it."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker works."""

    concurrency: int
    stop_s: float
    lease_s: int | None
    hold_s_max: float


def handling(
    function: Callable[..., Awaitable[Any]],
    begin: Callable[..., AsyncTransactionContext] | None,
    participants: Callable[[], Iterable[TransactionAware]],
) -> Handle:
    """Return what calls `function` with a message, in a transaction of `begin` if that is given."""

    async def handle(message: AsyncGroupMessage) -> None:
        if begin is None:
            await function(message)
            if message.settling in UNSETTLED:
                await message.ack()
            return
        async with begin(participants=participants()) as tx:
            await function(message, tx)
            if message.settling in UNSETTLED:
                await message.ack(tx)

    return handle


class AsyncGroupWorker:
    """A function that works on a group's messages. Made by `AsyncTopicGroup.worker`."""

    def __init__(
        self,
        hold: Callable[[TakeSettings], Awaitable[HeldMessages]],
        handle: Handle,
        settings: WorkerSettings,
    ) -> None:
        """Take nothing yet. Raises `ValueError` for a concurrency below 1."""
        if settings.concurrency < 1:
            raise ValueError("concurrency is at least 1")
        self._hold = hold
        self._handle = handle
        self._settings = settings
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Have `run` end: it takes no more, and waits for what is worked on."""
        self._stop.set()

    async def run(self) -> None:
        """Work until `stop` is called or SIGTERM comes. Raises what a take raises."""
        loop = asyncio.get_running_loop()
        with suppress(RuntimeError, ValueError):  # not the main thread
            loop.add_signal_handler(signal.SIGTERM, self.stop)
        try:
            await self.run_on()
        finally:
            with suppress(RuntimeError, ValueError):
                loop.remove_signal_handler(signal.SIGTERM)

    async def run_on(self) -> None:
        """Work until `stop` is called."""
        settings = self._settings
        held = await self._hold(
            TakeSettings(
                PREFETCH_EACH * settings.concurrency,
                settings.lease_s,
                settings.hold_s_max,
                one_of_a_key=True,
            )
        )
        working: set[asyncio.Task[None]] = set()
        try:
            await self._take_until_stopped(held, working)
            await held.stop_taking()
            if working:
                await asyncio.wait(working, timeout=settings.stop_s)
        finally:
            left = list(working)
            for task in left:
                task.cancel()
            await held.close(leave=True)
            self._stop.clear()
        if left:
            _log.warning("%d messages are given back: their work took too long", len(left))

    async def _take_until_stopped(
        self, held: HeldMessages, working: set[asyncio.Task[None]]
    ) -> None:
        stopping = asyncio.create_task(self._stop.wait())
        coming: asyncio.Task[AsyncGroupMessage] | None = None
        try:
            while not self._stop.is_set():
                if len(working) >= self._settings.concurrency:
                    await asyncio.wait({*working, stopping}, return_when=asyncio.FIRST_COMPLETED)
                    continue
                coming = coming or asyncio.create_task(held.next())
                await asyncio.wait({coming, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if coming.done() and not self._stop.is_set():
                    task = asyncio.create_task(self._work(coming.result()))
                    coming = None
                    working.add(task)
                    task.add_done_callback(working.discard)
        finally:
            stopping.cancel()
            if coming is not None:
                coming.cancel()

    async def _work(self, message: AsyncGroupMessage) -> None:
        try:
            await self._handle(message)
        except Retry as again:
            await self._nack(message, again.delay_s, again.reason)
        except (AckRefused, LeaseLost) as error:
            _log.warning("Another member has %s now: %s", message, error)
        except Exception as error:
            _log.exception("The work on %s failed", message)
            await self._nack(message, None, repr(error))

    async def _nack(self, message: AsyncGroupMessage, delay_s: float | None, reason: str) -> None:
        try:
            await message.nack(delay_s, reason)
        except TmsError as error:
            _log.warning("%s is given again when its lease ends: %s", message, error)
