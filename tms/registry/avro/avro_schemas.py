"""Avro schemas: their validity, their stored text, and which data they can read.

Avro's own library decides what is valid, and which schema reads the data of another; its
compatibility is that of Java's SchemaCompatibility. Names are resolved as in Java's library
(`avro_tree`). Unless the schema is normalized, wrong defaults are accepted, as in Confluent's.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import avro.schema
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.errors import AvroException
from avro.name import Names

from tms.registry.avro.avro_defaults import wrong_default
from tms.registry.avro.avro_text import avro_text, resolved_text
from tms.registry.json.json_text import check_characters
from tms.registry.questions.questions import Entity, Incompatibility, InvalidSchema, Tagged, Tags
from tms.registry.questions.written_tags import retag, tags_in
from tms.serdes.avro_tree import RECORDS, AvroTree, kind_of, loaded, parts_of, spelled, tree_of

_SIZE_MAX = 2**31 - 1
_FORMS: Mapping[str, dict[str, bool]] = {
    "resolved": {},
    "resolved_normalized": {"normalized": True},
    "resolved_ordered": {"normalized": True, "renames": False},
}


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A valid schema."""

    text: str
    """The stored text."""
    normalized: str
    parsed: avro.schema.Schema
    """For the library: errors are records, since each reads the other; no logical types."""
    tree: AvroTree
    referenced: Mapping[str, Any] = field(default_factory=dict)
    """The types that it refers to, by full name."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its top-level fields."""
        top = self.tree.top
        return tuple(each["name"] for each in top["fields"]) if kind_of(top) in RECORDS else ()

    def in_form(self, form: str) -> str:
        """Return its text with the types that it refers to.

        `resolved_normalized` is as stored for normalized schemas; in `resolved_ordered` each type
        keeps its namespace.
        """
        return resolved_text(self.tree, self.referenced, **_FORMS[form])

    @property
    def problem_if_normalized(self) -> str:
        """Why it cannot be stored as normalized: a default that does not fit its type."""
        return wrong_default(self.tree, self.referenced)

    @property
    def tags(self) -> Tags:
        """The tags in the schema."""
        return tags_in(_entities(self.tree.top))

    def tagged(self, change: Tagged) -> str:
        """Return its text with other tags. Raises `InvalidSchema` if an entity is missing."""
        tree = copy.deepcopy(self.tree)
        retag(_entities(tree.top), change)
        return avro_text(tree, self.referenced)

    def incompatibilities(self, writer: "AvroSchema") -> list[Incompatibility]:
        """Return why it cannot read the data of `writer`; empty if it can."""
        checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
        checker.memoize_map = _Compared()
        checked = checker.get_compatibility(self.parsed, writer.parsed)
        if checked.compatibility is SchemaCompatibilityType.compatible:
            return []
        path = min(checked.locations, key=lambda each: (len(each), each), default="/")
        message = "; ".join(sorted(checked.messages))
        return [
            Incompatibility(kind.value.upper(), path, message)
            for kind in dict.fromkeys(checked.incompatibilities)
        ]


def parse(text: str, references: Sequence[tuple[str, str]] = ()) -> AvroSchema:
    """Return the schema of a text, which may name types that `references` define in order.

    Raises `InvalidSchema`.
    """
    check_characters(text)
    try:
        names = Names(validate_names=False)
        referenced: dict[str, Any] = {}
        for _, reference in references:
            tree = tree_of(loaded(reference), referenced)
            _library_schema(tree, names)
            referenced |= tree.types
        tree = tree_of(loaded(text), referenced)
        _check_sizes(tree)
        parsed = _library_schema(tree, names)
        kept = avro_text(tree, referenced)
        normalized = avro_text(tree, referenced, normalized=True)
    except (AvroException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidSchema(str(error) or type(error).__name__) from None
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply") from None
    return AvroSchema(kept, normalized, parsed, tree, referenced)


def _check_sizes(tree: AvroTree) -> None:
    """Raise `InvalidSchema` if the size of a fixed type is not a Java int."""
    for name, node in tree.types.items():
        size = node.get("size")
        is_size = isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= _SIZE_MAX
        if node["type"] == "fixed" and not is_size:
            raise InvalidSchema(f"The size of {name} must be a number from 0 to {_SIZE_MAX}")


def _library_schema(tree: AvroTree, names: Names) -> avro.schema.Schema:
    """Return a schema in Avro's library, and add its types to `names`.

    Raises `AvroException`.
    """
    plain = spelled(tree.top, plain=True)
    return avro.schema.make_avsc_object(plain, names, validate_names=False)


class _Compared(dict[Any, Any]):
    """The library's comparisons, by pairs with distinct hashes, unlike its own keys.

    The library's key is `id(reader) ^ id(writer)`, which is nearly always equal within two large
    schemas.
    """

    def __contains__(self, pair: Any) -> bool:
        return super().__contains__((id(pair.reader), id(pair.writer)))

    def __getitem__(self, pair: Any) -> Any:
        return super().__getitem__((id(pair.reader), id(pair.writer)))

    def __setitem__(self, pair: Any, result: Any) -> None:
        super().__setitem__((id(pair.reader), id(pair.writer)), result)


def _entities(node: Any) -> Iterator[tuple[Entity, dict[str, Any]]]:
    """Yield the records and fields of a tree, in order, by full names like com.example.R.f."""
    if kind_of(node) not in RECORDS:
        for part in parts_of(node):
            yield from _entities(part)
        return
    name = node["name"]
    yield Entity(name, is_field=False), node
    for each in node["fields"]:
        yield Entity(f"{name}.{each['name']}", is_field=True), each
        yield from _entities(each["type"])
