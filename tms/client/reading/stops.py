"""Logs at which transactions the readers of a client wait, once for each transaction.

A reader of committed messages, or one in a transaction, stops at the first message whose
transaction is in progress. If the client of that transaction died, the reader waits until its
timeout, and could not see why. The server, or the store, reports where a reader has stopped
(`tms.core.services.messaging.Stopped`).

It runs in the client's event loop on its own: no reader waits for it or fails because of it.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tms.core.errors import TmsError, TransactionUnknown
from tms.core.runtime.deadlines import without_deadline
from tms.core.runtime.forks import tell_in_child
from tms.core.services.messaging import STOPPED_S, Stopped
from tms.core.services.server_services import Services
from tms.core.services.transactions import TransactionStatus, standing
from tms.core.values.reading import Isolation, View
from tms.core.values.topic import TopicId

LOG_AFTER_S = 5.0
_KEPT_MAX = 1_000
"""How many transactions are remembered; the oldest entries are forgotten first."""
_LOGGED = float("-inf")
_IN_PROGRESS = (TransactionStatus.IN_PROGRESS, TransactionStatus.COMMITTING)
_log = logging.getLogger("tms.client")


class Stops:
    """The transactions at which readers of one client wait."""

    def __init__(self, services: Services) -> None:
        """Read the states of transactions by `services`."""
        self.after_s = LOG_AFTER_S
        """How long a reader waits at a transaction before that is logged."""
        self._services = services
        self._since: OrderedDict[int, float] = OrderedDict()
        """Since when, in monotonic seconds, a reader has waited at a transaction; or `_LOGGED`."""
        self._tasks: set[asyncio.Task[None]] = set()
        tell_in_child(self)

    @contextmanager
    def watched(self, topic_id: TopicId, view: View) -> Iterator[Stopped]:
        """Yield the function to which a poll reports its stops; the poll ends with the block."""
        asked_s = time.monotonic()
        timer: asyncio.TimerHandle | None = None

        def stopped(transaction_id: int) -> None:
            nonlocal timer
            if timer is not None:
                timer.cancel()
            left_s = self._stood_since(transaction_id, asked_s) + self.after_s - time.monotonic()
            log_soon = partial(self._log_soon, topic_id, view, transaction_id)
            if left_s > 0:
                timer = asyncio.get_running_loop().call_later(left_s, log_soon)
            else:  # now: a poll that does not wait ends before any timer fires
                log_soon()

        try:
            yield stopped
        finally:
            if timer is not None:
                timer.cancel()

    def forget_parent(self) -> object:
        """Give up the tasks of the parent."""
        tasks, self._tasks = self._tasks, set()
        return tasks

    async def close(self) -> None:
        """Log nothing more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _stood_since(self, transaction_id: int, asked_s: float) -> float:
        # The server reports a stop `STOPPED_S` later, unless the poll began after that.
        since_s = max(asked_s, time.monotonic() - STOPPED_S)
        if len(self._since) >= _KEPT_MAX and transaction_id not in self._since:
            self._since.popitem(last=False)
        return self._since.setdefault(transaction_id, since_s)

    def _log_soon(self, topic_id: TopicId, view: View, transaction_id: int) -> None:
        """Start logging a stop, unless another poll has."""
        if self._since.get(transaction_id) == _LOGGED:
            return
        self._since[transaction_id] = _LOGGED
        logs, context = self._log_stop(topic_id, view, transaction_id), without_deadline()
        task = asyncio.get_running_loop().create_task(logs, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _log_stop(self, topic_id: TopicId, view: View, transaction_id: int) -> None:
        then = "later messages follow when it has ended"
        try:
            info = await self._services.transactions.info(transaction_id)
        except (TransactionUnknown, RuntimeError):
            return  # it has just ended, or the client is being closed
        except TmsError:  # for example, it is another principal's transaction
            who = f"transaction {transaction_id}"
        else:
            who = standing(info)
            if info.status not in _IN_PROGRESS:
                if isinstance(view, Isolation):
                    return  # it has just ended
                then = "the reader's own transaction began before it, and sees no later messages"
        _log.warning("Waiting in %s: stopped at %s; %s", topic_id, who, then)
