"""A page of a list: the first of many things after a key, in order."""

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
    """The key of the last one if there are more, otherwise empty."""


async def first_of(
    things: Iterable[T],
    key: Callable[[T], str],
    after: str,
    matches: Callable[[T], bool] = lambda _: True,
) -> Listed:
    """Return a page of the things that match and whose keys are above `after`, by key.

    It gives other tasks a turn in between. Keys are unique, and not empty.
    """
    first: list[T] = []
    remaining = iter(things)
    while some := list(islice(remaining, _AT_ONCE)):
        matching = [thing for thing in some if key(thing) > after and matches(thing)]
        first = nsmallest(PAGE + 1, [*first, *matching], key=key)
        await asyncio.sleep(0)
    shown = first[:PAGE]
    return Listed(shown, key(shown[-1]) if len(first) > PAGE else "")
