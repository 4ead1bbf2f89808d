"""What is found by parameters and paths as Confluent's registry has them."""

import json
from typing import Any

import pytest

from tests.api.registry.live import Api, refused
from tests.registry.registries import fixed

pytestmark = pytest.mark.anyio


def tagged_record() -> str:
    fields = [
        {"name": "a", "type": "int", "confluent:tags": ["PII", "X"]},
        {"name": "b", "type": "int", "confluent:tags": ["X"]},
        {"name": "c", "type": "int"},
    ]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("findTags=*", {"R.a": ["PII", "X"], "R.b": ["X"]}),
        ("findTags=%2A", {"R.a": ["PII", "X"], "R.b": ["X"]}),
        ("findTags=true", {"R.a": ["PII", "X"], "R.b": ["X"]}),
        ("findTags=PII", {"R.a": ["PII", "X"]}),
        ("findTags=PII&findTags=nosuch", {"R.a": ["PII", "X"]}),
        ("findTags=nosuch&findTags=X", {"R.a": ["PII", "X"], "R.b": ["X"]}),
        ("findTags=nosuch", {}),
        ("findTags=false", None),
        ("findTags=", None),
        ("format=resolved", None),
    ],
)
async def test_tags_are_found(api: Api, asked: str, told: Any) -> None:
    await api.register("s", tagged_record())
    for path in ("/schemas/ids/1", "/subjects/s/versions/1", "/subjects/s/versions/latest"):
        status, shown = await api.get(f"{path}?{asked}")
        assert status == 200
        found = shown.get("schemaTags")
        entities = found and {each["schemaEntity"]["entityPath"]: each["tags"] for each in found}
        assert (told if told is None else entities or {}) == told
        assert (found is None) == (told is None)


async def test_schemas_without_a_prefix_are_those_of_the_default_context(api: Api) -> None:
    await api.register("s", fixed(1))
    await api.register(":.c:t", fixed(2))

    async def subjects(path: str) -> list[str]:
        return [each["subject"] for each in (await api.get(path))[1]]

    assert await subjects("/schemas") == await subjects("/schemas?subjectPrefix=") == ["s"]
    assert await subjects("/schemas?subjectPrefix=:*:") == [":.c:t", "s"]
    assert await subjects("/contexts/.c/schemas") == [":.c:t"]
    assert (await api.get("/subjects"))[1] == [":.c:t", "s"]
    assert (await api.get("/subjects?subjectPrefix="))[1] == ["s"]


@pytest.mark.parametrize("context", [":.c:", ".c", "c", "%3A.c%3A"])
async def test_a_context_in_a_path_may_be_qualified(api: Api, context: str) -> None:
    status, told = await api.call(
        "POST", f"/contexts/{context}/subjects/s/versions", {"schema": fixed(1)}
    )
    assert (status, told["version"]) == (200, 1)
    assert await api.get("/subjects") == (200, [":.c:s"])
    assert await api.get(f"/contexts/{context}/subjects") == (200, [":.c:s"])
    assert (await api.get(f"/contexts/{context}/schemas/ids/1"))[0] == 200


async def test_a_context_that_can_be_none_is_refused(api: Api) -> None:
    for context in (":*:", ":c:", "::", ":.c", ":.c:d"):
        status, told = await api.get(f"/contexts/{context}/subjects")
        assert refused(status, told) == 42208, context
    await api.register("s", fixed(1))
    assert await api.get("/contexts/:.:/subjects") == (200, ["s"])


async def test_normalized_references_are_in_order(api: Api) -> None:
    for name in ("B", "A"):
        await api.register(name, fixed(1).replace('"F"', f'"{name}"'))
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":"A"},{"name":"b","type":"B"}]}'
    first, second = ({"name": name, "subject": name, "version": 1} for name in ("A", "B"))
    told = await api.register("s", text, references=[second, first, second])
    assert told["references"] == [second, first, second]
    path = "/subjects/t/versions?normalize=true"
    body = {"schema": text, "references": [second, first, second]}
    status, told = await api.call("POST", path, body)
    assert (status, told["references"]) == (200, [first, second])
    body["references"] = [first, second]
    assert (await api.call("POST", path, body))[1]["version"] == 1
    assert (await api.call("POST", "/subjects/t?normalize=true", body))[1]["version"] == 1
