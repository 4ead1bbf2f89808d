"""Tells in the log at which transaction readers of a client stand still, once for each.

A reader of what is committed, or by a transaction, stops at the first message whose transaction is
in progress. If that one's client died, it waits until the transaction's timeout, and would not know
why. The server, or the store, says where a reader has stopped
(`tms.core.services.messaging.Stopped`).

In the event loop of the client, on its own: no reader waits for it, and none fails by it.
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
"""How many transactions are remembered; those are forgotten first that have been known longest."""
_TOLD = float("-inf")
_IN_PROGRESS = (TransactionStatus.IN_PROGRESS, TransactionStatus.COMMITTING)
_log = logging.getLogger("tms.client")


class Stops:
    """The transactions at which readers of one client stand still."""

    def __init__(self, services: Services) -> None:
        """Look at transactions by `services`."""
        self.after_s = LOG_AFTER_S
        """How long a reader stands still before that is told."""
        self._services = services
        self._since: OrderedDict[int, float] = OrderedDict()
        """Since when, in monotonic seconds, a reader has stood at a transaction; or `_TOLD`."""
        self._telling: set[asyncio.Task[None]] = set()
        tell_in_child(self)

    @contextmanager
    def watched(self, topic_id: TopicId, view: View) -> Iterator[Stopped]:
        """Give what a poll is to tell of where it stops; at the end of the block it has ended."""
        asked_s = time.monotonic()
        timer: asyncio.TimerHandle | None = None

        def stopped(transaction_id: int) -> None:
            nonlocal timer
            if timer is not None:
                timer.cancel()
            left_s = self._stood_since(transaction_id, asked_s) + self.after_s - time.monotonic()
            tell = partial(self._tell, topic_id, view, transaction_id)
            if left_s > 0:
                timer = asyncio.get_running_loop().call_later(left_s, tell)
            else:  # at once: a poll that does not wait ends before any timer
                tell()

        try:
            yield stopped
        finally:
            if timer is not None:
                timer.cancel()

    def forget_parent(self) -> object:
        """Give up the tasks that are the parent's."""
        telling, self._telling = self._telling, set()
        return telling

    async def close(self) -> None:
        """Tell nothing any more."""
        for task in self._telling:
            task.cancel()
        await asyncio.gather(*self._telling, return_exceptions=True)

    def _stood_since(self, transaction_id: int, asked_s: float) -> float:
        # It is told of a stop a while after that, unless the poll was asked later.
        since_s = max(asked_s, time.monotonic() - STOPPED_S)
        if len(self._since) >= _KEPT_MAX and transaction_id not in self._since:
            self._since.popitem(last=False)
        return self._since.setdefault(transaction_id, since_s)

    def _tell(self, topic_id: TopicId, view: View, transaction_id: int) -> None:
        """Tell of one soon, unless another poll has."""
        if self._since.get(transaction_id) == _TOLD:
            return
        self._since[transaction_id] = _TOLD
        told, context = self._told(topic_id, view, transaction_id), without_deadline()
        task = asyncio.get_running_loop().create_task(told, context=context)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _told(self, topic_id: TopicId, view: View, transaction_id: int) -> None:
        then = "later messages follow when it has ended"
        try:
            info = await self._services.transactions.info(transaction_id)
        except (TransactionUnknown, RuntimeError):
            return  # it has just ended, or the client is being closed
        except TmsError:  # such as that only others may look at it
            who = f"transaction {transaction_id}"
        else:
            who = standing(info)
            if info.status not in _IN_PROGRESS:
                if isinstance(view, Isolation):
                    return  # it has just ended
                then = "the reader's own transaction began before it, and sees no later messages"
        _log.warning("Waiting in %s: stopped at %s; %s", topic_id, who, then)
