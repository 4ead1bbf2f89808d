"""Finds arrays that a JSON Schema no longer accepts.

Items have one schema for all, or the first ones have one each, as properties have; the content
model says what may come after those. Before draft 2020-12 the keywords are `items` and
`additionalItems`, since then `prefixItems` and `items`. Pure.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tms.registry.json.json_changes import Differ, bound, difference, number_of
from tms.registry.json.json_nodes import ANY, FALSE, Keywords, SchemaNode, SchemaPlace, node_of
from tms.registry.json.json_objects import additional, unevaluated
from tms.registry.questions.questions import Incompatibility

_ADDITIONAL, _CONTAINS = "additionalItems", "contains"
_LEAST_CONTAINED = 1


class _Items(NamedTuple):
    """The items of an array."""

    all: Any
    """The schema of each; None if there is none."""
    first: list[Any]
    """The schemas of the first ones."""
    others: Any
    """The schema of those after them."""


def differences(
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    """Yield why `new` does not accept all arrays that `old` accepts."""
    before, after = old.keywords, new.keywords
    was, now = _items_of(before), _items_of(after)
    yield from _of_all(differ, old.place.below(was.all), new.place.below(now.all), path)
    yield from _of_first(differ, old, new, path)
    shorter, longer = (
        each._replace(keywords={_ADDITIONAL: items.others})
        for each, items in ((old, was), (new, now))
    )
    yield from additional(differ, shorter, longer, path, _ADDITIONAL, "ADDITIONAL_ITEMS")
    yield from bound(before, after, "maxItems", path, "MAX_ITEMS")
    yield from bound(before, after, "minItems", path, "MIN_ITEMS")
    yield from unevaluated(differ, old, new, path, "unevaluatedItems", "UNEVALUATED_ITEMS")
    yield from _contained(differ, old, new, path)
    if after.get("uniqueItems") is True and before.get("uniqueItems") is not True:
        yield difference("UNIQUE_ITEMS_ADDED", path, "no two items may be equal now")


def _contained(
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    """Yield changes in required items, and in how many there may be."""
    before, after, at = old.keywords, new.keywords, f"{path}/{_CONTAINS}"
    least, most = number_of(after, "minContains"), number_of(after, "maxContains")
    if _CONTAINS not in after or (least == 0 and most is None):
        return
    if _CONTAINS not in before:
        yield difference("CONTAINS_ADDED", at, "now some items must have certain types")
        return
    was, now = old.place.below(before[_CONTAINS]), new.place.below(after[_CONTAINS])
    if not differ.fits(was, now) or (most is not None and not differ.fits(now, was)):
        yield difference("CONTAINS_CHANGED", at, "now other items are counted than before")
    counted = (
        {"minContains": _LEAST_CONTAINED, **before},
        {"minContains": _LEAST_CONTAINED, **after},
    )
    yield from bound(*counted, "minContains", path, "MIN_CONTAINS")
    yield from bound(before, after, "maxContains", path, "MAX_CONTAINS")


def _items_of(keywords: Keywords) -> _Items:
    first = keywords.get("prefixItems")
    if isinstance(first, list):
        return _Items(None, first, keywords.get("items", True))
    items = keywords.get("items")
    if isinstance(items, list):
        return _Items(None, items, keywords.get(_ADDITIONAL, True))
    return _Items(items, [], True)


def _of_all(
    differ: Differ, was: SchemaPlace, now: SchemaPlace, path: str
) -> Iterator[Incompatibility]:
    at = f"{path}/items"
    if now.schema is None:
        return
    if was.schema is None:
        if node_of(now).kind != ANY:
            yield difference("ITEMS_ADDED", at, "before, items could be anything")
    else:
        yield from differ.differences(was, now, at)


def _of_first(
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    was, now = _items_of(old.keywords), _items_of(new.keywords)
    for number in range(max(len(was.first), len(now.first))):
        at = f"{path}/items/{number}"
        if number >= len(now.first):
            item = old.place.below(was.first[number])
            yield from _removed(differ, item, new.place.below(now.others), at)
        elif number >= len(was.first):
            item = new.place.below(now.first[number])
            yield from _added(differ, old.place.below(was.others), item, at)
        else:
            before, after = old.place.below(was.first[number]), new.place.below(now.first[number])
            yield from differ.differences(before, after, at)


def _removed(
    differ: Differ, was: SchemaPlace, others: SchemaPlace, path: str
) -> Iterator[Incompatibility]:
    if others.schema is True or node_of(was).kind == FALSE:
        return
    if others.schema is False:
        kind = "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"
        yield difference(kind, path, "there is no such item any more")
    elif not differ.fits(was, others):
        kind = "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        yield difference(kind, path, "the item is not allowed any more as it was")


def _added(
    differ: Differ, others: SchemaPlace, now: SchemaPlace, path: str
) -> Iterator[Incompatibility]:
    if others.schema is True:
        if node_of(now).kind != ANY:
            kind = "ITEM_ADDED_TO_OPEN_CONTENT_MODEL"
            yield difference(kind, path, "before, the item could be anything")
    elif others.schema is not False and not differ.fits(others, now):
        kind = "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        yield difference(kind, path, "before, the item could be something else")
