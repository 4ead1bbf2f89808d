"""Keeps something up to date with a metadata store: the only way in which changes are followed.

1. `bring_up_to_date` is called after each reported change, when a connection comes back, and after
   `wake`. If it raises, it is called again, so it must find its own unfinished work.
2. Only one call runs at a time. If something happens during a call, there is one more call.
3. If the store fails, the next call is after `RETRY_S`, or earlier if something happens. The log
   warns once until a call returns.

Used from the event loop of the store, which stays open when this is closed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from tms.core.errors import TmsError
from tms.core.runtime.supervision import supervised
from tms.metadata.interface import MetadataStore, Notification, SessionEvent

RETRY_S = 1.0

_log = logging.getLogger(__name__)


def always(_: object) -> bool:
    """Accept every event."""
    return True


def is_back(event: SessionEvent) -> bool:
    """Whether a store is reached again, so that changes may have been missed."""
    return event in (SessionEvent.RECONNECTED, SessionEvent.SESSION_REESTABLISHED)


class Following:
    """One task that follows a store."""

    def __init__(
        self,
        store: MetadataStore,
        path: str | None,
        name: str,
        bring_up_to_date: Callable[[], Awaitable[None]],
        *,
        hear: Callable[[Notification], bool] = always,
        happen: Callable[[SessionEvent], bool] = is_back,
    ) -> None:
        """Prepare to follow changes at `path` and below, or of no path; call `open` next.

        `name` describes the task in the log. `hear` and `happen` decide which events wake it.
        """
        self.ending = asyncio.Event()
        """Set once the store is no longer followed."""
        self._name = name
        self._bring_up_to_date = bring_up_to_date
        self._hears = hear
        self._happens = happen
        self._stops = [store.observe_session(self._happen)]
        if path is not None:
            self._stops.append(store.observe(self._hear, path))
        self._has_news = asyncio.Event()
        self._is_failing = False
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Bring it up to date once, then follow. Raises as `bring_up_to_date` does."""
        await self._bring_up_to_date()
        self.start()

    def start(self) -> None:
        """Start following."""
        self._task = supervised(self._name, self._follow, until=self.ending)

    def wake(self) -> None:
        """Make it be brought up to date soon."""
        self._has_news.set()

    def leave(self) -> None:
        """Stop following the store. A running read continues: `ended` waits for it."""
        for stop in self._stops:
            stop()
        self.ending.set()
        self.wake()

    async def ended(self) -> None:
        """Return once no call is in progress."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Stop following the store, and cancel the call in progress."""
        self.leave()
        if self._task is not None:
            self._task.cancel()
            await self.ended()

    def _hear(self, notification: Notification) -> None:
        if self._hears(notification):
            self.wake()

    def _happen(self, event: SessionEvent) -> None:
        if self._happens(event):
            self.wake()

    async def _follow(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            if self.ending.is_set():
                return
            try:
                await self._bring_up_to_date()
            except TmsError as error:
                level = logging.INFO if self._is_failing else logging.WARNING
                _log.log(level, "%s has not succeeded yet: %s", self._name, error)
                self._is_failing = True
                with suppress(TimeoutError):
                    # `wait_for` may lose a cancellation that coincides with an event.
                    async with asyncio.timeout(RETRY_S):
                        await self._has_news.wait()
                self.wake()
            except BaseException:
                self.wake()  # for the next call
                raise
            else:
                self._is_failing = False
