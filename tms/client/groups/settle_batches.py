"""Settles of one member, in batches: those made during a request go with the next one.

A call returns when its settle is durable. If a request fails, so do all its settles. A caller with
a deadline waits no longer than that.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from tms.core.runtime.deadlines import in_time, without_deadline
from tms.core.values.groups import Acks, Nacks, Refusal, Releases, Settle, Settled

SETTLED_AT_ONCE_MAX = 1_000

Part = Acks | Nacks | Releases
"""A settle of one message."""


@dataclass(slots=True)
class _Wanted:
    part: Part
    done: "asyncio.Future[Refusal | None]"
    is_sent: bool = False


class SettleBatches:
    """Settles that wait to be sent, and the request in progress."""

    def __init__(self, send: Callable[[Settle], Awaitable[Settled]]) -> None:
        """Send settles by `send`, one call at a time."""
        self._send = send
        self._wanted: list[_Wanted] = []
        self._sending: asyncio.Task[None] | None = None

    async def settle(self, part: Part) -> Refusal | None:
        """Settle with the next request; return the refusal, if any."""
        waiting = _Wanted(part, asyncio.get_running_loop().create_future())
        return await in_time(partial(self._settled, waiting), lambda: waiting.is_sent)

    async def _settled(self, waiting: _Wanted) -> Refusal | None:
        self._wanted.append(waiting)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all(), context=without_deadline())
        return await waiting.done

    async def _send_all(self) -> None:
        try:
            while self._wanted:
                batch = self._wanted[:SETTLED_AT_ONCE_MAX]
                del self._wanted[:SETTLED_AT_ONCE_MAX]
                await self._send_batch([each for each in batch if not each.done.done()])
        finally:
            self._sending = None

    async def _send_batch(self, batch: list[_Wanted]) -> None:
        if not batch:  # its caller has gone
            return
        for request in batch:
            request.is_sent = True
        parts = [each.part for each in batch]
        settle = Settle(
            [part for part in parts if isinstance(part, Acks)],
            [part for part in parts if isinstance(part, Nacks)],
            [part for part in parts if isinstance(part, Releases)],
        )
        try:
            settled = await self._send(settle)
        except Exception as error:
            for each in batch:
                if not each.done.done():
                    each.done.set_exception(error)
            return
        refused = {(each.delivery, each.id): each.reason for each in settled.refused}
        for each in batch:
            reasons = (
                refused.get((each.part.delivery, which)) for which in (*(each.part.ids or ()), None)
            )
            if not each.done.done():
                each.done.set_result(next(filter(None, reasons), None))
