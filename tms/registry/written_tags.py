"""Tags that are written in the text of an Avro or JSON Schema, as `confluent:tags`. Pure.

An entity is a record or a field. Its path is, as Confluent has it:

    of Avro          the record's full name; of a field with its name behind it: com.example.R.f
    of JSON Schema   what leads there: object, object.f, object.f.array.object.g,
                     object.f.allof.0.object.h, object.f.not.object.i
"""

from collections.abc import Iterator
from typing import Any

from tms.registry.questions import Entity, InvalidSchema, Tagged, Tags
from tms.serdes.avro_tree import RECORDS, kind_of, parts_of

TAGS = "confluent:tags"
_COMBINED = ("allOf", "anyOf", "oneOf")

Json = Any


def tags_in(entities: Iterator[tuple[Entity, dict[str, Json]]]) -> Tags:
    """Return the tags of entities, of those that have any."""
    found = [
        (entity, tuple(str(tag) for tag in node[TAGS]))
        for entity, node in entities
        if isinstance(node.get(TAGS), list)
    ]
    return tuple(found)


def retag(entities: Iterator[tuple[Entity, dict[str, Json]]], wanted: Tagged) -> None:
    """Write tags into the nodes of entities, behind those that are there, and take others out.

    Raises `InvalidSchema` if there is no such entity.
    """
    nodes: dict[Entity, list[dict[str, Json]]] = {}
    for entity, node in entities:
        nodes.setdefault(entity, []).append(node)
    there = [each for each in wanted.if_there if each[0] in nodes]
    for entity, tags in (*there, *wanted.added):
        for node in _nodes(nodes, entity):
            node[TAGS] = list(dict.fromkeys([*_own(node), *tags]))
    for entity, tags in wanted.removed:
        for node in _nodes(nodes, entity):
            left = [tag for tag in _own(node) if tag not in tags]
            node.pop(TAGS, None)
            if left:
                node[TAGS] = left


def _nodes(nodes: dict[Entity, list[dict[str, Json]]], entity: Entity) -> list[dict[str, Json]]:
    found = nodes.get(Entity(entity.path.removeprefix("."), entity.is_field))
    if found is None:
        kind = "field" if entity.is_field else "record"
        raise InvalidSchema(f"No {kind} {entity.path} was found")
    return found


def _own(node: dict[str, Json]) -> list[Json]:
    tags = node.get(TAGS)
    return tags if isinstance(tags, list) else []


def avro_entities(node: Json) -> Iterator[tuple[Entity, dict[str, Json]]]:
    """Give the records and fields of an Avro schema's tree, in its order."""
    if kind_of(node) not in RECORDS:
        for part in parts_of(node):
            yield from avro_entities(part)
        return
    name = node["name"]
    yield Entity(name, is_field=False), node
    for field in node["fields"]:
        yield Entity(f"{name}.{field['name']}", is_field=True), field
        yield from avro_entities(field["type"])


def json_entities(
    schema: Json, path: tuple[str, ...] = ()
) -> Iterator[tuple[Entity, dict[str, Json]]]:
    """Give the objects and properties of a JSON Schema, in its order."""
    if not isinstance(schema, dict):
        return
    for keyword in _COMBINED:
        branches = schema.get(keyword)
        for index, branch in enumerate(branches if isinstance(branches, list) else ()):
            yield from json_entities(branch, (*path, keyword.lower(), str(index)))
    yield from json_entities(schema.get("not"), (*path, "not"))
    items = schema.get("items")
    for each in items if isinstance(items, list) else [items]:
        yield from json_entities(each, (*path, "array"))
    properties = schema.get("properties")
    if isinstance(properties, dict):
        own = (*path, "object")
        yield Entity(".".join(own), is_field=False), schema
        for name, value in properties.items():
            if isinstance(value, dict):
                yield Entity(".".join((*own, name)), is_field=True), value
                yield from json_entities(value, (*own, name))
