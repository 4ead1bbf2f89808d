"""JSON Schemas, drafts 4 to 2020-12: their validity, stored text, and comparison.

The library jsonschema decides what is valid, by the draft in `$schema`, or 7 by default. A `$ref`
must name something in the schema itself, or a reference.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from jsonschema import FormatChecker
from jsonschema.exceptions import best_match
from jsonschema.validators import Draft7Validator, extend, validator_for
from referencing import Registry, Specification
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT7, DRAFT201909, DRAFT202012, specification_with

from tms.registry.json.json_differences import Comparing
from tms.registry.json.json_nodes import EndlessReference, SchemaPlace, followed
from tms.registry.json.json_patterns import is_pattern
from tms.registry.json.json_text import check_characters, json_text, parse_json
from tms.registry.questions.questions import Entity, Incompatibility, InvalidSchema, Tagged, Tags
from tms.registry.questions.written_tags import retag, tags_in
from tms.serdes.json_references import inner_values, resources_of

_OWN = "urn:tms:schema"
"""The URI of a schema without one."""
_META = "$schema"
_COMBINED = ("allOf", "anyOf", "oneOf")


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A valid schema."""

    text: str
    """The stored text."""
    normalized: str
    tree: Any
    place: SchemaPlace
    """The parsed schema with the targets of its `$ref`s."""
    references: Sequence[tuple[str, Any]] = ()
    """The schemas that it refers to, by name."""

    def __reduce__(self) -> Any:
        """Pickle only what can be pickled; the rest is quickly rebuilt."""
        return _again, (self.text, self.normalized, self.tree, self.references)

    @property
    def problem_if_normalized(self) -> str:
        """Nothing: normalized schemas may have the same content as others."""
        return ""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its top-level properties."""
        tree = self.tree
        properties = tree.get("properties") if isinstance(tree, Mapping) else None
        return tuple(properties) if isinstance(properties, Mapping) else ()

    @property
    def tags(self) -> Tags:
        """The tags in the schema."""
        return tags_in(_entities(self.tree))

    def tagged(self, change: Tagged) -> str:
        """Return its text with other tags. Raises `InvalidSchema` if an entity is missing."""
        tree = copy.deepcopy(self.tree)
        retag(_entities(tree), change)
        return json_text(tree)

    def in_form(self, form: str) -> str:  # noqa: ARG002  its type has none
        """Return its text."""
        return self.text

    def incompatibilities(self, writer: "JsonSchema") -> list[Incompatibility]:
        """Return why it does not accept all that `writer` accepts; empty if it does."""
        return Comparing().all_differences(writer.place, self.place)


def parse(text: str, references: Sequence[tuple[str, str]] = ()) -> JsonSchema:
    """Return the schema of a text, whose `$ref` may name `references`. Raises `InvalidSchema`."""
    check_characters(text)
    try:
        tree = parse_json(text)
        _check(tree)
        others = [(name, parse_json(each)) for name, each in references]
        place = _placed(tree, others)
        _check_references(place)
        normalized = json_text(tree, normalized=True)
        return JsonSchema(json_text(tree), normalized, tree, place, others)
    except InvalidSchema:
        raise
    except (Unresolvable, NoSuchResource) as error:
        raise InvalidSchema(f"what {error.ref!r} refers to is not there") from None
    except EndlessReference:
        raise InvalidSchema("references go in a circle") from None
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply") from None
    except ValueError as error:
        raise InvalidSchema(str(error)) from None


def _again(
    text: str, normalized: str, tree: Any, references: Sequence[tuple[str, Any]]
) -> JsonSchema:
    return JsonSchema(text, normalized, tree, _placed(tree, references), references)


def _check(tree: Any) -> None:
    """Raise `InvalidSchema` if a schema is not valid by its draft."""
    if tree == []:
        return  # Confluent's registry accepts it.
    if not isinstance(tree, Mapping | bool):
        raise InvalidSchema("a JSON Schema is an object, true or false")
    named = tree.get(_META) if isinstance(tree, Mapping) else None
    named_tree = tree if named is None or isinstance(named, str) else {}
    meta = validator_for(named_tree, default=Draft7Validator).META_SCHEMA
    of_meta: Any = validator_for(meta, default=Draft7Validator)
    checked: Any = extend(of_meta, type_checker=_TYPES)  # type: ignore[no-untyped-call]
    error = best_match(checked(meta, format_checker=_FORMATS).iter_errors(tree))
    if error is not None:
        where = "/".join(map(str, error.absolute_path))
        raise InvalidSchema(f"at /{where}: {error.message}")


def _check_references(place: SchemaPlace, *, is_named: bool = False) -> None:
    """Raise as `followed` if a reference in a schema, or in a map of schemas, leads nowhere."""
    if not is_named:
        followed(place)
    for each, are_named in inner_values(place.schema, is_named=is_named):
        inner = place._replace(schema=each) if are_named else place.below(each)
        _check_references(inner, is_named=are_named)


def _is_integer(_: object, value: object) -> bool:
    """Whether a number is an integer, like 2 and 2.0."""
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


_TYPES = Draft7Validator.TYPE_CHECKER.redefine("integer", _is_integer)
_FORMATS = FormatChecker(())
_FORMATS.checks("regex")(lambda value: not isinstance(value, str) or is_pattern(value))


def _placed(tree: Any, references: Sequence[tuple[str, Any]]) -> SchemaPlace:
    """Return a schema with the resolver of its references."""
    own = tree.get("$id", tree.get("id")) if isinstance(tree, Mapping) else None
    uri = own if isinstance(own, str) and own else _OWN
    tree, resources = resources_of(tree, references)
    registry: Registry[Any] = Registry().with_resources(
        (name, _specification(each).create_resource(each))
        for name, each in ((uri, tree), *resources)
    )
    # In earlier drafts, generators write inner `$id`s that are not meant as bases.
    has_bases = _specification(tree) in (DRAFT201909, DRAFT202012)
    return SchemaPlace(tree, registry.resolver(uri), has_bases)


def _specification(tree: Any) -> Specification[Any]:
    named = tree.get(_META) if isinstance(tree, Mapping) else None
    return specification_with(named, default=DRAFT7) if isinstance(named, str) else DRAFT7


def _entities(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[Entity, dict[str, Any]]]:
    """Yield the objects and properties of a schema, in order.

    Paths are Confluent's: object, object.f, object.f.array.object.g, object.f.allof.0.object.h,
    object.f.not.object.i.
    """
    if not isinstance(schema, dict):
        return
    for keyword in _COMBINED:
        branches = schema.get(keyword)
        for index, branch in enumerate(branches if isinstance(branches, list) else ()):
            yield from _entities(branch, (*path, keyword.lower(), str(index)))
    yield from _entities(schema.get("not"), (*path, "not"))
    items = schema.get("items")
    for item in items if isinstance(items, list) else [items]:
        yield from _entities(item, (*path, "array"))
    properties = schema.get("properties")
    if isinstance(properties, dict):
        own = (*path, "object")
        yield Entity(".".join(own), is_field=False), schema
        for name, value in properties.items():
            if isinstance(value, dict):
                yield Entity(".".join((*own, name)), is_field=True), value
                yield from _entities(value, (*own, name))
