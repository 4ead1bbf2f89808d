"""What kinds of values a JSON Schema is about: its classes, by which schemas are compared. Pure.

    any, false                 {} or true; false
    string, number, boolean, null, object, array      of one type, also where only keywords say it
    enum, const, not           of these keywords
    combined                   allOf, anyOf, oneOf; a list of types; keywords of several classes

A schema that has several of them is the combination of all. References are followed; what stands
beside a `$ref` does not count.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

Json = Any
Keywords = Mapping[str, Json]

ANY, FALSE, COMBINED = "any", "false", "combined"
ENUM, CONST, NOT = "enum", "const", "not"
STRING, NUMBER, OBJECT, ARRAY = "string", "number", "object", "array"
INTEGER = "integer"
ALL_OF, ANY_OF, ONE_OF = "allOf", "anyOf", "oneOf"
CRITERIA = (ALL_OF, ANY_OF, ONE_OF)

_SNIFFED = {
    STRING: frozenset(("minLength", "maxLength", "pattern")),
    NUMBER: frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
    OBJECT: frozenset(
        (
            *("properties", "required", "minProperties", "maxProperties", "dependencies"),
            *("patternProperties", "additionalProperties", "propertyNames"),
            *("dependentRequired", "dependentSchemas"),
        )
    ),
    ARRAY: frozenset(
        ("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems")
    ),
}
_REFERENCES_MAX = 100
"""How many references may lead to one another before one ends."""


class SchemaPlace(NamedTuple):
    """A schema, and how the references in it are resolved."""

    schema: Json
    resolver: Any
    """A resolver of `referencing`."""

    def below(self, schema: Json) -> "SchemaPlace":
        """Return a schema within this one."""
        return SchemaPlace(schema, self.resolver)


class SchemaNode(NamedTuple):
    """A schema of one class."""

    kind: str
    keywords: Keywords
    place: SchemaPlace
    criterion: str = ""
    """Of a combination: how its parts are combined."""
    parts: tuple["SchemaNode | SchemaPlace", ...] = ()


class EndlessReference(Exception):
    """Raised for references that lead to one another and to no schema."""


def followed(place: SchemaPlace) -> SchemaPlace:
    """Return where references lead. Raises `EndlessReference`, and as the resolver."""
    for _ in range(_REFERENCES_MAX):
        schema = place.schema
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            return place
        found = place.resolver.lookup(schema["$ref"])
        place = SchemaPlace(found.contents, found.resolver)
    raise EndlessReference


def node_of(place: SchemaPlace) -> SchemaNode:
    """Return the class of a schema. Raises as `followed`."""
    place = followed(place)
    schema = place.schema
    if schema is False:
        return SchemaNode(FALSE, {}, place)
    if not isinstance(schema, Mapping):
        return SchemaNode(ANY, {}, place)
    parts = _parts(schema, place)
    if not parts:
        return SchemaNode(ANY, schema, place)
    if len(parts) == 1:
        return parts[0]
    return SchemaNode(COMBINED, schema, place, ALL_OF, tuple(parts))


def _parts(schema: Keywords, place: SchemaPlace) -> list[SchemaNode]:
    """Return what a schema is, class by class."""
    parts = [SchemaNode(kind, schema, place) for kind in (ENUM, CONST, NOT) if kind in schema]
    for criterion in CRITERIA:
        given = schema.get(criterion)
        if isinstance(given, list):
            inner = tuple(place.below(each) for each in given)
            parts.append(SchemaNode(COMBINED, schema, place, criterion, inner))
    given = schema.get("type")
    if isinstance(given, str):
        parts.append(_typed(given, schema, place))
    elif isinstance(given, list):
        typed = tuple(_typed(each, schema, place) for each in given)
        parts.append(
            typed[0] if len(typed) == 1 else SchemaNode(COMBINED, schema, place, ANY_OF, typed)
        )
    else:
        sniffed = [kind for kind, names in _SNIFFED.items() if not names.isdisjoint(schema)]
        parts += [SchemaNode(kind, schema, place) for kind in sniffed]
    return parts


def _typed(name: str, schema: Keywords, place: SchemaPlace) -> SchemaNode:
    if name == INTEGER:
        return SchemaNode(NUMBER, {**schema, "type": INTEGER}, place)
    kept = {**schema, "type": name} if name == NUMBER else schema
    return SchemaNode(name, kept, place)
