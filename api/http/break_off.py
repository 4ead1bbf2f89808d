"""Breaks off the work on a request that is no longer of use, whatever it waits for.

That is so if its client is gone, if its caller lost the permission, or if `break_off` is called.
Then its task is cancelled, and an error says why, as with `asyncio.timeout`.
"""

import asyncio
from types import TracebackType

from api.http.exchange import ClientGone, Exchange


class BreakOff:
    """A context in which a request is at work. It needs a task."""

    __slots__ = (
        "_at_end_of_side",
        "_at_work",
        "_cancelling",
        "_check_s",
        "_checking",
        "_error",
        "_exchange",
        "_loop",
        "_task",
        "_timer",
    )

    def __init__(
        self,
        exchange: Exchange,
        loop: asyncio.AbstractEventLoop,
        *,
        check_s: float,
        at_end_of_side: bool,
        at_work: "set[BreakOff] | None" = None,
    ) -> None:
        """Check the caller's permission each `check_s`. It is in `at_work` while it lasts.

        With `at_end_of_side`, a client that has only ended its side counts as gone too.
        """
        self._exchange = exchange
        self._at_work = at_work
        self._loop = loop
        self._check_s = check_s
        self._at_end_of_side = at_end_of_side
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._checking: asyncio.Task[None] | None = None

    def break_off(self, error: Exception) -> None:
        """Make the context raise `error`. Not to be called by the task itself."""
        if self._error is None and self._task is not None:
            self._error = error
            self._task.cancel()

    def __enter__(self) -> None:
        """Begin. Raises `ClientGone`."""
        if self._is_gone:
            raise ClientGone
        self._task = asyncio.current_task(self._loop)
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        if self._at_work is not None:
            self._at_work.add(self)
        self._exchange.connection.on_change = self._look
        if self._exchange.admission is not None:
            self._timer = self._loop.call_later(self._check_s, self._begin_to_check)

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """End. Raises the error by which it was broken off."""
        task, self._task = self._task, None
        error, self._error = self._error, None
        if self._at_work is not None:
            self._at_work.discard(self)
        self._exchange.connection.on_change = None
        if self._timer is not None:
            self._timer.cancel()
        if self._checking is not None:
            self._checking.cancel()
        if error is None or task is None:
            return
        try:
            if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
                raise error from None
        finally:
            del error  # it keeps this frame

    @property
    def _is_gone(self) -> bool:
        connection = self._exchange.connection
        return connection.is_ended if self._at_end_of_side else connection.is_lost

    def _look(self) -> None:
        if self._is_gone:
            self.break_off(ClientGone())

    def _begin_to_check(self) -> None:
        self._checking = asyncio.ensure_future(self._check())

    async def _check(self) -> None:
        while True:
            try:
                await self._exchange.check_again()
            except Exception as error:
                self.break_off(error)
                return
            await asyncio.sleep(self._check_s)
