"""The first of many things in an order, behind one of them: a page of a list."""

import asyncio
from collections.abc import Callable, Iterable
from heapq import nsmallest
from itertools import islice
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
PAGE = 100
_AT_ONCE = 2_000


class Listed(NamedTuple):
    """A page of a list."""

    things: list[Any]
    next: str
    """The key of the last one if there are more, else empty."""


async def first_of(
    things: Iterable[T],
    key: Callable[[T], str],
    after: str,
    is_wanted: Callable[[T], bool] = lambda _: True,
) -> Listed:
    """Return a page of the wanted things whose keys are behind `after`, in the order of their keys.

    Others have their turn meanwhile. Keys are not empty, and each is that of one thing alone.
    """
    found: list[T] = []
    left = iter(things)
    while some := list(islice(left, _AT_ONCE)):
        wanted = [each for each in some if key(each) > after and is_wanted(each)]
        found = nsmallest(PAGE + 1, [*found, *wanted], key=key)
        await asyncio.sleep(0)
    shown = found[:PAGE]
    return Listed(shown, key(shown[-1]) if len(found) > PAGE else "")
