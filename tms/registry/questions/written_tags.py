"""Tags in the text of an Avro or JSON Schema, as `confluent:tags`. Pure.

An entity is a record or a field. The file of a type finds its entities.
"""

from collections.abc import Iterator
from typing import Any

from tms.registry.questions.questions import Entity, InvalidSchema, Tagged, Tags

TAGS = "confluent:tags"

Json = Any


def tags_in(entities: Iterator[tuple[Entity, dict[str, Json]]]) -> Tags:
    """Return the tags of entities that have any."""
    tagged = [
        (entity, tuple(str(tag) for tag in node[TAGS]))
        for entity, node in entities
        if isinstance(node.get(TAGS), list)
    ]
    return tuple(tagged)


def retag(entities: Iterator[tuple[Entity, dict[str, Json]]], change: Tagged) -> None:
    """Append tags to the nodes of entities, and remove others.

    Raises `InvalidSchema` if there is no such entity.
    """
    nodes: dict[Entity, list[dict[str, Json]]] = {}
    for entity, node in entities:
        nodes.setdefault(entity, []).append(node)
    there = [each for each in change.if_there if each[0] in nodes]
    for entity, tags in (*there, *change.added):
        for node in _nodes(nodes, entity):
            node[TAGS] = list(dict.fromkeys([*_own(node), *tags]))
    for entity, tags in change.removed:
        for node in _nodes(nodes, entity):
            remaining = [tag for tag in _own(node) if tag not in tags]
            node.pop(TAGS, None)
            if remaining:
                node[TAGS] = remaining


def _nodes(nodes: dict[Entity, list[dict[str, Json]]], entity: Entity) -> list[dict[str, Json]]:
    node = nodes.get(Entity(entity.path.removeprefix("."), entity.is_field))
    if node is None:
        kind = "field" if entity.is_field else "record"
        raise InvalidSchema(f"No {kind} {entity.path} was found")
    return node


def _own(node: dict[str, Json]) -> list[Json]:
    tags = node.get(TAGS)
    return tags if isinstance(tags, list) else []
