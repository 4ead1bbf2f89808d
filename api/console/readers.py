"""The list of readers: subscriptions and groups of all topics, with their lags."""

import asyncio
from collections.abc import Sequence

from api.console.row import Row
from api.console.visit import Answer, ShownPage, Visit
from api.http.door.guarded import DecidedBy
from api.http.protocol.numbers import whole_number
from tms.core.values.lags import ReaderLag
from tms.security.resources import Action, topic_resource

_PAGE = 100
_PASSED_MAX = 9_999_999
_ASKED_AT_ONCE = 200
"""After this number of access checks, the event loop gets a turn."""


async def readers(visit: Visit) -> Answer:
    """Show a page of readers, the longest lags first."""
    query = visit.query
    search, passed = query.get("search", ""), query.get("from", "")
    start = whole_number(passed, _PASSED_MAX) or 0
    lags = await visit.exchange.context.watch.lags()
    ordered = sorted(lags, key=lambda each: (-each.seconds, -each.messages))
    seen, is_more = await _seen(visit, ordered, search, start)
    values = {
        "search": search,
        "start": start,
        "readers": seen,
        "next": str(start + _PAGE) if is_more else "",
    }
    return ShownPage("readers.html", values)


async def _seen(
    visit: Visit, lags: Sequence[ReaderLag], search: str, start: int
) -> tuple[list[ReaderLag], bool]:
    """Return a page of the lags that the visitor may see, and whether more follow."""
    seen: list[ReaderLag] = []
    for number, lag in enumerate(lags):
        if number % _ASKED_AT_ONCE == _ASKED_AT_ONCE - 1:
            await asyncio.sleep(0)
        if search not in f"{lag.place} {lag.name}":
            continue
        if visit.may(Action.SUBSCRIBE, topic_resource(lag.namespace, lag.topic), lag.name):
            seen.append(lag)
            if len(seen) > start + _PAGE:
                break
    return seen[start : start + _PAGE], len(seen) > start + _PAGE


ROWS = (Row("Readers", "/readers", readers, Action.SUBSCRIBE, decided_by=DecidedBy.ANSWER),)
