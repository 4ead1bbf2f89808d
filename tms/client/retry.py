"""When a failed call is made again, and after how long.

A call that only reads, or that does the same when done twice, is repeated after any failure that
may pass. A call that adds something is repeated only where it certainly was not carried out: no
connection was made, or the server refused it before doing anything. `store_unavailable` is not
among those: whether the failed write is found there later is not known.

A transaction that conflicts is run again from its beginning (`reruns`).

A server's Retry-After is kept to; otherwise the pauses double from 0.1 s to 5 s.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_attempt,
    stop_before_delay,
    stop_never,
    wait_exponential,
    wait_random,
    wait_random_exponential,
)

from tms.core.errors import (
    OutcomeUnknown,
    SubscriptionMoved,
    TmsError,
    TransactionConflict,
    Unavailable,
)

RETRY_AFTER_S = "retry_after_s"
"""The name in an error's detail of the seconds that the server asked to wait."""

_REFUSED_BEFORE_DOING = frozenset(
    {
        "no_leader",
        "publish_rate_exceeded",
        "queue_full",
        "server_unreachable",
        "stopping",
        "too_many_changes_kept",
        "too_many_transactions",
    }
)
_backoff = wait_exponential(multiplier=0.1, max=5.0) + wait_random(0, 0.1)

Result = TypeVar("Result")


def may_pass(error: BaseException) -> bool:
    """Whether a call that is safe to repeat may succeed after `error`."""
    return isinstance(error, Unavailable | OutcomeUnknown)


def was_not_done(error: BaseException) -> bool:
    """Whether `error` guarantees that nothing was done, and may pass."""
    return isinstance(error, TmsError) and error.problem.code in _REFUSED_BEFORE_DOING


def _pause_s(state: RetryCallState) -> float:
    pause_s = _backoff(state)
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, TmsError):
        pause_s = max(pause_s, float(error.detail.get(RETRY_AFTER_S, 0)))
    return pause_s


async def repeat(
    call: Callable[[], Coroutine[Any, Any, Result]],
    *,
    when: Callable[[BaseException], bool],
    for_s: float | None,
) -> Result:
    """Return what `call` gives, calling again as long as `when` holds for what it raises.

    No pause is begun that would end later than `for_s` seconds after the start; None is for ever.
    Raises the last call's error.
    """
    attempts = AsyncRetrying(
        retry=retry_if_exception(when),
        stop=stop_never if for_s is None else stop_before_delay(for_s),
        wait=_pause_s,
        reraise=True,
    )
    return await attempts(call)


def reruns(retries: int) -> dict[str, Any]:
    """Return how tenacity runs a transaction again, `retries` times, after a conflict.

    Random pauses, for two that conflict would meet again otherwise.
    """
    return {
        "retry": retry_if_exception_type((TransactionConflict, SubscriptionMoved)),
        "stop": stop_after_attempt(retries + 1),
        "wait": wait_random_exponential(multiplier=0.02, max=1.0),
        "reraise": True,
    }
