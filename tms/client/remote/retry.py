"""When a failed call is made again, and after how long.

A call that only reads, or that does the same when done twice, is repeated after any failure that
may pass. A call that adds something is repeated only where it certainly was not carried out: no
connection was made, or the server refused it before doing anything. After a write whose outcome the
server does not know, it answers `outcome_unknown`, and not `store_unavailable`.

A transaction that conflicts is run again from its beginning (`reruns`).

A server's Retry-After is kept to; otherwise the pauses double from 0.1 s to 5 s. What is made again
is logged by the logger `tms.client`.
"""

import logging
from collections.abc import Callable, Coroutine
from math import inf
from time import monotonic
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
    ServerSilent,
    ServerUnreachable,
    SubscriptionMoved,
    TmsError,
    TransactionConflict,
    Unavailable,
)
from tms.core.runtime.deadlines import seconds_left

RETRY_AFTER_S = "retry_after_s"
"""The name in an error's detail of the seconds that the server asked to wait."""

_REFUSED_BEFORE_DOING = frozenset(
    {
        "debug_busy",
        "no_leader",
        "publish_rate_exceeded",
        "queue_full",
        "server_unreachable",
        "stopping",
        "store_unavailable",
        "too_many_changes_kept",
        "too_many_transactions",
    }
)
_log = logging.getLogger("tms.client")
_backoff = wait_exponential(multiplier=0.1, max=5.0) + wait_random(0, 0.1)

Result = TypeVar("Result")


def may_pass(error: BaseException) -> bool:
    """Whether a call that is safe to repeat may succeed after `error`."""
    if isinstance(error, ServerSilent):  # most likely a wrong address: told, not waited for
        return False
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

    No pause is begun that would end later than `for_s` seconds after the start, or than the
    deadline (`tms.core.runtime.deadlines`); None is for ever. Each is logged with its reason, and
    so is the success. Raises the last call's error; but if an earlier call may have been carried
    out and the last one certainly was not, the earlier one's, for nobody may take it for undone.
    """
    left_s = seconds_left()
    if left_s < (inf if for_s is None else for_s):
        for_s = left_s
    attempts = AsyncRetrying(**again(when, for_s))
    begun_s = monotonic()
    lost: OutcomeUnknown | None = None

    async def attempt() -> Result:
        nonlocal lost
        try:
            return await call()
        except OutcomeUnknown as error:
            if type(error) is OutcomeUnknown:
                lost = error
            raise

    try:
        result: Result = await attempts(attempt)
    except TmsError as error:
        if lost is None or not was_not_done(error):
            raise
        raise lost from None
    finally:
        lost = None  # else it would hold itself, by its traceback
    number = attempts.statistics["attempt_number"]
    if number > 1:
        _log.info("Answered again, after %.1f s and %d attempts", monotonic() - begun_s, number)
    return result


def again(when: Callable[[BaseException], bool], for_s: float | None) -> dict[str, Any]:
    """Return how tenacity calls again, as `repeat` has it."""
    return {
        "retry": retry_if_exception(when),
        "stop": stop_never if for_s is None else stop_before_delay(for_s),
        "wait": _pause_s,
        "before_sleep": _log_pause,
        "reraise": True,
    }


def _log_pause(state: RetryCallState) -> None:
    """Log why a call is made again, and when; what a person should know, once, as a warning."""
    error = state.outcome.exception() if state.outcome else None
    level, why = logging.INFO, str(error)
    if isinstance(error, ServerUnreachable | OutcomeUnknown) and "reason" in error.detail:
        level = logging.WARNING if state.attempt_number == 1 else logging.INFO
        what = "connection to" if isinstance(error, ServerUnreachable) else "answer from"
        why = f"No {what} {error.detail.get('url')} ({error.detail.get('reason')})"
    _log.log(level, "%s: trying again in %.1f s", why, state.upcoming_sleep)


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
