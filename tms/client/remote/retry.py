"""When a failed call is repeated, and after how long.

A call that only reads, or that does the same when done twice, is repeated after any temporary
failure. A call that adds something is repeated only if it certainly was not carried out: no
connection was made, or the server refused it before doing anything. If the server does not know the
outcome of a write, it answers `outcome_unknown`, not `store_unavailable`.

A transaction that conflicts is run again from the start (`reruns`).

A server's Retry-After is respected; otherwise the pauses double from 0.1 s to 5 s. The logger
`tms.client` logs repeated calls.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from math import inf
from random import random
from time import monotonic, sleep
from typing import Any, TypeVar

from tenacity import retry_if_exception_type, stop_after_attempt, wait_random_exponential

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
"""The name, in an error's details, of the seconds that the server asked to wait."""

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

Result = TypeVar("Result")


def may_pass(error: BaseException) -> bool:
    """Whether a call that is safe to repeat may succeed after `error`."""
    if isinstance(error, ServerSilent):  # most likely a wrong address: report it at once
        return False
    return isinstance(error, Unavailable | OutcomeUnknown)


def was_not_done(error: BaseException) -> bool:
    """Whether `error` guarantees that nothing was done, and may be temporary."""
    return isinstance(error, TmsError) and error.problem.code in _REFUSED_BEFORE_DOING


def _backoff(number: int) -> float:
    return min(0.1 * (1 << min(number - 1, 10)), 5.0) + 0.1 * random()  # noqa: S311  no secret


async def repeat(
    call: Callable[[], Awaitable[Result]],
    *,
    when: Callable[[BaseException], bool],
    for_s: float | None,
) -> Result:
    """Call `call`, and again after errors for which `when` is true; return its result.

    No pause begins that would end later than `for_s` seconds after the start (None means no limit),
    or than the deadline (`tms.core.runtime.deadlines`). Each pause is logged with its reason, and
    so is the success. Raises the last call's error; but if an earlier call may have been carried
    out and the last one certainly was not, the earlier one's, because the caller must not take it
    for undone.
    """
    begun_s, number = monotonic(), 1
    left_s = seconds_left()
    if left_s < (inf if for_s is None else for_s):
        for_s = left_s
    lost: OutcomeUnknown | None = None
    try:
        while True:
            try:
                result = await call()
            except Exception as error:
                pause_s = _pause_after(error, number, begun_s, when, for_s)
                if pause_s is None:
                    if lost is not None and was_not_done(error):
                        raise lost from None
                    raise
                if type(error) is OutcomeUnknown:
                    lost = error
            else:
                if number > 1:
                    _log_success(number, begun_s)
                return result
            await asyncio.sleep(pause_s)
            number += 1
    finally:
        lost = None  # otherwise it keeps itself alive, by its traceback


def repeat_in_thread(
    call: Callable[[], Result], *, when: Callable[[BaseException], bool], for_s: float | None
) -> Result:
    """Do the same for a blocking call."""
    begun_s, number = monotonic(), 1
    while True:
        try:
            return call()
        except Exception as error:
            pause_s = _pause_after(error, number, begun_s, when, for_s)
            if pause_s is None:
                raise
        sleep(pause_s)
        number += 1


def _pause_after(
    error: Exception,
    number: int,
    begun_s: float,
    when: Callable[[BaseException], bool],
    for_s: float | None,
) -> float | None:
    """Return how long to pause before the next attempt, and log it; None if there is none."""
    if not when(error):
        return None
    pause_s = _backoff(number)
    if isinstance(error, TmsError):
        pause_s = max(pause_s, float(error.detail.get(RETRY_AFTER_S, 0)))
    if for_s is not None and monotonic() - begun_s + pause_s >= for_s:
        return None
    _log_pause(error, number, pause_s)
    return pause_s


def _log_pause(error: Exception, number: int, pause_s: float) -> None:
    """Log why and when a call is repeated; a cause that people should know, once as a warning."""
    level, why = logging.INFO, str(error)
    if isinstance(error, ServerUnreachable | OutcomeUnknown) and "reason" in error.detail:
        level = logging.WARNING if number == 1 else logging.INFO
        what = "connection to" if isinstance(error, ServerUnreachable) else "answer from"
        why = f"No {what} {error.detail.get('url')} ({error.detail.get('reason')})"
    _log.log(level, "%s: trying again in %.1f s", why, pause_s)


def _log_success(number: int, begun_s: float) -> None:
    _log.info("Answered again, after %.1f s and %d attempts", monotonic() - begun_s, number)


def reruns(retries: int) -> dict[str, Any]:
    """Return tenacity's options to run a transaction again after a conflict, `retries` times.

    The pauses are random, because two that conflict would meet again otherwise.
    """
    return {
        "retry": retry_if_exception_type((TransactionConflict, SubscriptionMoved)),
        "stop": stop_after_attempt(retries + 1),
        "wait": wait_random_exponential(multiplier=0.02, max=1.0),
        "reraise": True,
    }
