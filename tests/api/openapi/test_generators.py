"""Walk both documents, and check rule by rule that client generators can read them."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from api.app import OPERATIONS
from api.openapi.document import encoded
from api.openapi.explicit import NAMED, VALUES, explicit
from api.openapi.service import service_document
from tests.api.registry.live import served

pytestmark = pytest.mark.anyio

BYTES_MAX, ZIPPED_MAX = 350_000, 50_000
MADE_OF_OPERATIONS = ("Request", "Response", "Responses", "Params", "Data", "Error", "Errors")
"""Suffixes of the types that generators name after an operation."""
TYPES = {"string": str, "integer": int, "boolean": bool}


@pytest.fixture(params=("service", "registry"))
async def document(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "service":
        of_service: dict[str, Any] = json.loads(encoded(service_document(OPERATIONS)))
        return of_service
    async with served() as api:
        told: dict[str, Any] = (await api.http.get("/openapi.json")).json()
        return told


def walked(part: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each object that is not a value or a map of names, with its place."""
    if isinstance(part, list):
        for index, each in enumerate(part):
            yield from walked(each, f"{place}/{index}")
    elif isinstance(part, dict):
        yield place, part
        for key, value in part.items():
            if key in NAMED and isinstance(value, dict):
                for name, each in value.items():
                    yield from walked(each, f"{place}/{key}/{name}")
            elif key not in VALUES:
                yield from walked(value, f"{place}/{key}")


def operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for item in document["paths"].values() for each in item.values()]


def plain(name: str) -> str:
    """Return a name as generators see it that convert names to their own case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def repeated(names: list[str]) -> list[str]:
    counts = Counter(map(plain, names))
    return [name for name in names if counts[plain(name)] > 1]


async def test_a_schema_has_one_type_and_its_values_have_it(document: dict[str, Any]) -> None:
    places = list(walked(document))
    assert len(places) > 500
    assert [place for place, part in places if isinstance(part.get("type"), list)] == []
    for place, part in places:
        if "const" in part or isinstance(part.get("enum"), list):
            values = [part["const"]] if "const" in part else part["enum"]
            assert all(type(value) is TYPES[part["type"]] for value in values), place


async def test_a_number_says_how_many_bits_it_needs(document: dict[str, Any]) -> None:
    numbers = [part for _, part in walked(document) if part.get("type") in ("integer", "number")]

    assert numbers
    for part in numbers:
        if part["type"] == "number":
            assert part["format"] == "double"
        elif "const" not in part and part.get("maximum", 2**31) >= 2**31:
            assert part["format"] == "int64", part


async def test_no_two_things_have_one_name(document: dict[str, Any]) -> None:
    components = [
        name
        for kind, each in document["components"].items()
        if kind not in ("securitySchemes", "examples")
        for name in each
    ]
    names = [each["operationId"] for each in operations(document)]
    of_operations = {plain(name) + plain(suffix) for name in names for suffix in MADE_OF_OPERATIONS}

    assert repeated(components) == []
    assert repeated(names) == []
    assert [name for name in components if plain(name) in of_operations] == []
    for place, part in walked(document):
        assert repeated(list(part.get("properties", ()))) == [], place


async def test_alternatives_with_a_common_tag_have_a_discriminator(
    document: dict[str, Any],
) -> None:
    schemas = document["components"]["schemas"]
    for place, part in walked(document):
        branches = [
            schemas[each["$ref"].rpartition("/")[2]] if "$ref" in each else each
            for each in part.get("oneOf", ())
        ]
        tags = [
            {
                name
                for name in each.get("required", ())
                if {"const", "enum"} & each.get("properties", {}).get(name, {}).keys()
            }
            for each in branches
        ]
        if len(tags) > 1 and set.intersection(*tags):
            mapping = part["discriminator"]["mapping"]
            assert sorted(mapping.values()) == sorted(each["$ref"] for each in part["oneOf"]), place


async def test_errors_are_shared_and_each_operation_lists_its_codes(
    document: dict[str, Any],
) -> None:
    shared = document["components"]["responses"]
    listed: dict[str, set[str]] = {name: set() for name in shared}
    for operation in operations(document):
        for status, response in operation["responses"].items():
            if not status.startswith("2"):
                name = response["$ref"].removeprefix("#/components/responses/")
                assert name == f"Error{status}"
                listed[name] |= set(re.findall(r"`(\w+)`", response["description"]))
    for name, codes in listed.items():
        assert codes == set(
            re.findall(r"^- `(\w+)`: ", shared[name]["description"], re.MULTILINE)
        ), name
        schemas = {
            media_type: media["schema"]["$ref"].removeprefix("#/components/schemas/")
            for media_type, media in shared[name]["content"].items()
        }
        assert schemas.pop("application/problem+json", "Problem") == "Problem"
        assert list(schemas.values()) == ["Error"]


async def test_tags_have_descriptions_and_somebody_is_named(document: dict[str, Any]) -> None:
    tags = [each["name"] for each in document["tags"]]

    assert all(each["description"] for each in document["tags"])
    assert {tag for each in operations(document) for tag in each["tags"]} == set(tags)
    assert document["info"]["contact"]["name"]


async def test_it_is_small(document: dict[str, Any]) -> None:
    body = encoded(document)

    assert len(body) <= BYTES_MAX
    assert len(gzip.compress(body)) <= ZIPPED_MAX


def test_credentials_are_asked_for_only_where_the_door_does() -> None:
    document = service_document(OPERATIONS)
    open_to_all = {each["operationId"] for each in operations(document) if "security" in each}

    assert all(each.get("security", []) == [] for each in operations(document))
    assert open_to_all == {each.name for each in OPERATIONS if each.action is None}
    assert {"health", "ready"} <= open_to_all
    assert document["security"][-1] == {}, "a server without access control asks nobody"


def test_values_and_names_are_left_alone() -> None:
    example = {"type": ["a", "b"], "enum": [1]}
    schema = {
        "type": ["string", "null"],
        "description": "Either.",
        "examples": [example],
    }
    part = {"properties": {"type": schema, "enum": {"enum": ["a"]}}, "default": example}
    told = explicit(part, {})

    assert told == {
        "properties": {
            "type": {
                "oneOf": [{"type": "string"}, {"type": "null"}],
                "description": "Either.",
                "examples": [example],
            },
            "enum": {"type": "string", "enum": ["a"]},
        },
        "default": example,
    }
    assert (
        json.dumps(explicit({"enum": [True, False]}, {}))
        == '{"type": "boolean", "enum": [true, false]}'
    )
