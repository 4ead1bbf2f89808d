"""Which objects a JSON Schema takes no more.

What properties may come besides those that are named is the content model. It is *open* if any may,
*closed* if none may, and partly open if patterns or a schema say which. Pure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tms.registry.json_changes import Differ, difference, lower_bound, upper_bound
from tms.registry.json_nodes import ANY, FALSE, Keywords, SchemaNode, SchemaPlace, node_of
from tms.registry.questions import Incompatibility

_ADDITIONAL = "additionalProperties"


def differences(
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    """Give why `new` does not take all objects that `old` does."""
    before, after = old.keywords, new.keywords
    yield from _properties(differ, old, new, path)
    yield from additional(differ, old, new, path, _ADDITIONAL, "ADDITIONAL_PROPERTIES")
    yield from upper_bound(before, after, "maxProperties", path, "MAX_PROPERTIES")
    yield from lower_bound(before, after, "minProperties", path, "MIN_PROPERTIES")
    yield from _dependencies(differ, old, new, path)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _required(keywords: Keywords) -> frozenset[str]:
    given = keywords.get("required")
    names = given if isinstance(given, list) else []
    return frozenset(name for name in names if isinstance(name, str))


def _properties(
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    before, after = (_mapping(each.keywords.get("properties")) for each in (old, new))
    for name in before:
        at = f"{path}/properties/{name}"
        if name in after:
            was, now = old.place.below(before[name]), new.place.below(after[name])
            yield from differ.differences(was, now, at)
        else:
            yield from _removed(differ, name, old.place.below(before[name]), new, at)
    for name in after:
        if name not in before:
            at = f"{path}/properties/{name}"
            yield from _added(differ, name, old, new.place.below(after[name]), at)
    yield from _newly_required(old, new, path)


def _newly_required(old: SchemaNode, new: SchemaNode, path: str) -> Iterator[Incompatibility]:
    """Tell of properties that must be there now, and need not have been."""
    named = _mapping(new.keywords.get("properties"))
    known = _mapping(old.keywords.get("properties"))
    for name in sorted(_required(new.keywords) - _required(old.keywords)):
        if isinstance(named.get(name), Mapping) and "default" in named[name]:
            continue
        if name in known or name not in named:
            at = f"{path}/required/{name}"
            yield difference("REQUIRED_ATTRIBUTE_ADDED", at, f"{name} is required now")
        elif not is_open(old.keywords):
            at = f"{path}/properties/{name}"
            kind = "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"
            yield difference(kind, at, f"{name} is required now, and has no default")


def is_open(keywords: Keywords) -> bool:
    """Whether any other properties may come."""
    return not keywords.get("patternProperties") and keywords.get(_ADDITIONAL, True) is True


def _covering(node: SchemaNode, name: str) -> SchemaPlace:
    """Return the schema of a property that is not named."""
    for pattern, schema in _mapping(node.keywords.get("patternProperties")).items():
        if re.search(pattern, name):
            return node.place.below(schema)
    return node.place.below(node.keywords.get(_ADDITIONAL, True))


def _removed(
    differ: Differ, name: str, was: SchemaPlace, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    """Tell of a property that is named no more, if it is not taken as it was."""
    if is_open(new.keywords) or node_of(was).kind == FALSE:
        return
    covering = _covering(new, name)
    is_closed = covering.schema is False
    if is_closed:
        kind = "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
        yield difference(kind, path, f"{name} is no more among its properties")
    elif not differ.fits(was, covering):
        kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        yield difference(kind, path, f"{name} is not taken as it was")


def _added(
    differ: Differ, name: str, old: SchemaNode, now: SchemaPlace, path: str
) -> Iterator[Incompatibility]:
    """Tell of a property that is named now, if something else could come by that name."""
    if is_open(old.keywords):
        if node_of(now).kind != ANY:
            kind = "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
            yield difference(kind, path, f"{name} may have been anything before")
        return
    covering = _covering(old, name)
    if covering.schema is not False and not differ.fits(covering, now):
        kind = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        yield difference(kind, path, f"{name} may have been something else before")


def additional(  # noqa: PLR0917  the two, where, and what it is called
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str, keyword: str, kind: str
) -> Iterator[Incompatibility]:
    """Tell of what else may come, if that is less now."""
    before, after = old.keywords.get(keyword, True), new.keywords.get(keyword, True)
    at = f"{path}/{keyword}"
    if before is False or after is True:
        return
    if after is False:
        yield difference(f"{kind}_REMOVED", at, "nothing else may come now")
    elif before is True:
        yield difference(f"{kind}_NARROWED", at, "not everything else may come now")
    else:
        yield from differ.differences(old.place.below(before), new.place.below(after), at)


def _dependencies(
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    before, after = _dependencies_of(old.keywords), _dependencies_of(new.keywords)
    for name, now in after.items():
        at, was = f"{path}/dependencies/{name}", before.get(name)
        if isinstance(now, list):
            lacking = _missing(was, now)
            if lacking:
                kind = "DEPENDENCY_ARRAY_ADDED" if was is None else "DEPENDENCY_ARRAY_EXTENDED"
                yield difference(kind, at, f"{name} needs {', '.join(lacking)} too")
        elif was is None or isinstance(was, list):
            yield difference("DEPENDENCY_SCHEMA_ADDED", at, f"{name} needs more now")
        else:
            yield from differ.differences(old.place.below(was), new.place.below(now), at)


def _dependencies_of(keywords: Keywords) -> dict[str, Any]:
    """Return what properties need by their names, whichever draft says it."""
    names = ("dependencies", "dependentRequired", "dependentSchemas")
    return {name: value for each in names for name, value in _mapping(keywords.get(each)).items()}


def _missing(was: Any, now: Sequence[Any]) -> list[str]:
    known = was if isinstance(was, list) else []
    return [str(each) for each in now if each not in known]
