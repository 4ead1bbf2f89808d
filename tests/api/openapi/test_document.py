"""The OpenAPI document: it is valid, has every route, and its examples and errors are true."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest
import schemathesis

from api.app import OPERATIONS
from api.http.operation import BODY_ERRORS, SERVICE_ERRORS
from tests.api.rest import POINTER, TOPICS, Rest, refusal
from tms.core.errors.catalogue import CATALOGUE
from tms.core.limits import JSON_INTEGER_MAX

pytestmark = pytest.mark.anyio

CLIENT_ONLY = {
    "answer_lost",
    "lease_lost",
    "not_tms",
    "payload_undecodable",
    "plaintext_credentials",
    "schema_refused",
    "server_silent",
    "server_unreachable",
}
"""Raised by the client, never answered by a server."""
METADATA = {
    "bad_version",
    "invalid_path",
    "lock_busy",
    "path_exists",
    "path_has_children",
    "path_not_found",
    "value_too_large",
}
"""Codes of the metadata store and its locks, which REST does not offer."""
AT_OPENING = {
    "folder_unusable",
    "store_file_lost",
    "store_format_unknown",
    "store_locked",
    "store_not_found",
    "store_of_a_cluster",
    "store_sharded",
}
"""Raised before a server runs."""
WITHOUT_SERVER = {"checkpoint_behind", "copy_refused", "data_lost", "invalid_option", "invalid_row"}
"""Codes of commands and Spark jobs that work on a store or on a server's answers."""


async def document(rest: Rest) -> dict[str, Any]:
    answer = await rest.http.get("/openapi.json", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-encoding"] == "gzip"
    told: dict[str, Any] = answer.json()
    return told


async def test_the_document_is_valid_openapi(rest: Rest) -> None:
    schema = schemathesis.openapi.from_dict(await document(rest))

    schema.validate()
    assert len(list(schema.get_all_operations())) == len(OPERATIONS)


async def test_every_operation_of_the_table_is_in_it(rest: Rest) -> None:
    told = await document(rest)

    described = {(path, method) for path, item in told["paths"].items() for method in item}
    assert described == {(o.path, o.method.lower()) for o in OPERATIONS}
    names = [o.name for o in OPERATIONS]
    assert len(set(names)) == len(names)


async def test_every_operation_has_an_answering_route(rest: Rest) -> None:
    for operation in OPERATIONS:
        path = operation.path.format(
            namespace="ns",
            topic="t",
            subscription="s",
            transaction_id=POINTER,
            scheduled_id="0" * 32,
            backup="b",
            id="a" * 12,
        )
        answer = await rest.http.request(operation.method, path)
        if answer.status_code != 200:
            assert refusal(answer)[1] not in {"not_found", "method_not_allowed"}, path


async def test_every_code_of_the_catalogue_is_reported_with_its_status(rest: Rest) -> None:
    whole = await document(rest)
    told: set[str] = set()
    for item in whole["paths"].values():
        for operation in item.values():
            for status, response in operation["responses"].items():
                if status != "200":
                    codes = set(re.findall(r"`(\w+)`", response["description"]))
                    assert all(CATALOGUE[code].status == int(status) for code in codes)
                    name = response["$ref"].rpartition("/")[2]
                    shared = whole["components"]["responses"][name]
                    examples = shared["content"]["application/json"]["examples"]
                    assert codes <= set(examples)
                    told |= codes

    unmatched = {"method_not_allowed"}
    assert told == set(CATALOGUE) - CLIENT_ONLY - METADATA - AT_OPENING - WITHOUT_SERVER - unmatched


def test_errors_that_follow_from_path_body_and_query_are_reported_and_not_listed() -> None:
    follow = {o.name: set(replace(o, errors=()).all_errors) for o in OPERATIONS}
    of_part = {"not_found"}  # also listed by operations of a part of the server that may be off

    assert [o.name for o in OPERATIONS if follow[o.name] & set(o.errors) - of_part] == []
    assert {"invalid_topic_name", "invalid_namespace_name", "not_found"} < follow["poll"]
    assert set(BODY_ERRORS) < follow["poll"]
    assert {"unknown_query_parameter", *SERVICE_ERRORS} < follow["listNamespaces"]
    assert not {"invalid_namespace_name", *BODY_ERRORS} & follow["listNamespaces"]
    assert not {"unknown_query_parameter", "stopping"} & follow["metrics"]


async def test_examples_are_what_their_schemas_say(rest: Rest) -> None:
    told = await document(rest)
    checked = 0
    for item in told["paths"].values():
        for operation in item.values():
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            bodies += told["components"]["responses"].values() if checked == 0 else ()
            for media in (m for body in bodies for m in body.get("content", {}).values()):
                schema = {"components": told["components"], **media["schema"]}
                for given in media.get("examples", {}).values():
                    example = (
                        told["components"]["examples"][given["$ref"].rpartition("/")[2]]
                        if ("$ref" in given)
                        else given
                    )
                    jsonschema_rs.validate(schema, example["value"])
                    checked += 1
    assert checked > 50


def schemas_within(told: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every part of the document that may be a schema, with its place."""
    inner = told.items() if isinstance(told, dict) else enumerate(told)
    for name, each in inner:
        if isinstance(each, dict | list):
            yield from schemas_within(each, f"{place}/{name}")
    if isinstance(told, dict):
        yield place, told


async def test_each_whole_number_is_one_that_all_json_programs_keep(rest: Rest) -> None:
    """Numbers that may be greater, such as ids, are text."""
    found = [
        (place, schema)
        for place, schema in schemas_within(await document(rest))
        if "integer" in (schema.get("type"), *(schema.get("type") or ()))
    ]

    assert len(found) > 50
    assert [
        (place, schema)
        for place, schema in found
        if not schema.get("maximum", schema.get("const", JSON_INTEGER_MAX + 1)) <= JSON_INTEGER_MAX
    ] == []


async def test_ids_are_text_wherever_they_stand(rest: Rest) -> None:
    told = await document(rest)
    ids = ("transaction_id", "write_pointer", "write_pointers", "read_pointer")
    named = [
        schema
        for _, each in schemas_within(told)
        for name, schema in each.items()
        if name in (*ids, "transactionWritePointer", "oldest", "held_by")
    ]
    parameters = [each["schema"] for _, each in schemas_within(told) if each.get("name") in ids]

    texts = [json.dumps(schema) for schema in (*named, *parameters)]
    assert len(texts) > 20
    assert [text for text in texts if '"integer"' in text or '"number"' in text] == []
    assert '"integer"' not in json.dumps(told["components"]["schemas"]["WritePointer"])


async def test_examples_of_requests_are_taken(rest: Rest) -> None:
    told = await document(rest)
    operations = {o["operationId"]: o for item in told["paths"].values() for o in item.values()}
    count = '{"type":"record","name":"R","fields":[{"name":"count","type":"int"}]}'
    await rest.services.schemas.register("ns:publish-value-value", count)

    for name in ("publish", "poll"):
        content = operations[name]["requestBody"]["content"]
        for media_type, media in content.items():
            for example_name, example in media.get("examples", {}).items():
                topic = f"{TOPICS}/{name}-{example_name}"
                await rest.create(topic)
                answer = await rest.post(
                    name, json.dumps(example["value"]), media_type, topic=topic
                )
                assert answer.status_code == 200, (name, example_name, answer.text)
