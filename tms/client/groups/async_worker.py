"""A worker: calls a function with each message of a group, several at a time.

It takes a message before it begins the transaction, so that the transaction sees the message.
However a function ends, its message is acknowledged, nacked or given back. An exception is logged
and nacks the message; `SystemExit` and `KeyboardInterrupt` also stop the worker, and `run` raises
them. When it stops, it takes no more, waits for work in progress, and gives the rest back.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from anyio import move_on_after

from tms.client.groups.async_group_message import (
    UNSETTLED,
    AsyncGroupMessage,
    Reject,
    Retry,
    Settling,
    reason_of,
)
from tms.client.groups.held_messages import HeldMessages
from tms.client.groups.take_settings import HOLD_S_MAX, TakeSettings
from tms.client.groups.work_limit import NO_LIMIT, TOO_LONG, WorkLimit
from tms.client.groups.worker_recovery import WorkerRecovery
from tms.client.threads.sigterm import stopping_at_sigterm
from tms.client.transactions.async_transaction import AsyncTransactionContext
from tms.client.transactions.participants import TransactionAware
from tms.core.errors import AckRefused, InvalidRequest, LeaseLost, TransactionNotInProgress
from tms.core.values.groups import TAKE_MESSAGES_MAX

PREFETCH_EACH = 2
"""How many messages are taken ahead for each that is in progress."""
CONCURRENCY_MAX = TAKE_MESSAGES_MAX // PREFETCH_EACH

_log = logging.getLogger("tms.client")

Handle = Callable[[AsyncGroupMessage], Awaitable[BaseException | None]]
"""Processes a message, and acknowledges it. Returns or raises the error if that failed."""
Begin = Callable[..., AsyncTransactionContext]


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a worker. Raises `ValueError` and `InvalidRequest`."""

    concurrency: int = 1
    stop_s: float = 30.0
    lease_s: int | None = None
    hold_s_max: float = HOLD_S_MAX
    limit: WorkLimit = NO_LIMIT

    def __post_init__(self) -> None:
        """Refuse values now that would otherwise be refused in the middle of the work."""
        if not 1 <= self.concurrency <= CONCURRENCY_MAX:
            raise ValueError(f"concurrency is from 1 to {CONCURRENCY_MAX}")
        if not self.stop_s >= 0:
            raise ValueError("stop_s is at least 0")
        _ = self.take

    @property
    def take(self) -> TakeSettings:
        """The settings of the worker's takes."""
        prefetch = PREFETCH_EACH * self.concurrency
        return TakeSettings(prefetch, self.lease_s, self.hold_s_max, one_of_a_key=True)


def transactions_of(begin: Begin, limit: WorkLimit, *, transaction: bool) -> Begin | None:
    """Return what begins a worker's transactions, None if it has none."""
    if not transaction:
        return None
    timeout_s = limit.transaction_s
    return begin if timeout_s is None else partial(begin, timeout_s=timeout_s)


def limited(
    function: Callable[..., Awaitable[Any]], limit: WorkLimit
) -> Callable[..., Awaitable[Any]]:
    """Return what calls `function`, and cancels it if that takes longer than the limit."""

    async def call(*args: Any) -> None:
        running = asyncio.timeout(limit.work_s)
        try:
            async with running:
                await function(*args)
        except TimeoutError as error:
            if not running.expired():
                raise
            raise TimeoutError(limit.reason) from error

    return function if limit.work_s is None else call


def handling(
    function: Callable[..., Awaitable[Any]],
    begin: Begin | None,
    participants: Callable[[], Iterable[TransactionAware]],
    recovery: WorkerRecovery | None,
) -> Handle:
    """Return what calls `function` with a message, in a transaction if `begin` is set."""

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
        if tx.suppressed and recovery is not None:  # some rows may still be prepared
            recovery.want()

    return handle


class AsyncGroupWorker:
    """Calls a function with a group's messages. Made by `AsyncTopicGroup.worker`."""

    def __init__(
        self,
        hold: Callable[[TakeSettings], Awaitable[HeldMessages]],
        handle: Handle,
        settings: WorkerSettings,
        recovery: WorkerRecovery | None,
    ) -> None:
        """Store the settings. A worker with transactions has a `recovery`."""
        self._hold = hold
        self._handle = handle
        self._settings = settings
        self._recovery = recovery
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._is_giving_back = False
        self._exit: BaseException | None = None

    def stop(self) -> None:
        """Make `run` end: it takes no more, and waits for work in progress."""
        self._stop.set()

    def stop_now(self) -> None:
        """Make `run` end without waiting for work in progress."""
        self._stop.set()
        self._stop_now.set()

    async def run(self) -> None:
        """Work until `stop` is called or SIGTERM arrives.

        Raises what a take raises, and what ended the worker's function if it was to end the
        program. SIGTERM stops all workers of the program, and calls its own handler too. A second
        one does not let them wait for what is worked on.
        """
        soon = asyncio.get_running_loop().call_soon_threadsafe
        with stopping_at_sigterm(partial(soon, self.stop), partial(soon, self.stop_now)):
            await self.run_on()

    async def run_on(self) -> None:
        """Work until `stop` is called."""
        held = await self._hold(self._settings.take)
        working: set[asyncio.Task[None]] = set()
        self._is_giving_back, self._exit = False, None
        recovering: asyncio.Task[None] | None = None
        if self._recovery is not None:
            recovering = asyncio.create_task(self._recovery.run(lambda: {*working}))
        try:
            await self._take_until_stopped(held, working)
            await held.stop_taking()
            await self._wait_for(working)
        finally:
            remaining = list(working)
            self._is_giving_back = True
            for task in (*remaining, *filter(None, [recovering])):
                task.cancel()
            await held.close(leave=True)
            self._stop.clear()
            self._stop_now.clear()
        if remaining:
            _log.warning("Gave back %d messages, because their work took too long", len(remaining))
        error, self._exit = self._exit, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # otherwise it keeps itself alive, by its traceback

    async def _wait_for(self, working: set[asyncio.Task[None]]) -> None:
        """Wait until the work is done, up to `stop_s` seconds, unless it is to stop now."""
        stopping = asyncio.create_task(self._stop_now.wait())
        working = {*working}
        with move_on_after(self._settings.stop_s):
            while working and not stopping.done():
                waited = {*working, stopping}
                done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                working -= done
        stopping.cancel()

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
                    task = asyncio.create_task(self._work(held, coming.result()))
                    coming = None
                    working.add(task)
                    task.add_done_callback(working.discard)
        finally:
            stopping.cancel()
            if coming is not None:
                coming.cancel()

    async def _work(self, held: HeldMessages, message: AsyncGroupMessage) -> None:
        try:
            try:
                error = await self._handle(message)
            except GeneratorExit:  # nothing can be awaited now
                raise
            except asyncio.CancelledError as cancelled:
                if self._is_giving_back:
                    raise
                error = cancelled
            except BaseException as raised:
                error = raised
            if error is not None:
                await self._fail(message, error)
        finally:
            if message.settling is Settling.HELD:
                held.give_up(message)
            held.worked(message)

    async def _fail(self, message: AsyncGroupMessage, error: BaseException) -> None:
        delay_s, reason = None, reason_of(error)
        if self._recovery is not None:
            self._recovery.want()
        if isinstance(error, SystemExit | KeyboardInterrupt):
            self._exit = error
            self.stop()
        if isinstance(error, Reject):
            reason = error.reason
        elif isinstance(error, Retry):
            delay_s, reason = error.delay_s, error.reason
        elif isinstance(error, AckRefused | LeaseLost) and message.settling is not Settling.HELD:
            _log.warning("Another member has %s now: %s", message, error)
        else:
            if isinstance(error, TransactionNotInProgress):
                error.add_note(TOO_LONG)
                reason = f"{TOO_LONG}: {reason}"
            _log.error("The work on %s failed", message, exc_info=error)
        try:
            try:
                if isinstance(error, Reject):
                    await message.reject_or_nack(reason)
                else:
                    await message.nack(delay_s, reason)
            except (InvalidRequest, TypeError):  # a subclass of `Retry` may have invalid values
                await message.nack(reason=reason_of(error))
        except Exception as failed:
            _log.warning("%s will be delivered again when its lease expires: %s", message, failed)
