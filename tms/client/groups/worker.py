"""A worker for threads: an `AsyncGroupWorker` in the client's loop that calls threads."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

from tms.client.groups.async_group_message import UNSETTLED, AsyncGroupMessage
from tms.client.groups.async_worker import AsyncGroupWorker, WorkerSettings
from tms.client.groups.database_recovery import Recover
from tms.client.groups.group_message import GroupMessage
from tms.client.groups.held_messages import HeldMessages
from tms.client.groups.take_settings import TakeSettings
from tms.client.groups.worker_recovery import WorkerRecovery, recoveries_of
from tms.client.threads.bridge import Bridge
from tms.client.threads.daemon_threads import DaemonThreads
from tms.client.threads.sigterm import stopping_at_sigterm
from tms.client.transactions.async_transaction import AsyncTransactionContext
from tms.client.transactions.participants import TransactionAware
from tms.client.transactions.transaction import TransactionContext
from tms.core.errors import TmsError
from tms.core.services.transactions import AsyncTransactions

_log = logging.getLogger("tms.client")


class GroupWorker:
    """Calls a function with a group's messages. Made by `TopicGroup.worker`."""

    def __init__(
        self,
        hold: Callable[[TakeSettings], Awaitable[HeldMessages]],
        bridge: Bridge,
        function: Callable[..., Any],
        begin: Callable[..., AsyncTransactionContext] | None,
        participants: Callable[[], Iterable[TransactionAware]],
        *,
        settings: WorkerSettings,
        transactions: AsyncTransactions,
    ) -> None:
        """Call `function` in threads, in a transaction if `begin` is set."""
        self._bridge = bridge
        self._function = function
        self._begin = begin
        self._participants = participants
        self._recovery = WorkerRecovery(transactions, self._recoveries) if begin else None
        self._worker = AsyncGroupWorker(hold, self._handle_in_thread, settings, self._recovery)
        self._concurrency = settings.concurrency
        self._limit = settings.limit
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_to_stop = False

    def stop(self) -> None:
        """Make `run` end: it takes no more, and waits for work in progress.

        Any thread and any signal handler may call it, even before `run` has begun.
        """
        self._is_to_stop = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._worker.stop)

    def run(self) -> None:
        """Work until `stop` is called or SIGTERM arrives.

        Raises what a take raises, and what ended the worker's function if it was to end the
        program. SIGTERM is looked after where this is called in the main thread; it stops all
        workers there, and calls the program's own handler too. A second one does not let them wait
        for what is worked on.
        """
        with stopping_at_sigterm(self.stop, self._stop_now):
            self._bridge.call(self._run_in_loop)

    def _stop_now(self) -> None:
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._worker.stop_now)

    async def _run_in_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        # Its own threads: the loop has few, and needs them.
        self._threads = DaemonThreads("tms-group-worker", self._concurrency + 1)
        if self._is_to_stop:
            self._worker.stop()
        try:
            await self._worker.run_on()
        finally:
            self._loop = None
            self._is_to_stop = False
            self._threads.shutdown(wait=False)

    async def _handle_in_thread(self, message: AsyncGroupMessage) -> BaseException | None:
        loop = asyncio.get_running_loop()
        working = loop.run_in_executor(self._threads, self._handle, message)
        if self._limit.work_s is not None:
            await asyncio.wait({working}, timeout=self._limit.work_s)
            if not working.done() and await self._take_away(message):
                error = await working
                return error if isinstance(error, SystemExit | KeyboardInterrupt) else None
        return await working

    async def _take_away(self, message: AsyncGroupMessage) -> bool:
        """Fail a message whose work takes too long; its thread continues."""
        reason = self._limit.reason
        try:
            if not await message.take_away(reason):
                return False
        except TmsError as failed:
            _log.warning("%s will be delivered again when its lease expires: %s", message, failed)
        _log.error("Gave back %s: %s. Its thread cannot be stopped, and continues", message, reason)
        return True

    def _handle(self, taken: AsyncGroupMessage) -> BaseException | None:
        """Process it in this thread; return its error, because a future cannot carry every one."""
        try:
            self._work(GroupMessage(taken, self._bridge))
        except BaseException as error:
            return None if self._bridge.ends_with_program else error
        return None

    def _work(self, message: GroupMessage) -> None:
        if self._begin is None:
            self._function(message)
            if message.settling in UNSETTLED:
                message.ack()
            return
        begun = self._begin(participants=self._participants())
        with TransactionContext(begun, self._bridge) as tx:
            self._function(message, tx)
            if message.settling in UNSETTLED:
                message.ack(tx)
        loop = self._loop
        if tx.suppressed and self._recovery is not None and loop is not None:
            with suppress(RuntimeError):  # the client is closed
                loop.call_soon_threadsafe(self._recovery.want)  # some rows may still be prepared

    async def _recoveries(self) -> list[Recover]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, lambda: recoveries_of(self._participants())
        )
