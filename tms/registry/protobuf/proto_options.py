"""Custom options of a Protobuf file, such as tags: `(confluent.field_meta)`. Pure.

Their names are in parentheses. Tags of messages and fields are Confluent's, in the list `tags` of
such an option; a path is the message's name within its package, followed by a field's name.
"""

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from proto_schema_parser import ast

from tms.registry.protobuf.proto_text import proto_text
from tms.registry.protobuf.proto_tree import Quoted
from tms.registry.questions.questions import Entity, InvalidSchema, Tagged, Tags

_FIELD_META = "(confluent.field_meta)"
_MESSAGE_META = "(confluent.message_meta)"
_DEFINED_IN = "confluent/meta.proto"
_CONFLUENTS = "confluent."
_TAGS = "tags"


def without_extensions(file: ast.File) -> ast.File:
    """Return a file without custom options and their definitions."""
    copied = copy.deepcopy(file)
    _strip(copied.file_elements)
    return copied


def _strip(elements: list[Any]) -> None:
    elements[:] = [element for element in elements if not _is_extension(element)]
    for element in elements:
        for name in ("elements", "options"):
            inner = getattr(element, name, None)
            if isinstance(inner, list):
                _strip(inner)


def _is_extension(element: object) -> bool:
    if isinstance(element, ast.Option):
        return element.name.startswith("(")
    return isinstance(element, ast.Extension)


def proto_tags(file: ast.File) -> Tags:
    """Return the tags of messages and fields that have any."""
    tagged = []
    for entity, options in _entities(file):
        tags = _tags_of(options, _meta(entity))
        if tags:
            tagged.append((entity, tuple(tags)))
    return tuple(tagged)


def retagged(file: ast.File, change: Tagged) -> ast.File:
    """Return a file with other tags, and, if there are any, with the import that defines them.

    Raises `InvalidSchema` if there is no such message or field.
    """
    changed = copy.deepcopy(file)
    places = dict(_entities(changed))
    there = [each for each in change.if_there if each[0] in places]
    for entity, tags in (*there, *change.added):
        options = _options(places, entity)
        own = _tags_of(options, _meta(entity))
        _set_tags(options, _meta(entity), list(dict.fromkeys([*own, *tags])))
    for entity, tags in change.removed:
        options = _options(places, entity)
        own = _tags_of(options, _meta(entity))
        _set_tags(options, _meta(entity), [tag for tag in own if tag not in tags])
    defining = [element for element in changed.file_elements if _defines_tags(element)]
    if proto_tags(changed) and not defining:
        changed.file_elements.insert(0, ast.Import(_DEFINED_IN))
    elif proto_tags(file) and not proto_tags(changed):
        others = [element for element in changed.file_elements if not _defines_tags(element)]
        if _CONFLUENTS not in proto_text(ast.File(file_elements=others)):
            changed.file_elements = others
    return changed


def _defines_tags(element: object) -> bool:
    return isinstance(element, ast.Import) and element.name == _DEFINED_IN


def _entities(file: ast.File) -> Iterator[tuple[Entity, list[Any]]]:
    """Yield messages and fields, each with the list of its options."""
    yield from _of(file.file_elements, "")


def _of(elements: list[Any], scope: str) -> Iterator[tuple[Entity, list[Any]]]:
    for element in elements:
        if isinstance(element, ast.Message | ast.Group):
            name = f"{scope}{element.name}"
            yield Entity(name, is_field=False), element.elements
            yield from _of(element.elements, f"{name}.")
        elif isinstance(element, ast.OneOf):
            yield from _of(element.elements, scope)
        elif isinstance(element, ast.Field | ast.MapField):
            yield Entity(f"{scope}{element.name}", is_field=True), element.options


def _meta(entity: Entity) -> str:
    return _FIELD_META if entity.is_field else _MESSAGE_META


def _options(places: dict[Entity, list[Any]], entity: Entity) -> list[Any]:
    options = places.get(Entity(entity.path.removeprefix("."), entity.is_field))
    if options is None:
        kind = "field" if entity.is_field else "message"
        raise InvalidSchema(f"No {kind} {entity.path} was found")
    return options


def _name(element: object) -> str:
    """Return the name of an option, without a leading dot; "" for anything else."""
    return element.name.replace("(.", "(", 1) if isinstance(element, ast.Option) else ""


def _literal(options: list[Any], name: str) -> ast.MessageLiteral | None:
    for option in options:
        if _name(option) == name:
            return option.value if isinstance(option.value, ast.MessageLiteral) else None
    return None


def _tags_of(options: list[Any], name: str) -> list[str]:
    """Return the tags in options, whether as a list or one by one."""
    tags: list[Any] = []
    literal = _literal(options, name)
    for each in literal.elements if literal is not None else ():
        if isinstance(each, ast.MessageLiteralField) and each.name == _TAGS:
            tags += each.value if isinstance(each.value, list) else [each.value]
    for option in options:
        if _name(option) == f"{name}.{_TAGS}":
            tags += option.value if isinstance(option.value, list) else [option.value]
    return [tag.text for tag in tags if isinstance(tag, Quoted)]


def _set_tags(options: list[Any], name: str, tags: Iterable[str]) -> None:
    literal = _literal(options, name)
    others: list[Any] = [] if literal is None else literal.elements
    others = [other for other in others if getattr(other, "name", "") != _TAGS]
    texts: list[Any] = [Quoted.holding(tag) for tag in tags]
    kept: list[Any] = [ast.MessageLiteralField(_TAGS, texts)] if texts else []
    options[:] = [option for option in options if _name(option) not in (name, f"{name}.{_TAGS}")]
    if any(_name(option).startswith(f"{name}.") for option in options):
        # An option with parts that are set one by one cannot be set as a whole, too.
        options += [ast.Option(f"{name}.{_TAGS}", text) for text in texts]
    elif others or kept:
        options.append(ast.Option(name, ast.MessageLiteral([*others, *kept])))
