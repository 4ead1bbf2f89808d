"""Avro schemas taken apart: names in full, types expanded where needed.

A *raw* schema is one without logical types: it describes the same bytes, and its values are the
underlying numbers and bytes. So the reader's logical type interprets a value, whatever the
writer's. This would be wrong if their units differ, so such writers are detected.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tms.serdes.avro_tree import INNER, NAMED, PRIMITIVES, RECORDS, loaded, tree_of

_KEPT = ("default", "aliases", "symbols", "size")
_LOGICAL = ("logicalType", "precision", "scale")
_UNITS = frozenset(
    {"date", "decimal", "time-millis", "time-micros"}
    | {
        f"{local}timestamp-{unit}"
        for local in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    }
)
"""Logical types with a unit."""


class AvroTypes:
    """One schema."""

    def __init__(self, text: str) -> None:
        """Take apart a schema that a serde has compiled, so it is valid."""
        tree = tree_of(loaded(text))
        self._types = {name: self._plain_named(node) for name, node in tree.types.items()}
        self.top = self._plain(tree.top)

    def _plain(self, node: Any) -> Any:
        """Return a schema in which named types are full names, and others are objects."""
        if isinstance(node, list):
            return [self._plain(each) for each in node]
        if isinstance(node, str):
            return {"type": node} if node in PRIMITIVES else node
        kind = node["type"]
        if kind in NAMED:
            return node["name"]
        if kind in INNER:
            return {"type": kind, INNER[kind]: self._plain(node[INNER[kind]])}
        return {"type": kind, **_some(node, _LOGICAL)}

    def _plain_named(self, node: Mapping[str, Any]) -> dict[str, Any]:
        described: dict[str, Any] = {**_some(node, ("type", "name")), **_some(node, _KEPT)}
        if "." not in node["name"]:
            described["namespace"] = ""  # not from what is around it
        if node["type"] in RECORDS:
            described["fields"] = [
                {
                    "name": field["name"],
                    "type": self._plain(field["type"]),
                    **_some(field, _KEPT),
                }
                for field in node["fields"]
            ]
        else:
            described |= _some(node, _LOGICAL)
        return described

    def described(self, schema: Any) -> Any:
        """Return a name's definition as an object; a union is a list."""
        return self._types[schema] if isinstance(schema, str) else schema

    def raw_text(self, schema: Any, fields: frozenset[str] | None = None) -> str:
        """Return the text of a part of this schema, complete and without logical types.

        With `fields`, a record has only those.
        """
        return json.dumps(self._raw(schema, set(), fields))

    def _raw(self, schema: Any, expanded: set[str], fields: frozenset[str] | None = None) -> Any:
        if isinstance(schema, list):
            return [self._raw(each, expanded) for each in schema]
        if isinstance(schema, str) and schema in expanded:
            return schema
        described = self.described(schema)
        raw = {name: each for name, each in described.items() if name not in _LOGICAL}
        if isinstance(schema, str):
            expanded.add(schema)
        for part in ("items", "values"):
            if part in raw:
                raw[part] = self._raw(raw[part], expanded)
        if "fields" in raw:
            raw["fields"] = [
                {**each, "type": self._raw(each["type"], expanded)}
                for each in raw["fields"]
                if fields is None or each["name"] in fields
            ]
        return raw

    def misread_by(self, reader: "AvroTypes") -> str | None:
        """Return why another schema would misread values of this one, None if it would not.

        It would if both have units for a number, and they differ.
        """
        return next(self._clashes(self.top, reader, reader.top, "it", set()), None)

    def _clashes(
        self, own: Any, reader: "AvroTypes", others: Any, field: str, seen: set[tuple[str, str]]
    ) -> Iterator[str]:
        """Yield a text for each clash of a part of this schema with the reader's."""
        for mine in own if isinstance(own, list) else [own]:
            for other in others if isinstance(others, list) else [others]:
                pair = str(mine), str(other)
                if not (isinstance(mine, str) and isinstance(other, str) and pair in seen):
                    seen.add(pair)
                    yield from self._clash(
                        self.described(mine), reader, reader.described(other), field, seen
                    )

    def _clash(
        self, mine: Any, reader: "AvroTypes", other: Any, field: str, seen: set[tuple[str, str]]
    ) -> Iterator[str]:
        units = [_unit(each) for each in (mine, other)]
        if units[0] != units[1] and None not in units:
            wrote, reads = units
            yield f"{field} was written as {wrote}, but the schema that it is read by has {reads}"
        for part in ("items", "values"):
            if part in mine and part in other:
                yield from self._clashes(mine[part], reader, other[part], field, seen)
        fields = {each["name"]: each["type"] for each in mine.get("fields", ())}
        for each in other.get("fields", ()):
            clashing = [name for name in (each["name"], *each.get("aliases", ())) if name in fields]
            if clashing:
                name = each["name"]
                yield from self._clashes(fields[clashing[0]], reader, each["type"], name, seen)


def _some(schema: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: schema[name] for name in names if name in schema}


def _unit(described: Any) -> str | None:
    """Return a number's unit as text; None if the schema has none."""
    kind = described.get("logicalType")
    if not isinstance(kind, str) or kind not in _UNITS:
        return None
    return f"decimal of scale {described.get('scale', 0)}" if kind == "decimal" else kind
