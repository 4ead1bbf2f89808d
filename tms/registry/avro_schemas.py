"""Avro schemas: parsed and found right, in the text that is kept, and which data they can read.

What is right, and which schema reads what another has written, is decided by Avro's own library.
Its compatibility is that of Java's SchemaCompatibility. Wrong defaults are taken, as Confluent
takes them; a field's name is checked here, because the library does not.
"""

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import avro.schema
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.errors import AvroException
from avro.name import Names

from tms.registry.avro_text import avro_text, resolved_text
from tms.registry.questions import Incompatibility, InvalidSchema, Tagged, Tags
from tms.registry.written_tags import avro_entities, retag, tags_in

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema that is right."""

    text: str
    """As it is kept."""
    normalized: str
    parsed: avro.schema.Schema
    """With an error as a record: one reads the other."""
    tree: Any
    references: tuple[Any, ...] = ()
    """The trees of what it refers to."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields at its top."""
        is_record = isinstance(self.tree, Mapping) and self.tree["type"] in ("record", "error")
        return tuple(field["name"] for field in self.tree["fields"]) if is_record else ()

    @property
    def resolved(self) -> str:
        """Its text with the types that it refers to in it."""
        return resolved_text(self.tree, self.references)

    @property
    def tags(self) -> Tags:
        """The tags that are written in it."""
        return tags_in(avro_entities(self.tree))

    def tagged(self, wanted: Tagged) -> str:
        """Return its text with other tags. Raises `InvalidSchema` if an entity is not there."""
        tree = copy.deepcopy(self.tree)
        retag(avro_entities(tree), wanted)
        return json.dumps(tree)


def parse(text: str, references: Sequence[str] = ()) -> AvroSchema:
    """Return the schema of a text, which may name types that `references` define, in their order.

    Raises `InvalidSchema`.
    """
    try:
        names = Names(validate_names=True)
        referred = tuple(json.loads(reference) for reference in references)
        for reference in referred:
            avro.schema.make_avsc_object(reference, names)
        known = frozenset(names.names)
        tree = json.loads(text)
        _check_field_names(tree)
        avro.schema.make_avsc_object(tree, _copied(names))
        kept = avro_text(tree, known)
        normalized = avro_text(tree, known, normalized=True)
        parsed = avro.schema.make_avsc_object(json.loads(normalized), _copied(names))
    except (AvroException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidSchema(str(error) or type(error).__name__) from None
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply") from None
    return AvroSchema(kept, normalized, parsed, tree, referred)


def _copied(names: Names) -> Names:
    """Return the same names, so that a schema that is parsed twice defines its types twice."""
    copied = Names(validate_names=True)
    copied.names.update(names.names)
    return copied


def _check_field_names(tree: Any) -> None:
    """Raise `InvalidSchema` if a field has a name that Avro does not allow."""
    for schema in _objects(tree):
        fields = schema.get("fields")
        for field in fields if isinstance(fields, list) else ():
            name = field.get("name") if isinstance(field, Mapping) else None
            if isinstance(name, str) and not _NAME.fullmatch(name):
                raise InvalidSchema(f"Illegal character in: {name}")


def _objects(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Give the objects of a schema that are schemas themselves."""
    if isinstance(tree, list):
        for each in tree:
            yield from _objects(each)
    elif isinstance(tree, Mapping):
        yield tree
        fields = tree.get("fields")
        inner = [each.get("type") for each in fields or () if isinstance(each, Mapping)]
        for each in (*inner, tree.get("items"), tree.get("values")):
            yield from _objects(each)


def incompatibilities(reader: AvroSchema, writer: AvroSchema) -> list[Incompatibility]:
    """Return why `reader` cannot read what `writer` has written; nothing if it can."""
    checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    checked = checker.get_compatibility(reader.parsed, writer.parsed)
    if checked.compatibility is SchemaCompatibilityType.compatible:
        return []
    path = min(checked.locations, key=len, default="/")
    message = "; ".join(sorted(checked.messages))
    return [
        Incompatibility(kind.value.upper(), path, message)
        for kind in dict.fromkeys(checked.incompatibilities)
    ]
