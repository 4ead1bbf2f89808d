"""Comparisons of JSON Schemas, in the form that tests need."""

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

from tms.registry.json.json_nodes import ANY, IMPLYING, OBJECT, SchemaPlace, node_of
from tms.registry.json.json_objects import is_open
from tms.registry.json.json_schemas import parse


def kinds(old: Any, new: Any) -> list[str]:
    """Return the kinds of the reasons why `new` does not accept all that `old` accepts."""
    found = parse(json.dumps(new)).incompatibilities(parse(json.dumps(old)))
    assert all(each.message and each.path for each in found)
    return [each.kind for each in found]


def with_types(schema: Any) -> Any:
    """Return a schema with the types that its keywords imply, as they do for the registry."""
    if isinstance(schema, list):
        return [with_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: with_types(each) for name, each in schema.items()}
    types = [{"type": kind} for kind, names in IMPLYING.items() if not names.isdisjoint(schema)]
    return (
        made if "type" in schema or not types else made | {"allOf": made.get("allOf", []) + types}
    )


def requires_what_was_open(old: Any, new: Any) -> bool:
    """Whether a part of `new` requires any value of a property that was open in a part of `old`.

    Confluent's registry accepts that. Within `not`, `old` is the newer one.
    """
    pairs = list(product(_objects(old), _objects(new)))
    return any(
        name not in before.get("properties", {}) and _is_any(after.get("properties", {}).get(name))
        for before, after in [*pairs, *(pair[::-1] for pair in pairs)]
        if is_open(before)
        for name in set(after.get("required", ())) - set(before.get("required", ()))
    )


def _is_any(schema: Any) -> bool:
    is_plain = isinstance(schema, dict) and "$ref" not in schema
    return schema is True or (is_plain and node_of(SchemaPlace(schema, None)).kind == ANY)


def _objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if OBJECT in schema.get("type", ()) or not IMPLYING[OBJECT].isdisjoint(schema):
            yield schema
        schema = list(schema.values())
    for each in schema if isinstance(schema, list) else ():
        yield from _objects(each)
