"""Finds objects that a JSON Schema no longer accepts.

The content model says which properties other than the named ones there may be. It is *open* if any
may, *closed* if none may, and partly open if patterns or a schema decide. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tms.registry.json.json_changes import Differ, bound, difference
from tms.registry.json.json_nodes import ANY, FALSE, Keywords, SchemaNode, SchemaPlace, node_of
from tms.registry.json.json_patterns import finds
from tms.registry.json.json_text import json_text
from tms.registry.questions.questions import Incompatibility

_ADDITIONAL, _UNEVALUATED = "additionalProperties", "unevaluatedProperties"
_PATTERNS, _NAMES = "patternProperties", "propertyNames"
_EVALUATING = (
    *("$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"),
    *("additionalProperties", "patternProperties", "contains"),
)
"""Keywords that also evaluate properties."""


def differences(
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    """Yield why `new` does not accept all objects that `old` accepts."""
    before, after = old.keywords, new.keywords
    yield from _properties(differ, old, new, path)
    yield from _patterns(differ, old, new, path)
    yield from additional(differ, old, new, path, _ADDITIONAL, "ADDITIONAL_PROPERTIES")
    yield from unevaluated(differ, old, new, path, _UNEVALUATED, "UNEVALUATED_PROPERTIES")
    yield from _names(differ, old, new, path)
    yield from bound(before, after, "maxProperties", path, "MAX_PROPERTIES")
    yield from bound(before, after, "minProperties", path, "MIN_PROPERTIES")
    yield from _dependencies(differ, old, new, path)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _required(keywords: Keywords) -> frozenset[str]:
    required = keywords.get("required")
    names = required if isinstance(required, list) else []
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
    """Yield properties that are required now and were not before."""
    named = _mapping(new.keywords.get("properties"))
    properties = _mapping(old.keywords.get("properties"))
    for name in sorted(_required(new.keywords) - _required(old.keywords)):
        if isinstance(named.get(name), Mapping) and "default" in named[name]:
            continue
        if name in properties or name not in named:
            at = f"{path}/required/{name}"
            yield difference("REQUIRED_ATTRIBUTE_ADDED", at, f"{name} is required now")
        elif not is_open(old.keywords):
            at = f"{path}/properties/{name}"
            kind = "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"
            yield difference(kind, at, f"{name} is required now, and has no default")


def is_open(keywords: Keywords) -> bool:
    """Whether any further properties are accepted."""
    return not keywords.get("patternProperties") and keywords.get(_ADDITIONAL, True) is True


def _covering(node: SchemaNode, name: str, *, otherwise: Any = True) -> list[SchemaPlace]:
    """Return the schemas that an unnamed property must all fit."""
    patterns = _mapping(node.keywords.get(_PATTERNS)).items()
    nodes = [node.place.below(schema) for pattern, schema in patterns if finds(pattern, name)]
    return nodes or [node.place.below(node.keywords.get(_ADDITIONAL, otherwise))]


def _rest(node: SchemaNode) -> Any:
    """Return the schema of properties that have no name and match no pattern."""
    return node.keywords.get(_ADDITIONAL, node.keywords.get(_UNEVALUATED, True))


def _removed(
    differ: Differ, name: str, was: SchemaPlace, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    """Yield the difference of a removed property, unless its values are accepted as before."""
    if node_of(was).kind == FALSE:
        return
    covering = _covering(new, name, otherwise=_rest(new))
    if [each.schema for each in covering] == [True]:
        return
    if any(each.schema is False for each in covering):
        kind = "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
        yield difference(kind, path, f"{name} is not a property any more")
    elif not all(differ.fits(was, each) for each in covering):
        kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        yield difference(kind, path, f"{name} is not allowed any more as it was")


def _patterns(
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    """Yield properties that match a pattern, if they are not accepted as before."""
    before, after = (_mapping(each.keywords.get(_PATTERNS)) for each in (old, new))
    named = _mapping(old.keywords.get("properties"))
    for pattern, schema in after.items():
        at, now = f"{path}/{_PATTERNS}/{pattern}", new.place.below(schema)
        if pattern in before:
            yield from differ.differences(old.place.below(before[pattern]), now, at)
            continue
        matching = [each for name, each in named.items() if finds(pattern, name)]
        could_come = [*matching, *before.values(), old.keywords.get(_ADDITIONAL, True)]
        if not all(differ.fits(old.place.below(each), now) for each in could_come):
            message = f"before, the properties of {pattern} could be something else"
            yield difference("PATTERN_PROPERTY_ADDED", at, message)
    rest = new.place.below(_rest(new))
    for pattern in before.keys() - after.keys():
        if not differ.fits(old.place.below(before[pattern]), rest):
            at, message = (
                f"{path}/{_PATTERNS}/{pattern}",
                f"the properties of {pattern} are not allowed",
            )
            yield difference("PATTERN_PROPERTY_REMOVED", at, message)


def _names(
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    """Yield names of properties that are no longer accepted."""
    was, now = (each.place.below(each.keywords.get(_NAMES, True)) for each in (old, new))
    if not differ.fits(was, now):
        kind = "PROPERTY_NAMES_CHANGED" if _NAMES in old.keywords else "PROPERTY_NAMES_ADDED"
        yield difference(kind, f"{path}/{_NAMES}", "now fewer names are allowed")


def unevaluated(  # noqa: PLR0917  the two, where, and what it is called
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str, keyword: str, kind: str
) -> Iterator[Incompatibility]:
    """Yield changes in properties that no other keyword covers, if fewer are accepted."""
    was, now = (each.place.below(each.keywords.get(keyword, True)) for each in (old, new))
    at = f"{path}/{keyword}"
    if node_of(now).kind == ANY:
        return
    if keyword not in old.keywords:
        yield difference(f"{kind}_ADDED", at, "now other properties are restricted")
    elif not differ.fits(was, now):
        yield difference(f"{kind}_NARROWED", at, "now fewer other properties are allowed")
    elif any(_said(old, name) != _said(new, name) for name in _EVALUATING):
        yield difference(f"{kind}_CHANGED", at, "before, fewer properties were left to it")


def _said(node: SchemaNode, keyword: str) -> str:
    return json_text(node.keywords.get(keyword), normalized=True)


def _added(
    differ: Differ, name: str, old: SchemaNode, now: SchemaPlace, path: str
) -> Iterator[Incompatibility]:
    """Yield a property that got a name, if its values could be different before."""
    if is_open(old.keywords):
        if node_of(now).kind != ANY:
            kind = "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
            yield difference(kind, path, f"before, {name} could be anything")
        return
    covering = _covering(old, name)
    is_taken = any(each.schema is False or differ.fits(each, now) for each in covering)
    if not is_taken:
        kind = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        yield difference(kind, path, f"before, {name} could be something else")


def additional(  # noqa: PLR0917  the two, where, and what it is called
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str, keyword: str, kind: str
) -> Iterator[Incompatibility]:
    """Yield changes in further properties, if fewer are accepted."""
    before, after = old.keywords.get(keyword, True), new.keywords.get(keyword, True)
    at = f"{path}/{keyword}"
    if before is False or after is True:
        return
    if after is False:
        yield difference(f"{kind}_REMOVED", at, "now other properties are not allowed")
    elif before is True:
        yield difference(f"{kind}_NARROWED", at, "now other properties are restricted")
    else:
        yield from differ.differences(old.place.below(before), new.place.below(after), at)


def _dependencies(
    differ: Differ, old: SchemaNode, new: SchemaNode, path: str
) -> Iterator[Incompatibility]:
    needed, schemas = _dependencies_of(old.keywords)
    needed_now, schemas_now = _dependencies_of(new.keywords)
    for name, names in needed_now.items():
        lacking = [str(each) for each in names if each not in needed.get(name, ())]
        if lacking:
            kind = "DEPENDENCY_ARRAY_EXTENDED" if name in needed else "DEPENDENCY_ARRAY_ADDED"
            at = f"{path}/dependencies/{name}"
            yield difference(kind, at, f"{name} needs {', '.join(lacking)} too")
    for name, now in schemas_now.items():
        at = f"{path}/dependencies/{name}"
        if name not in schemas:
            yield difference("DEPENDENCY_SCHEMA_ADDED", at, f"{name} needs more now")
        else:
            yield from differ.differences(old.place.below(schemas[name]), new.place.below(now), at)


def _dependencies_of(keywords: Keywords) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """Return the properties, and the schemas, that each property needs, in any draft."""
    needed: dict[str, list[Any]] = {}
    schemas: dict[str, Any] = {}
    for keyword in ("dependencies", "dependentRequired", "dependentSchemas"):
        for name, value in _mapping(keywords.get(keyword)).items():
            if isinstance(value, list):
                needed[name] = needed.get(name, []) + value
            else:
                schemas[name] = value
    return needed, schemas
