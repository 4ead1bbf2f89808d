"""Metadata, rules and tags of schemas, stored and returned as Confluent's registry does."""

import json
from typing import Any

import pytest

from tests.api.registry.live import Api, refused
from tests.registry.registries import fixed, record

pytestmark = pytest.mark.anyio

OWNER = {"properties": {"owner": "me"}}
RULE = {"name": "short", "type": "CEL", "mode": "WRITE", "expr": "size(message.a) < 9"}
KEPT_RULE = {**RULE, "kind": "TRANSFORM", "disabled": False}
RULES = {"domainRules": [RULE]}


async def latest(api: Api, subject: str = "s") -> Any:
    status, told = await api.get(f"/subjects/{subject}/versions/latest")
    assert status == 200
    return told


async def test_metadata_and_rules_are_given_back(api: Api) -> None:
    told = await api.register("s", record("a"), metadata=OWNER, ruleSet=RULES)
    assert (told["metadata"], told["ruleSet"]) == (OWNER, {"domainRules": [KEPT_RULE]})
    for path in ("/subjects/s/versions/1", "/schemas/ids/1", "/schemas"):
        _, shown = await api.get(path)
        shown = shown[0] if isinstance(shown, list) else shown
        assert (shown["metadata"], shown["ruleSet"]) == (told["metadata"], told["ruleSet"])
        assert shown["guid"] == told["guid"]
    plain = await api.register("t", record("a"))
    assert plain["guid"] != told["guid"]
    assert plain["id"] == 2
    assert (await api.register("u", record("a"), metadata=OWNER, ruleSet=RULES))["id"] == 1


async def test_a_version_has_what_the_one_before_has(api: Api) -> None:
    await api.register("s", record("a"), metadata=OWNER)
    assert (await api.register("s", record("a", "b")))["metadata"] == OWNER
    assert (await api.register("s", record("a")))["version"] == 1
    other = {"properties": {"owner": "you"}}
    third = await api.register("s", record("a", "b"), metadata=other)
    assert (third["version"], third["id"]) == (3, 3)
    assert (await api.register("s", record("a", "b"), metadata=other))["version"] == 3
    fourth = await api.register("s", "", ruleSet=RULES)
    assert (fourth["version"], fourth["schema"]) == (4, third["schema"])
    assert (fourth["metadata"], fourth["ruleSet"]) == (other, {"domainRules": [KEPT_RULE]})
    fifth = await api.register("s", "", metadata={}, ruleSet={})
    assert fifth["version"] == 5
    assert "metadata" not in fifth
    assert "ruleSet" not in fifth


async def test_a_schema_is_looked_up_with_metadata_or_without(api: Api) -> None:
    await api.register("s", record("a"), metadata=OWNER)
    await api.register("s", record("a"), metadata={"properties": {"owner": "you"}})

    async def found(**more: Any) -> Any:
        status, told = await api.call("POST", "/subjects/s", {"schema": record("a"), **more})
        return told["version"] if status == 200 else refused(status, told)

    assert await found() == 2
    assert await found(metadata=OWNER) == 1
    assert await found(metadata={"properties": {"owner": "x"}}) == 40403
    assert await found(ruleSet={"domainRules": [{}]}) == 42210
    path = "/subjects/s/metadata?key=owner&value="
    assert (await api.get(f"{path}me"))[1]["version"] == 1
    assert refused(*await api.get(f"{path}x")) == 40403
    assert refused(*await api.get(f"{path}me&key=b&value=c")) == 40403
    assert refused(*await api.get(f"{path}me&key=b")) == 400
    assert refused(*await api.get("/subjects/q/metadata?key=a&value=b")) == 40401


async def test_a_named_version_is_noted(api: Api) -> None:
    told = await api.register("s", record("a"), version=1, metadata=OWNER)
    assert told["metadata"]["properties"] == {"confluent:version": "1", "owner": "me"}
    assert (await api.register("s", record("a"), version=1, metadata=OWNER))["version"] == 1
    told = await api.register("s", record("a", "b"))
    assert told["metadata"]["properties"] == {"confluent:version": "2", "owner": "me"}
    assert await api.register("s", record("c"), version=5) == 42201


async def test_settings_add_metadata_and_rules(api: Api) -> None:
    default = {"properties": {"owner": "all", "team": "x"}}
    override = {"properties": {"site": "here"}}
    settings = {
        "defaultMetadata": default,
        "overrideMetadata": override,
        "defaultRuleSet": {"domainRules": [{**RULE, "name": "other"}]},
    }
    status, told = await api.call("PUT", "/config", settings)
    assert (status, told["defaultMetadata"], told["overrideMetadata"]) == (200, default, override)
    assert (await api.get("/config"))[1]["defaultRuleSet"] == told["defaultRuleSet"]
    told = await api.register(
        "s", record("a"), metadata={"properties": {"owner": "me", "site": "there"}}, ruleSet=RULES
    )
    assert told["metadata"]["properties"] == {"owner": "me", "site": "here", "team": "x"}
    assert [rule["name"] for rule in told["ruleSet"]["domainRules"]] == ["other", "short"]
    await api.call("PUT", "/config/t", {"overrideMetadata": OWNER})
    told = await api.register("t", record("a"))
    assert told["metadata"]["properties"] == {"owner": "me", "team": "x"}
    wrong = {"overrideRuleSet": {"migrationRules": [RULE]}}
    assert refused(*await api.call("PUT", "/config", wrong)) == 42210
    status, told = await api.call("PUT", "/config", dict.fromkeys(settings))
    assert (status, told) == (200, {})
    assert "metadata" not in await api.register("u", record("a"))


async def test_wrong_rules_are_refused(api: Api) -> None:
    assert await api.register("s", record("a"), ruleSet={"domainRules": [{}]}) == 42210
    wrong = {"domainRules": [{**RULE, "kind": "x"}]}
    assert await api.register("s", record("a"), ruleSet=wrong) == 400
    assert refused(*await api.get("/subjects/s/versions")) == 40401


async def test_a_group_parts_the_history(api: Api) -> None:
    await api.call("PUT", "/config/s", {"compatibilityGroup": "major"})
    one, two = ({"properties": {"major": number}} for number in ("1", "2"))
    await api.register("s", fixed(1), metadata=one)
    assert await api.register("s", fixed(2), metadata=one) == 409
    assert (await api.register("s", fixed(2), metadata=two))["version"] == 2
    assert (await api.register("s", fixed(1), metadata=one))["version"] == 1
    path = "/compatibility/subjects/s/versions"
    for where, metadata, fits in (("", two, False), ("", one, True), ("/latest", one, True)):
        body = {"schema": fixed(1), "metadata": metadata}
        assert await api.call("POST", path + where, body) == (200, {"is_compatible": fits})


@pytest.mark.parametrize(
    ("kind", "free", "taken"),
    [
        ("AVRO", record("a"), record("a", "ssn")),
        (
            "JSON",
            '{"type":"object","properties":{"a":{}}}',
            '{"type":"object","properties":{"a":{},"ssn":{}}}',
        ),
        (
            "PROTOBUF",
            'syntax = "proto3"; message M { string a = 1; }',
            'syntax = "proto3"; message M { string a = 1; oneof o { string ssn = 2; } }',
        ),
    ],
)
async def test_reserved_fields_are_refused(api: Api, kind: str, free: str, taken: str) -> None:
    reserved = {"properties": {"confluent:reserved": "ssn, other"}}
    await api.call("PUT", "/config", {"validateFields": True, "compatibility": "NONE"})
    status, told = await api.call(
        "POST",
        "/subjects/s/versions",
        {"schema": taken, "schemaType": kind, "metadata": reserved},
    )
    assert refused(status, told) == 409
    assert "reserved field ssn" in told["message"]
    assert "validateFields: 'true'" in told["message"]
    assert (await api.register("s", free, schemaType=kind, metadata=reserved))["version"] == 1
    assert await api.register("s", taken, schemaType=kind) == 409
    assert await api.register("s", taken, schemaType=kind, metadata={}) == 409
    await api.call("PUT", "/config", {"validateFields": False})
    assert (await api.register("s", taken, schemaType=kind))["version"] == 2


async def test_schemas_are_found_by_the_type_of_a_rule(api: Api) -> None:
    await api.register("s", record("a"), ruleSet=RULES)
    await api.register("t", record("a"))
    assert [each["subject"] for each in (await api.get("/schemas?ruleType=CEL"))[1]] == ["s"]
    assert await api.get("/schemas?ruleType=ENCRYPT") == (200, [])


def tagged(path: str, kind: str, *tags: str) -> dict[str, Any]:
    return {"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(tags)}


PROTO = (
    'syntax = "proto3"; package p; '
    "message M { string a = 1; message N { map<string, int32> b = 1; } }"
)


@pytest.mark.parametrize(
    ("kind", "text", "entities"),
    [
        ("AVRO", record("a"), ("R", "R.a")),
        (
            "JSON",
            '{"type":"object","properties":{"a":{"type":"array","items":{"properties":{"b":{}}}}}}',
            ("object.a.array.object", "object.a.array.object.b"),
        ),
        ("PROTOBUF", PROTO, ("M.N", "M.N.b")),
    ],
)
async def test_tags_are_written_and_found(
    api: Api, kind: str, text: str, entities: tuple[str, str]
) -> None:
    holder, field = entities
    plain = (await api.register("s", text, schemaType=kind))["schema"]
    path = "/subjects/s/versions/latest/tags"
    body = {
        "newVersion": 2,
        "tagsToAdd": [
            tagged(f".{holder}", "sr_record", "T"),
            tagged(field, "sr_field", "PII", "X"),
        ],
        "metadata": OWNER,
        "rulesToMerge": RULES,
    }
    status, told = await api.call("POST", path, body)
    assert (status, told["version"]) == (200, 2)
    assert told["metadata"]["properties"] == {"confluent:version": "2", "owner": "me"}
    assert told["ruleSet"] == {"domainRules": [KEPT_RULE]}
    shown = (await api.get("/subjects/s/versions/2?findTags=true"))[1]
    assert shown["schemaTags"] == [
        tagged(holder, "sr_record", "T"),
        tagged(field, "sr_field", "PII", "X"),
    ]
    assert (await api.get("/schemas/ids/2?findTags=true"))[1]["schemaTags"] == shown["schemaTags"]
    again = await api.register("s", shown["schema"], schemaType=kind)
    assert again["version"] == 2

    kept = await api.register("s", text, schemaType=kind, propagateSchemaTags=True, normalize=True)
    assert kept["version"] == 2
    body = {
        "tagsToRemove": [
            tagged(holder, "sr_record", "T"),
            tagged(field, "sr_field", "PII", "X", "none"),
        ],
        "rulesToRemove": ["short"],
    }
    status, told = await api.call("POST", path, body)
    assert (status, told["version"], told["schema"]) == (200, 3, plain)
    assert "ruleSet" not in told
    body = {"tagsToAdd": [tagged("no.such", "sr_field", "T")]}
    assert refused(*await api.call("POST", path, body)) == 42201
    assert refused(*await api.call("POST", "/subjects/s/versions/9/tags", {})) == 40402
    assert refused(*await api.call("POST", "/subjects/q/versions/1/tags", {})) == 40401
    assert await api.get("/subjects/s/versions") == (200, [1, 2, 3])


async def test_tags_come_with_a_registration(api: Api) -> None:
    tags = [tagged("R.a", "sr_field", "PII")]
    told = await api.register("s", record("a"), schemaTagsToAdd=tags)
    assert '"confluent:tags":["PII"]' in told["schema"]
    assert told["metadata"]["properties"] == {"confluent:version": "1"}
    again = await api.register("s", record("a"), schemaTagsToAdd=tags)
    assert (again["id"], again["version"]) == (told["id"], 1)
    body = {"tagsToRemove": tags}
    status, untagged = await api.call("POST", "/subjects/s/versions/1/tags", body)
    assert (status, untagged["version"]) == (200, 2)
    assert untagged["metadata"]["properties"] == {"confluent:version": "2"}
    told = await api.register("s", record("b"), propagateSchemaTags=True)
    assert "confluent:tags" not in told["schema"]
    assert await api.register("s", record("b"), schemaTagsToAdd=tags) == 42201
    assert await api.register("s", "{", schemaTagsToAdd=tags) == 42201
    assert await api.register("q", "", schemaTagsToAdd=tags) == 42201
    assert await api.register("s", "", schemaTagsToAdd=tags, schemaType="x") == 42201


async def test_forms_of_a_schema(api: Api) -> None:
    await api.register("e", '{"type":"enum","name":"n.E","symbols":["A"]}')
    user = {
        "type": "record",
        "name": "n.U",
        "fields": [{"name": "a", "type": "E"}, {"name": "b", "type": ["null", "n.E"]}],
    }
    references = [{"name": "n.E", "subject": "e", "version": 1}]
    await api.register("u", json.dumps(user), references=references)
    for path in ("/schemas/ids/2", "/subjects/u/versions/1"):
        resolved = (await api.get(f"{path}?format=resolved"))[1]["schema"]
        enum = {"type": "enum", "name": "E", "symbols": ["A"]}
        assert json.loads(resolved)["fields"] == [
            {"name": "a", "type": enum},
            {"name": "b", "type": ["null", "E"]},
        ]
        assert (await api.get(f"{path}?format=nosuch"))[1]["schema"] == json.dumps(
            {"type": "record", "name": "U", "namespace": "n", "fields": user["fields"]}
        ).replace("n.E", "E").replace(" ", "")
    assert "metadata" not in await api.register("w", resolved)
    text = (
        'syntax = "proto3"; import "google/protobuf/descriptor.proto"; extend '
        "google.protobuf.FieldOptions { string x = 50000; } "
        'message M { string a = 1 [(x) = "y", deprecated = true]; }'
    )
    told = await api.register("p", text, schemaType="PROTOBUF")
    shown = (await api.get(f"/schemas/ids/{told['id']}?format=ignore_extensions"))[1]["schema"]
    assert "(x)" in told["schema"]
    assert "(x)" not in shown
    assert "extend" not in shown
    assert "deprecated = true" in shown


async def test_a_context_is_deleted_once_it_is_empty(api: Api) -> None:
    await api.register(":.c:s", record("a"))
    await api.call("PUT", "/config/:.c:", {"compatibility": "NONE"})
    assert await api.get("/contexts") == (200, [".", ".c"])
    assert refused(*await api.call("DELETE", "/contexts/.c")) == 42211
    await api.call("DELETE", "/subjects/:.c:s")
    assert refused(*await api.call("DELETE", "/contexts/c")) == 42211
    await api.call("DELETE", "/subjects/:.c:s?permanent=true")
    assert await api.get("/contexts?contextPrefix=.c") == (200, [".c"])
    answer = await api.http.delete("/contexts/.c")
    assert (answer.status_code, answer.content, "content-length" in answer.headers) == (
        *(204, b""),
        False,
    )
    assert await api.get("/contexts") == (200, ["."])
    assert refused(*await api.get("/config/:.c:")) == 40408
    assert refused(*await api.call("DELETE", "/contexts/.c")) == 40401
    assert refused(*await api.call("DELETE", "/contexts/%2E")) == 42205
    assert (await api.register(":.c:s", record("b")))["id"] == 2
    assert await api.get("/contexts") == (200, [".", ".c"])


async def test_settings_above_all_contexts(api: Api) -> None:
    await api.call("PUT", "/config/:.__GLOBAL:", {"compatibility": "FULL"})
    await api.call("PUT", "/mode/:.__GLOBAL:", {"mode": "READONLY"})
    for scope in ("s", ":.c:s", ":.c:"):
        path = f"{scope}?defaultToGlobal=true"
        assert await api.get(f"/config/{path}") == (200, {"compatibilityLevel": "FULL"})
        assert await api.get(f"/mode/{path}") == (200, {"mode": "READONLY"})
    await api.call("PUT", "/mode/:.c:", {"mode": "READWRITE"})
    assert (await api.register(":.c:s", record("a")))["id"] == 1
    assert await api.register("s", record("a")) == 42205
    await api.call("PUT", "/mode", {"mode": "READWRITE"})
    assert (await api.register("s", record("a")))["id"] == 1
    assert await api.register(":.__GLOBAL:s", record("a")) == 42208
