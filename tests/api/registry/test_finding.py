"""Lookups by parameters and paths, as in Confluent's registry."""

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


async def test_subjects_are_listed_with_their_aliases(api: Api) -> None:
    await api.register("s", fixed(1))
    await api.register("t", fixed(2))
    await api.register(":.c:s", fixed(3))
    for name, alias in (("b", "s"), ("a", "s"), (":.c:d", "s"), ("gone", "nosuch")):
        assert (await api.call("PUT", f"/config/{name}", {"alias": alias}))[0] == 200

    async def aliases(query: str) -> dict[str, Any]:
        told = (await api.get(f"/schemas?subjectPrefix=:*:&{query}"))[1]
        return {each["subject"]: each.get("aliases") for each in told}

    assert await aliases("aliases=true") == {":.c:s": [":.c:d"], "s": ["a", "b"], "t": None}
    assert await aliases("aliases=false") == {":.c:s": None, "s": None, "t": None}


async def test_deleted_referrers_are_shown_if_asked_for(api: Api) -> None:
    user = '{"type":"record","name":"U","fields":[{"name":"f","type":"F"}]}'
    await api.register("f", fixed(1))
    await api.register("u", user, references=[{"name": "F", "subject": "f", "version": 1}])
    path = "/subjects/f/versions/1/referencedby"
    assert await api.get(path) == await api.get(f"{path}?deleted=true") == (200, [2])
    await api.call("DELETE", "/subjects/u")
    assert await api.get(path) == (200, [])
    assert await api.get(f"{path}?deleted=true") == (200, [2])


async def test_the_modes_of_a_scope_are_removed_with_those_in_it(api: Api) -> None:
    for scope in ("", "/a", "/b", "/:.c:", "/:.c:d"):
        assert (await api.call("PUT", f"/mode{scope}", {"mode": "READONLY"}))[0] == 200

    async def set_scopes() -> list[str]:
        scopes = ("/a", "/b", "/:.c:", "/:.c:d")
        return [each for each in scopes if (await api.get(f"/mode{each}"))[0] == 200]

    assert await api.call("DELETE", "/mode/a") == (200, {"mode": "READONLY"})
    assert await api.call("DELETE", "/mode/:.c:?recursive=true") == (200, {"mode": "READONLY"})
    assert await set_scopes() == ["/b"]
    await api.call("PUT", "/mode/:.c:d", {"mode": "READONLY"})
    assert await api.call("DELETE", "/mode") == (200, {"mode": "READONLY"})
    assert await set_scopes() == ["/b", "/:.c:d"]
    assert await api.call("DELETE", "/mode?recursive=true") == (200, {"mode": "READWRITE"})
    assert await set_scopes() == ["/:.c:d"]
    assert (await api.call("DELETE", "/mode/:.c:?recursive=true"))[0] == 200
    assert refused(*await api.call("DELETE", "/mode/:.c:?recursive=true")) == 40401


async def test_an_unchanged_schema_is_not_sent_again(api: Api) -> None:
    made = (await api.register("s", '"int"'))["id"]
    places = [f"/schemas/ids/{made}", "/subjects/s/versions/latest"]
    places += [f"{place}/schema" for place in places]
    for place in places:
        tag = (await api.http.get(place)).headers["etag"]
        again = await api.http.get(place, headers={"if-none-match": tag})
        assert (again.status_code, again.content) == (304, b"")
    latest, tag = places[1], (await api.http.get(places[1])).headers["etag"]
    await api.register("s", '"long"')
    changed = await api.http.get(latest, headers={"if-none-match": tag})
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
