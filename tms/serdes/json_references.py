"""Resolves the references of a JSON Schema. Pure.

A `$ref` that equals the name of a reference means that reference, whatever the schema's `$id`. Any
other `$ref` is first resolved against `$id`, and may then equal a name.
"""

import copy
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any
from urllib.parse import quote

Json = Any
_URN = "urn:tms:reference:"
_URI = re.compile(r"(?:[\w\-.~:/?@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+", re.ASCII)
_OF_NO_SCHEMA = frozenset(("enum", "const", "default", "examples"))
"""Keywords whose values are not schemas, even if they look like them."""
_OF_NAMED = frozenset(
    (
        *("properties", "patternProperties", "definitions", "$defs"),
        *("dependencies", "dependentSchemas"),
    )
)
"""Keywords whose values map names, which are not keywords, to schemas."""


def resources_of(
    schema: Json, references: Iterable[tuple[str, Json]]
) -> tuple[Json, list[tuple[str, Json]]]:
    """Return a schema whose `$ref`s resolve to its references, and these by their URIs."""
    named = dict(references)
    if not named:
        return schema, []
    trees = {name: _finding(tree, named) for name, tree in named.items()}
    resources = [(_uri(name), tree) for name, tree in trees.items()]
    resources += [(name, tree) for name, tree in trees.items() if _URI.fullmatch(name)]
    return _finding(schema, named), resources


def referring(tree: Json, *, is_named: bool = False) -> Iterator[Json]:
    """Yield the schemas in a value that have references; `is_named` for a map of schemas."""
    if not is_named and isinstance(tree, dict) and isinstance(tree.get("$ref"), str):
        yield tree
    for each, are_named in inner_values(tree, is_named=is_named):
        yield from referring(each, is_named=are_named)


def inner_values(tree: Json, *, is_named: bool) -> Iterator[tuple[Json, bool]]:
    """Yield what is directly in a value and may have schemas, and whether that is a map of them."""
    if isinstance(tree, list):
        for each in tree:
            yield each, False
    elif isinstance(tree, dict):
        for name, each in tree.items():
            if is_named or name not in _OF_NO_SCHEMA:
                yield each, not is_named and name in _OF_NAMED


def _uri(name: str) -> str:
    return _URN + quote(name, safe="")


def _finding(schema: Json, names: Collection[str]) -> Json:
    """Return a schema in which URIs replace the names of references."""
    made = copy.deepcopy(schema)
    for each in referring(made):
        target = each["$ref"]
        name, hash_sign, fragment = target.partition("#")
        if target in names:
            each["$ref"] = _uri(target)
        elif name and name in names:
            each["$ref"] = f"{_uri(name)}{hash_sign}{fragment}"
    return made
