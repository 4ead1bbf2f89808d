"""The endless loop of a subscription's only reader: waits outside, works inside a transaction.

While there are no messages, it polls and writes nothing. One commit covers the handler's work and
the move of the position.
"""

import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any

import anyio

from tms.client.groups.async_group_message import Retry
from tms.client.remote.retry import may_pass
from tms.client.transactions.async_transaction import AsyncTransactionContext
from tms.client.transactions.participants import TransactionAware
from tms.core.errors import TransactionConflict
from tms.core.values.message import Message

WAIT_S = 20.0
PAUSE_S = 1.0
"""The pause after a temporary failure, and after a `Retry` without a delay."""
EMPTY_S_MIN = 0.1

Participants = Callable[[], Iterable[TransactionAware]]


def _pause_after(error: Exception) -> float | None:
    """Return the seconds until the work is repeated; None if it is not."""
    if isinstance(error, Retry):
        return PAUSE_S if error.delay_s is None else error.delay_s
    if isinstance(error, TransactionConflict):
        return EMPTY_S_MIN
    return PAUSE_S if may_pass(error) else None


async def run_in_loop(
    subscription: Any,
    handler: Callable[[Message, AsyncTransactionContext], Awaitable[Any]],
    begin: Callable[..., AsyncTransactionContext],
    participants: Participants,
    limit: int,
    *,
    chosen: str | None,
) -> None:
    """Work without end on an `AsyncSubscription`.

    Raises errors of the handler, and those that are not temporary.
    """

    async def polled(**options: Any) -> list[Message]:
        async with aclosing(subscription.poll(filter=chosen, **options)) as messages:
            return [message async for message in messages]

    while True:
        try:
            if not await polled(limit=1, committed=True, wait_s=WAIT_S):
                if subscription.passed is not None:
                    await subscription.advance(subscription.passed)
                await anyio.sleep(EMPTY_S_MIN)
                continue
            async with begin(participants=participants()) as tx:
                messages = await polled(limit=limit, tx=tx)
                for message in messages:
                    await handler(message, tx)
                if messages:
                    await subscription.advance(subscription.passed or messages[-1], tx)
        except Exception as error:
            pause_s = _pause_after(error)
            if pause_s is None:
                raise
            await anyio.sleep(pause_s)


def run_in_thread(
    subscription: Any,
    handler: Callable[[Message, Any], Any],
    begin: Callable[[Iterable[TransactionAware]], Any],
    participants: Participants,
    limit: int,
    *,
    chosen: str | None,
) -> None:
    """Work without end on a `Subscription`, in this thread. Raises as `run_in_loop`."""
    while True:
        try:
            if not list(subscription.poll(1, committed=True, wait_s=WAIT_S, filter=chosen)):
                if subscription.passed is not None:
                    subscription.advance(subscription.passed)
                time.sleep(EMPTY_S_MIN)
                continue
            with begin(participants()) as tx:
                messages = list(subscription.poll(limit, tx=tx, filter=chosen))
                for message in messages:
                    handler(message, tx)
                if messages:
                    subscription.advance(subscription.passed or messages[-1], tx)
        except Exception as error:
            pause_s = _pause_after(error)
            if pause_s is None:
                raise
            time.sleep(pause_s)
