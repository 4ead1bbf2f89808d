"""A worker for threads: `AsyncGroupWorker` in the client's loop, with the function in threads."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable
from threading import current_thread, main_thread
from typing import Any

from tms.client.async_group_message import UNSETTLED, AsyncGroupMessage
from tms.client.async_transaction import AsyncTransactionContext
from tms.client.async_worker import AsyncGroupWorker, WorkerSettings
from tms.client.bridge import Bridge
from tms.client.daemon_threads import DaemonThreads
from tms.client.group_message import GroupMessage
from tms.client.held_messages import HeldMessages, TakeSettings
from tms.client.participants import TransactionAware
from tms.client.transaction import TransactionContext


class GroupWorker:
    """A function that works on a group's messages. Made by `TopicGroup.worker`."""

    def __init__(
        self,
        hold: Callable[[TakeSettings], Awaitable[HeldMessages]],
        bridge: Bridge,
        function: Callable[..., Any],
        begin: Callable[..., AsyncTransactionContext] | None,
        participants: Callable[[], Iterable[TransactionAware]],
        *,
        settings: WorkerSettings,
    ) -> None:
        """Call `function` in threads, in a transaction of `begin` if that is given."""
        self._bridge = bridge
        self._function = function
        self._begin = begin
        self._participants = participants
        self._worker = AsyncGroupWorker(hold, self._handle_in_thread, settings)
        self._concurrency = settings.concurrency
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_to_stop = False

    def stop(self) -> None:
        """Have `run` end: it takes no more, and waits for what is worked on.

        Any thread and any signal handler may call it, also before `run` has begun.
        """
        self._is_to_stop = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._worker.stop)

    def run(self) -> None:
        """Work until `stop` is called or SIGTERM comes. Raises what a take raises.

        SIGTERM is looked after where this is called in the main thread.
        """
        if current_thread() is not main_thread():
            self._bridge.call(self._run_in_loop)
            return
        before = signal.signal(signal.SIGTERM, lambda *_: self.stop())
        try:
            self._bridge.call(self._run_in_loop)
        finally:
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)

    async def _run_in_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        # Of its own: those of the loop are few, and the loop needs them.
        self._threads = DaemonThreads("tms-group-worker", self._concurrency + 1)
        if self._is_to_stop:
            self._worker.stop()
        try:
            await self._worker.run_on()
        finally:
            self._loop = None
            self._is_to_stop = False
            self._threads.shutdown(wait=False)

    async def _handle_in_thread(self, message: AsyncGroupMessage) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._handle, message)

    def _handle(self, taken: AsyncGroupMessage) -> None:
        message = GroupMessage(taken, self._bridge)
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
