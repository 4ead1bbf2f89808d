"""The classes of JSON Schemas for comparisons: the kinds of values. Pure.

    any, false                 {} or true; false
    string, number, boolean, null, object, array      of one type, even if only keywords imply it
    enum, const, not, if       of these keywords
    combined                   allOf, anyOf, oneOf; a list of types; keywords of several classes

A schema with several of them is the combination of all. References are followed; keywords beside a
`$ref` count too, as they do since draft 2019-09.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from referencing.jsonschema import DRAFT202012

Json = Any
Keywords = Mapping[str, Json]

ANY, FALSE, COMBINED = "any", "false", "combined"
ENUM, CONST, NOT = "enum", "const", "not"
IF, THEN, ELSE = "if", "then", "else"
STRING, NUMBER, OBJECT, ARRAY = "string", "number", "object", "array"
INTEGER = "integer"
ALL_OF, ANY_OF, ONE_OF = "allOf", "anyOf", "oneOf"
CRITERIA = (ALL_OF, ANY_OF, ONE_OF)

IMPLYING = {
    STRING: frozenset(("minLength", "maxLength", "pattern")),
    NUMBER: frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
    OBJECT: frozenset(
        (
            *("properties", "required", "minProperties", "maxProperties", "dependencies"),
            *("patternProperties", "additionalProperties", "propertyNames"),
            *("dependentRequired", "dependentSchemas", "unevaluatedProperties"),
        )
    ),
    ARRAY: frozenset(
        (
            *("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"),
            *("contains", "unevaluatedItems"),
        )
    ),
}
"""The keywords that imply a type in a schema without `type`."""
_REFERENCES_MAX = 100
"""The longest chain of references."""


class SchemaPlace(NamedTuple):
    """A schema, and the resolver of its references."""

    schema: Json
    resolver: Any
    """A resolver of `referencing`."""
    has_bases: bool = False
    """Whether references are resolved against the `$id` of an inner schema, if it has one."""

    def below(self, schema: Json) -> "SchemaPlace":
        """Return a schema within this one."""
        if self.has_bases and isinstance(schema, Mapping) and isinstance(schema.get("$id"), str):
            inner = self.resolver.in_subresource(DRAFT202012.create_resource(schema))
            return self._replace(schema=schema, resolver=inner)
        return self._replace(schema=schema)


class SchemaNode(NamedTuple):
    """A schema of one class."""

    kind: str
    keywords: Keywords
    place: SchemaPlace
    criterion: str = ""
    """For a combination, how its parts are combined."""
    parts: tuple["SchemaNode | SchemaPlace", ...] = ()


class EndlessReference(Exception):
    """Raised for references that never reach a schema."""


def followed(place: SchemaPlace) -> SchemaPlace:
    """Return the end of references. Raises `EndlessReference`, and as the resolver."""
    for _ in range(_REFERENCES_MAX):
        further = _referred(place)
        if further is None:
            return place
        place = further
    raise EndlessReference


def _referred(place: SchemaPlace) -> SchemaPlace | None:
    """Return the direct target of a reference; None if there is none."""
    schema = place.schema
    if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
        return None
    resolved = place.resolver.lookup(schema["$ref"])
    return place._replace(schema=resolved.contents, resolver=resolved.resolver)


def node_of(place: SchemaPlace) -> SchemaNode:
    """Return the class of a schema. Raises as `followed`."""
    target = followed(place)
    beside = _beside_reference(place)
    if beside:
        return SchemaNode(COMBINED, place.schema, place, ALL_OF, (target, *beside))
    schema = target.schema
    if schema is False:
        return SchemaNode(FALSE, {}, target)
    if not isinstance(schema, Mapping):
        return SchemaNode(ANY, {}, target)
    parts = _parts(schema, target)
    if not parts:
        return SchemaNode(ANY, schema, target)
    if len(parts) == 1:
        return parts[0]
    return SchemaNode(COMBINED, schema, target, ALL_OF, tuple(parts))


def _beside_reference(place: SchemaPlace) -> list[SchemaNode]:
    """Return the keywords beside a reference, also if it leads to another."""
    beside: list[SchemaNode] = []
    while (further := _referred(place)) is not None:
        beside += _parts(place.schema, place)
        place = further
    return beside


def _parts(schema: Keywords, place: SchemaPlace) -> list[SchemaNode]:
    """Return a schema's parts, one for each class."""
    parts = [SchemaNode(kind, schema, place) for kind in (ENUM, CONST, NOT) if kind in schema]
    if IF in schema and any(schema.get(name, True) not in (True, {}) for name in (THEN, ELSE)):
        parts.append(SchemaNode(IF, schema, place))
    for criterion in CRITERIA:
        types = schema.get(criterion)
        if isinstance(types, list):
            inner = tuple(place.below(each) for each in types)
            parts.append(SchemaNode(COMBINED, schema, place, criterion, inner))
    types = schema.get("type")
    if isinstance(types, str):
        parts.append(_typed(types, schema, place))
    elif isinstance(types, list):
        typed = tuple(_typed(each, schema, place) for each in types)
        parts.append(
            typed[0] if len(typed) == 1 else SchemaNode(COMBINED, schema, place, ANY_OF, typed)
        )
    else:
        sniffed = [kind for kind, names in IMPLYING.items() if not names.isdisjoint(schema)]
        parts += [SchemaNode(kind, schema, place) for kind in sniffed]
    return parts


def _typed(name: str, schema: Keywords, place: SchemaPlace) -> SchemaNode:
    if name == INTEGER:
        return SchemaNode(NUMBER, {**schema, "type": INTEGER}, place)
    kept = {**schema, "type": name} if name == NUMBER else schema
    return SchemaNode(name, kept, place)
