"""Registering, looking up, listing and deleting schemas: the answers of Confluent's registry."""

import hashlib
import uuid

import pytest

from tests.api.registry.live import Api, refused
from tests.registry.registries import NOW_MS, fixed, record

pytestmark = pytest.mark.anyio

STRING = '"string"'
DANGLING = {"name": "n", "subject": "nosuch", "version": 1}


def guid(text: str) -> str:
    return str(uuid.UUID(bytes=hashlib.md5(text.encode(), usedforsecurity=False).digest()))


async def test_a_schema_is_registered_and_shown(api: Api) -> None:
    told = await api.register("s", '{"type": "string"}')
    assert told == {
        "id": 1,
        "version": 1,
        "guid": guid(STRING),
        "schemaType": "AVRO",
        "schema": STRING,
    }
    version = {"subject": "s", "version": 1, "id": 1, "guid": guid(STRING)}
    version |= {"schemaType": "AVRO", "schema": STRING}
    stored = version | {"ts": NOW_MS, "deleted": False}
    assert await api.get("/subjects/s/versions/1") == (200, stored)
    assert await api.get("/subjects/s/versions/latest") == (200, stored)
    assert await api.get("/subjects/s/versions/-1") == (200, stored)
    assert await api.get("/subjects/s/versions/%20LATEST") == (200, stored)
    by_id = {name: value for name, value in stored.items() if name != "id"}
    assert await api.get("/schemas/ids/1") == (200, by_id)
    assert await api.get("/schemas/ids/1?fetchMaxId=true") == (200, by_id | {"maxId": 1})
    assert await api.get("/schemas/ids/1?nosuch=parameter") == (200, by_id)
    assert await api.get(f"/schemas/guids/{guid(STRING)}") == (
        200,
        {"schema": STRING, "schemaType": "AVRO", "guid": guid(STRING)},
    )
    assert await api.get(f"/schemas/guids/{guid(STRING)}/ids") == (
        200,
        [{"context": ".", "id": 1}],
    )
    assert await api.call("POST", "/subjects/s", {"schema": STRING}) == (200, version)
    assert await api.get("/schemas") == (200, [stored])
    assert await api.get("/subjects") == (200, ["s"])
    assert await api.get("/subjects/s/versions") == (200, [1])
    assert await api.get("/schemas/ids/1/subjects") == (200, ["s"])
    assert await api.get("/schemas/ids/1/versions") == (200, [{"subject": "s", "version": 1}])


async def test_a_text_comes_as_it_is_kept(api: Api) -> None:
    await api.register("s", '{"type": "string"}')
    for path in ("/schemas/ids/1/schema", "/subjects/s/versions/1/schema"):
        answer = await api.http.get(path)
        assert (answer.status_code, answer.text) == (200, STRING)


async def test_the_same_schema_has_one_id_under_all_subjects(api: Api) -> None:
    assert (await api.register("s", STRING))["id"] == 1
    assert (await api.register("s", '{"type":"string"}'))["version"] == 1
    assert (await api.register("t", STRING))["id"] == 1
    assert (await api.register("t", '"bytes"'))["id"] == 2
    assert await api.get("/schemas/ids/1/subjects") == (200, ["s", "t"])


async def test_contexts_have_ids_of_their_own(api: Api) -> None:
    assert (await api.register("s", STRING))["id"] == 1
    assert (await api.register(":.c:s", '"int"'))["id"] == 1
    assert await api.get("/contexts") == (200, [".", ".c"])
    assert (await api.get("/schemas/ids/1"))[1]["schema"] == STRING
    assert (await api.get("/schemas/ids/1?subject=:.c:"))[1]["schema"] == '"int"'
    assert await api.get("/subjects") == (200, [":.c:s", "s"])
    assert await api.get("/subjects?subjectPrefix=:.c:") == (200, [":.c:s"])
    assert await api.get("/subjects?subjectPrefix=s") == (200, ["s"])
    assert (await api.get("/subjects/:.:s/versions/1"))[1]["subject"] == "s"


async def test_a_context_is_a_path(api: Api) -> None:
    assert await api.get("/contexts/.c/subjects") == (200, [])
    status, told = await api.call("POST", "/contexts/.c/subjects/s/versions", {"schema": STRING})
    assert (status, told["id"]) == (200, 1)
    await api.register("s", '"int"')
    assert await api.get("/contexts/.c/subjects") == (200, [":.c:s"])
    assert await api.get("/contexts/c/subjects?subjectPrefix=s") == (200, [":.c:s"])
    assert await api.get("/contexts/.c/subjects/s/versions") == (200, [1])
    assert (await api.get("/contexts/.c/schemas/ids/1"))[1]["schema"] == STRING
    assert (await api.get("/contexts/.c/schemas/ids/1?subject=s"))[1]["subject"] == ":.c:s"
    assert [each["subject"] for each in (await api.get("/contexts/.c/schemas"))[1]] == [":.c:s"]
    level = {"compatibility": "NONE"}
    assert (await api.call("PUT", "/contexts/.c/config", level))[0] == 200
    assert await api.get("/config/:.c:") == (200, {"compatibilityLevel": "NONE"})
    assert await api.get("/contexts/.c/config/s?defaultToGlobal=true") == (
        200,
        {"compatibilityLevel": "NONE"},
    )
    assert await api.get("/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert (await api.register(":.c:s", fixed(1)))["version"] == 2
    assert (await api.call("PUT", "/contexts/.c/mode", {"mode": "READONLY"}))[0] == 200
    assert await api.register(":.c:t", STRING) == 42205
    assert (await api.register("t", STRING))["version"] == 1
    body = {"schema": STRING}
    assert (await api.call("POST", "/contexts/.c/subjects/s", body))[1]["version"] == 1
    path = "/contexts/.c/compatibility/subjects/s/versions"
    assert await api.call("POST", path, body) == (200, {"is_compatible": True})
    for wrong in ("a%3Ab", "%01"):
        assert refused(*await api.get(f"/contexts/{wrong}/subjects")) == 42208


async def test_a_subject_may_have_a_slash(api: Api) -> None:
    assert (await api.register("a%2Fb", STRING))["id"] == 1
    assert await api.get("/subjects") == (200, ["a/b"])


@pytest.mark.parametrize(
    ("subject", "body", "code"),
    [
        ("s", {}, 42201),
        ("s", {"schema": ""}, 42201),
        ("s", {"schema": "{"}, 42201),
        ("s", {"schema": STRING, "schemaType": "avro"}, 42201),
        ("s", {"schema": STRING, "schemaType": "NOSUCH"}, 42201),
        ("s", {"schema": '"nosuch"'}, 42201),
        ("s", {"schema": STRING, "references": [DANGLING]}, 42201),
        ("s", {"schema": STRING, "id": 5}, 42205),
        ("s", {"schema": STRING, "version": 3}, 42201),
        ("s", {"schema": '"' + "x" * 20_000 + '"'}, 42209),
        ("__GLOBAL", {"schema": STRING}, 42208),
        ("__EMPTY", {"schema": STRING}, 42208),
        ("%01", {"schema": STRING}, 42208),
        (":.c:", {"schema": STRING}, 42208),
        ("x" * 5000, {"schema": STRING}, 42208),
        ("s", "null", 422),
        ("s", " ", 422),
        ("s", "[]", 400),
        ("s", '"text"', 400),
        ("s", "{", 400),
        ("s", {"schema": 1}, 400),
        ("s", {"schema": STRING, "references": 1}, 400),
        ("s", '{"schema": "\\"int\\"", "schema": "\\"string\\""}', 400),
        ("s", b"\xff", 400),
        ("s", "[" * 100_000, 400),
    ],
    ids=lambda each: repr(each)[:40],
)
async def test_a_wrong_registration_changes_nothing(
    api: Api, subject: str, body: object, code: int
) -> None:
    answer = await api.call("POST", f"/subjects/{subject}/versions", body)
    assert refused(*answer) == code
    assert await api.registries.services.messaging.topics("system") == []


async def test_headers_say_what_a_body_is(api: Api) -> None:
    path = "/subjects/s/versions"
    body = b'{"schema": "\\"string\\""}'
    for kind in ("application/json", "application/octet-stream", "application/json; charset=utf-8"):
        assert (await api.call("POST", path, body, content_type=kind))[0] == 200
    for kind in ("text/plain", "application/x-www-form-urlencoded", "avro/binary"):
        assert refused(*await api.call("POST", path, body, content_type=kind)) == 415
    for accept, kind in {
        "*/*": "application/vnd.schemaregistry.v1+json",
        "application/json": "application/json",
        "application/vnd.schemaregistry+json, application/json": (
            "application/vnd.schemaregistry+json"
        ),
        "text/html, application/*;q=0.5": "application/vnd.schemaregistry.v1+json",
        "application/json;q=0.9, application/vnd.schemaregistry.v1+json;q=0.1": "application/json",
    }.items():
        answer = await api.http.get("/subjects", headers={"accept": accept})
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert refused(*await api.get("/subjects", accept="text/plain")) == 406


async def test_wrong_paths_and_methods(api: Api) -> None:
    assert refused(*await api.get("/nosuch")) == 404
    assert refused(*await api.get("/schemas/ids/abc")) == 404
    assert refused(*await api.get("/schemas/ids/99999999999")) == 404
    assert refused(*await api.get("/schemas/ids/-1")) == 40403
    assert refused(*await api.get("/subjects?limit=abc")) == 404
    assert refused(*await api.call("PATCH", "/subjects")) == 405
    assert refused(*await api.get("/subjects", host="evil.example")) == 421
    assert refused(*await api.get("/subjects", origin="http://evil.example")) == 403


async def test_what_is_not_there(api: Api) -> None:
    await api.register("s", STRING)
    assert await api.get("/schemas/ids/7") == (
        404,
        {"error_code": 40403, "message": "Schema 7 not found"},
    )
    for path in ("schema", "subjects", "versions"):
        assert refused(*await api.get(f"/schemas/ids/7/{path}")) == 40403
    assert refused(*await api.get(f"/schemas/guids/{uuid.uuid4()}")) == 40403
    assert refused(*await api.get("/schemas/guids/nonsense/ids")) == 40403
    assert await api.get("/subjects/q/versions") == (
        404,
        {"error_code": 40401, "message": "Subject 'q' not found."},
    )
    assert await api.get("/subjects/s/versions/7") == (
        404,
        {"error_code": 40402, "message": "Version 7 not found."},
    )
    assert refused(*await api.get("/subjects/q/versions/7")) == 40401
    for token in ("0", "-2", "abc", "2147483648", "1.0", "%20"):
        assert refused(*await api.get(f"/subjects/s/versions/{token}")) == 42202
        assert refused(*await api.call("DELETE", f"/subjects/s/versions/{token}")) == 42202
    assert refused(*await api.call("POST", "/subjects/q", {"schema": STRING})) == 40401
    assert refused(*await api.call("POST", "/subjects/s", {"schema": '"int"'})) == 40403
    assert refused(*await api.call("POST", "/subjects/s", {"schema": "{"})) == 42201


async def test_deleting_softly_and_for_good(api: Api) -> None:
    for text in (record("a"), record("a", "b")):
        await api.register("s", text)
    delete = "DELETE"
    assert refused(*await api.call(delete, "/subjects/q")) == 40401
    assert refused(*await api.call(delete, "/subjects/s?permanent=true")) == 40405
    assert refused(*await api.call(delete, "/subjects/s/versions/1?permanent=true")) == 40407
    assert await api.call(delete, "/subjects/s/versions/latest") == (200, 2)
    assert refused(*await api.call(delete, "/subjects/s/versions/2")) == 40406
    assert await api.get("/subjects/s/versions") == (200, [1])
    assert await api.get("/subjects/s/versions?deleted=true") == (200, [1, 2])
    assert await api.get("/subjects/s/versions?deletedOnly=true") == (200, [2])
    assert refused(*await api.get("/subjects/s/versions/2")) == 40402
    assert (await api.get("/subjects/s/versions/2?deleted=true"))[1]["deleted"] is True
    assert (await api.get("/schemas/ids/2"))[1]["deleted"] is True
    assert await api.get("/schemas/ids/2/versions") == (200, [])
    assert await api.get("/schemas/ids/2/subjects?deleted=true") == (200, ["s"])
    assert await api.call(delete, "/subjects/s") == (200, [1])
    assert refused(*await api.call(delete, "/subjects/s")) == 40404
    assert refused(*await api.get("/subjects/s/versions")) == 40401
    assert refused(*await api.get("/subjects/s/versions/latest")) == 40401
    assert refused(*await api.get("/subjects/s/versions/latest?deleted=true")) == 40402
    assert refused(*await api.call(delete, "/subjects/s/versions/latest")) == 40402
    assert await api.get("/subjects") == (200, [])
    assert await api.get("/subjects?deleted=true") == (200, ["s"])
    assert await api.get("/subjects?deletedOnly=true") == (200, ["s"])
    assert await api.call(delete, "/subjects/s/versions/2?permanent=true") == (200, 2)
    assert await api.call(delete, "/subjects/s?permanent=true") == (200, [1])
    assert refused(*await api.get("/schemas/ids/1")) == 40403
    again = await api.register("s", record("a"))
    assert (again["id"], again["version"]) == (3, 1)


async def test_registering_again_what_was_soft_deleted(api: Api) -> None:
    await api.register("s", STRING)
    await api.register("s", '"bytes"')
    assert await api.call("DELETE", "/subjects/s/versions/1") == (200, 1)

    again = await api.register("s", STRING)

    assert (again["id"], again["version"]) == (1, 3)
    assert await api.get("/subjects/s/versions?deleted=true") == (200, [2, 3])


async def test_references_are_resolved_and_protect(api: Api) -> None:
    await api.register("f", fixed(4))
    user = '{"type":"record","name":"U","fields":[{"name":"f","type":"F"}]}'
    named = [{"name": "F", "subject": "f", "version": -1}]
    assert await api.register("u", user) == 42201
    told = await api.register("u", user, references=named)
    resolved = [{"name": "F", "subject": "f", "version": 1}]
    assert told["references"] == resolved
    assert (await api.get("/schemas/ids/2"))[1]["references"] == resolved
    assert await api.get("/subjects/f/versions/1/referencedby") == (200, [2])
    for path in ("/subjects/f", "/subjects/f/versions/1"):
        assert refused(*await api.call("DELETE", path)) == 42206
    assert refused(*await api.call("POST", "/subjects/u", {"schema": user})) == 42201
    body = {"schema": user, "references": named}
    assert (await api.call("POST", "/subjects/u", body))[0] == 200

    await api.call("DELETE", "/subjects/u")
    assert await api.get("/subjects/f/versions/1/referencedby") == (200, [])
    assert await api.call("DELETE", "/subjects/f") == (200, [1])
    assert await api.register("v", user, references=named) == 42201


async def test_references_lead_only_so_far(api: Api) -> None:
    def link(number: int) -> str:
        fields = f'[{{"name":"f","type":"L{number - 1}"}}]'
        return f'{{"type":"record","name":"L{number}","fields":{fields}}}'

    await api.register("l0", '{"type":"fixed","name":"L0","size":1}')
    for number in (1, 2, 3):
        named = [{"name": f"L{number - 1}", "subject": f"l{number - 1}", "version": 1}]
        assert (await api.register(f"l{number}", link(number), references=named))["id"]
    named = [{"name": "L3", "subject": "l3", "version": 1}]
    assert await api.register("l4", link(4), references=named) == 42201


async def test_normalizing(api: Api) -> None:
    plain = '{"type":"record","name":"R","fields":[],"b":1,"a":2}'
    other = '{"type":"record","name":"R","fields":[],"a":2,"b":1}'
    assert (await api.register("s", plain))["schema"] == plain
    assert (await api.register("s", other))["version"] == 2
    assert (await api.register("n", plain, "?normalize=true"))["schema"] == other
    path = "/subjects/n"
    assert (await api.call("POST", path, {"schema": plain}))[0] == 404
    assert (await api.call("POST", f"{path}?normalize=true", {"schema": plain}))[0] == 200
    assert await api.call("PUT", "/config/n", {"normalize": True}) == (200, {"normalize": True})
    assert (await api.call("POST", path, {"schema": plain}))[0] == 200


async def test_lists_are_given_in_pages(api: Api) -> None:
    for name in "abcde":
        await api.register(name, STRING)
    assert await api.get("/subjects?offset=1&limit=2") == (200, ["b", "c"])
    assert await api.get("/subjects?offset=4") == (200, ["e"])
    assert await api.get("/subjects?offset=9") == (200, [])
    assert await api.get("/subjects?offset=-1&limit=-1") == (200, [*"abcde"])
    assert await api.get("/schemas/ids/1/subjects?limit=1") == (200, ["a"])
    told = await api.get("/schemas?subjectPrefix=b&latestOnly=true")
    assert [each["subject"] for each in told[1]] == ["b"]


async def test_a_long_list_comes_in_parts(api: Api) -> None:
    await api.call("PUT", "/config", {"compatibility": "NONE"})
    other = api.registries.make()
    for number in range(1, 1002):
        await other.register(f"s{number % 7}", fixed(number))

    status, told = await api.get("/schemas?offset=0")

    assert status == 200
    assert len(told) == 1001
    assert [(each["subject"], each["version"]) for each in told] == sorted(
        (each["subject"], each["version"]) for each in told
    )


async def test_reports_about_the_registry(api: Api) -> None:
    assert await api.get("/") == (200, {})
    assert await api.get("/schemas/types") == (200, ["AVRO", "JSON", "PROTOBUF"])
    assert (await api.get("/v1/metadata/id?x=1"))[1]["scope"]["clusters"]["tms-topic"] == (
        "system:_schemas"
    )
    assert (await api.get("/v1/metadata/version"))[0] == 200
    assert (await api.http.head("/subjects")).status_code == 200


@pytest.mark.parametrize(
    ("number", "code"),
    [
        ("2147483647", None),
        ("1073741825", None),
        ("2147483648", 400),
        ("4294967296", 400),
        ("1" + "0" * 4299, 400),
        ("1" + "0" * 4300, 400),
        ("-2147483649", 400),
        ("0", 42201),
    ],
    ids=lambda each: str(each)[:12],
)
async def test_an_imported_id_breaks_nobody(api: Api, number: str, code: int | None) -> None:
    assert (await api.call("PUT", "/mode/mine", {"mode": "IMPORT"}))[0] == 200
    body = f'{{"schema": "\\"string\\"", "id": {number}}}'
    status, told = await api.call("POST", "/subjects/mine/versions", body)
    assert (status == 200) if code is None else (refused(status, told) == code)
    for size in (1, 2):
        told = await api.call("POST", f"/subjects/s{size}/versions", {"schema": fixed(size)})
        assert (told[0], told[1]["id"]) == (200, size)
    assert await api.registries.make().id_of("s3", fixed(3)) == 3


@pytest.mark.parametrize("number", ["2147483648", "1" + "0" * 4299], ids=lambda each: each[:12])
async def test_no_number_of_a_body_is_out_of_bounds(api: Api, number: str) -> None:
    named = f'{{"name": "n", "subject": "s", "version": {number}}}'
    for path, body in (
        ("/subjects/s/versions", f'{{"schema": "\\"int\\"", "version": {number}}}'),
        ("/subjects/s/versions", f'{{"schema": "\\"int\\"", "references": [{named}]}}'),
        ("/subjects/s", f'{{"schema": "\\"int\\"", "references": [{named}]}}'),
        ("/subjects/s/versions/1/tags", f'{{"newVersion": {number}}}'),
    ):
        assert refused(*await api.call("POST", path, body)) == 400, path
    path = f"/subjects/s/versions/{'0' * 5000}1"
    assert refused(*await api.call("GET", path)) == 40401
