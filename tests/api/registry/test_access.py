"""Callers see and change only what rules allow in the registry; Confluent's client works too."""

import asyncio
import base64
import json
from functools import partial
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError

from api.registry.application import operations_of
from tests.api.registry.secured_registry import Secured
from tests.api.security.asking import TIMES, statuses
from tests.api.security.secured import ROOT
from tests.registry.registries import fixed, record
from tms.core.values.caller import ASKING
from tms.registry.setting_commands import set_config
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

ADDRESS = '{"type":"record","name":"n.A","fields":[]}'
USER = '{"type":"record","name":"U","fields":[{"name":"a","type":"n.A"}]}'


async def test_strangers_and_those_without_rules_get_nothing(secured: Secured) -> None:
    ann = await secured.headers("ann")
    names = {"subject": "a", "version": 1, "id": 1, "context": ".ctx"}
    guid = secured.registry.state.latest("a").schema.guid  # type: ignore[union-attr]
    for operation in operations_of(secured.registry):
        path = operation.path.format(**names, guid=guid)
        for prefix in ("", "/contexts/.ctx"):
            body = json.dumps({"schema": fixed(1)}).encode() if operation.request else b""
            asked = partial(statuses, secured.server, operation.method, prefix + path, body)
            assert await asked({}) == [401] * TIMES, path
            assert await asked({"authorization": "Bearer wrong"}) == [401] * TIMES, path
            found = set(await asked(ann))
            if operation.decided_by.name == "ANSWER":
                assert found <= {200, 403, 404, 405}, path
            else:
                assert found == {403}, path
    for path in ("/subjects", "/schemas"):
        assert await secured.call(ann, path) == (200, [])
    assert len(secured.registry.state.subjects) == 3


async def test_the_rule_for_its_action_is_all_an_operation_needs(secured: Secured) -> None:
    names = {"subject": "a", "version": 1, "id": 1, "context": ".none"}
    guid = secured.registry.state.latest("a").schema.guid  # type: ignore[union-attr]
    for operation in operations_of(secured.registry):
        headers = await secured.headers(operation.name)
        assert operation.action is not None
        await secured.allow(operation.name, operation.action)
        path = operation.path.format(**names, guid=guid)
        body = json.dumps({"schema": fixed(1)}).encode() if operation.request else b""
        found = await statuses(secured.server, operation.method, path, body, headers)
        assert not {401, 403, 500} & set(found), (operation.name, found)


async def test_checks_are_counted_by_the_caller(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    checker, asked = secured.registry.checker, []
    answers = checker.answers

    async def noted(questions: Any) -> Any:
        asked.append(ASKING.get().sharer)
        return await answers(questions)

    monkeypatch.setattr(checker, "answers", noted)
    await secured.allow("*", Action.WRITE, Action.READ)
    for number, who in enumerate(("ann", "bob", "ann", ROOT)):
        headers = await secured.headers(who)
        for path in ("/subjects/new/versions", "/compatibility/subjects/a/versions"):
            text = fixed(10 + 2 * number + path.startswith("/c"))
            await secured.call(headers, path, {"schema": text})
        expected = None if who == ROOT else who
        assert asked, who
        assert set(asked) == {expected}
        asked.clear()


async def test_refusals_have_the_form_of_confluents(secured: Secured) -> None:
    http = secured.server.http
    stranger = await http.get("/subjects")
    assert stranger.status_code == 401
    assert stranger.json()["error_code"] == 401
    assert stranger.json()["message"].startswith("Unauthorized: ")
    assert stranger.headers["www-authenticate"].startswith("Bearer")
    told = await secured.call(await secured.headers("ann"), "/subjects/a/versions/1")
    message = "User is denied operation Read on Subject: a"
    assert told == (40301, {"error_code": 40301, "message": message})


async def test_lists_have_what_one_may_read(secured: Secured) -> None:
    ann = await secured.headers("ann")
    await secured.allow("ann", Action.READ, name="a")
    await secured.allow("ann", Action.READ, name=":.ctx:*")
    root = await secured.headers(ROOT)
    assert (await secured.call(root, "/subjects"))[1] == [":.ctx:c", "a", "b"]
    assert (await secured.call(ann, "/subjects"))[1] == [":.ctx:c", "a"]
    assert (await secured.call(ann, "/subjects?limit=1&offset=1"))[1] == ["a"]
    schemas = (await secured.call(ann, "/schemas?subjectPrefix=:*:"))[1]
    assert [each["subject"] for each in schemas] == [":.ctx:c", "a"]


async def test_a_schema_by_id_is_for_those_who_read_a_subject_that_has_it(
    secured: Secured,
) -> None:
    ann, root = await secured.headers("ann"), await secured.headers(ROOT)
    await secured.allow("ann", Action.READ, name="z*")
    assert (await secured.call(ann, "/schemas/ids/1"))[0] == 40301
    assert "a" not in (await secured.call(ann, "/schemas/ids/1"))[1]["message"].split()
    assert (await secured.call(ann, "/schemas/ids/99"))[0] == 40403
    guid = (await secured.call(root, "/schemas/ids/1"))[1]["guid"]
    assert (await secured.call(ann, f"/schemas/guids/{guid}"))[0] == 40301
    assert (await secured.call(ann, f"/schemas/guids/{guid}/ids"))[0] == 40301

    same = {"schema": fixed(1)}
    assert (await secured.call(root, "/subjects/z/versions", same))[0] == 200
    for path in ("/schemas/ids/1", "/schemas/ids/1?subject=a", "/schemas/ids/1?subject=z"):
        status, told = await secured.call(ann, path)
        assert (status, told["subject"], told["version"]) == (200, "z", 1), path
    for path in ("/schemas/ids/1/schema", f"/schemas/guids/{guid}"):
        assert (await secured.call(ann, path))[0] == 200, path
    assert (await secured.call(ann, "/schemas/ids/1/subjects"))[1] == ["z"]
    versions = (await secured.call(ann, "/schemas/ids/1/versions"))[1]
    assert versions == [{"subject": "z", "version": 1}]
    # The context has another schema with this id.
    assert (await secured.call(ann, "/contexts/.ctx/schemas/ids/1"))[0] == 40301
    assert (await secured.call(ann, "/schemas/ids/1?subject=:.ctx:"))[0] == 40301
    assert (await secured.call(root, "/subjects/:.ctx:d/versions", same))[0] == 200
    ids = (await secured.call(ann, f"/schemas/guids/{guid}/ids"))[1]
    assert ids == [{"context": ".", "id": 1}]


async def test_a_name_is_the_same_however_it_is_written(secured: Secured) -> None:
    ann = await secured.headers("ann")
    await secured.allow("ann", Action.READ, name="a")
    await secured.allow("ann", Action.READ, name=":.ctx:c")
    allowed = (
        *("/subjects/a/versions/1", "/subjects/:.:a/versions/1", "/subjects/%61/versions/1"),
        *("/contexts/%2E/subjects/a/versions/1", "/contexts/.ctx/subjects/:.:a/versions/1"),
        *("/contexts/.ctx/subjects/c/versions/1", "/contexts/ctx/subjects/c/versions/1"),
        "/subjects/:.ctx:c/versions/1",
    )
    denied = (
        *("/subjects/b/versions/1", "/subjects/:.:b/versions/1", "/subjects/%62/versions/1"),
        *("/contexts/.ctx/subjects/:.:b/versions/1", "/contexts/.ctx/subjects/a/versions/1"),
        *("/subjects/c/versions/1", "/subjects/:.ctx:a/versions/1", "/subjects/:.ctx:/versions/1"),
    )
    for _ in range(2):
        for path in allowed:
            assert (await secured.call(ann, path))[0] == 200, path
        for path in denied:
            assert (await secured.call(ann, path))[0] == 40301, path


async def test_an_alias_is_not_a_way_to_what_one_may_not_read(secured: Secured) -> None:
    ann, root = await secured.headers("ann"), await secured.headers(ROOT)
    await secured.allow("ann", Action.READ, Action.COMPATIBILITY, name="mine*")
    await secured.allow("eve", Action.READ, name="b")
    eve = await secured.headers("eve")
    reads = (
        *("/subjects/mine/versions", "/subjects/mine/versions/1", "/subjects/mine/versions/latest"),
        *("/subjects/mine/versions/1/schema", "/subjects/mine/metadata"),
        "/subjects/mine/versions/1/referencedby",
    )
    posts = ("/subjects/mine", "/compatibility/subjects/mine/versions/latest")
    body = {"schema": fixed(2)}
    await secured.call(root, "/subjects/mine/versions", {"schema": fixed(9)})
    for path in reads:
        assert (await secured.call(ann, path))[0] == 200, path

    assert (await secured.call(ann, "/config/mine", {"alias": "b"}, "PUT"))[0] == 200
    for path in reads:
        assert (await secured.call(ann, path))[0] == 40301, path
        assert (await secured.call(eve, path))[0] == 200, "who reads what an alias leads to"
    for path in posts:
        assert (await secured.call(ann, path, body))[0] == 40301, path
        assert (await secured.call(eve, path, body))[0] == 200, path
    assert (await secured.call(ann, "/config/mine"))[0] == 200, "its own settings are not aliased"
    assert (await secured.call(eve, "/config/mine"))[0] == 40301


async def test_an_alias_that_another_server_sets_counts_at_once(secured: Secured) -> None:
    ann, root = await secured.headers("ann"), await secured.headers(ROOT)
    await secured.allow("ann", Action.READ, name="mine")
    await secured.call(root, "/subjects/mine/versions", {"schema": fixed(9)})
    assert (await secured.call(ann, "/subjects/mine/versions/latest"))[0] == 200
    other = secured.registries.make()
    change = {"alias": "b"}
    await other.registry.write(lambda known: set_config(known.state, "mine", change))
    assert (await secured.call(ann, "/subjects/mine/versions/latest"))[0] == 40301


async def test_a_schema_refers_to_what_one_may_read_alone(secured: Secured) -> None:
    ann, root = await secured.headers("ann"), await secured.headers(ROOT)
    mine = (Action.READ, Action.WRITE)
    for name in ("mine", ":.ctx:mine", "ctx"):
        await secured.allow("ann", *mine, name=name)
    for subject in ("secret", ":.ctx:secret", "ctx", ":.ctx:ctx"):
        told = await secured.call(root, f"/subjects/{subject}/versions", {"schema": ADDRESS})
        assert told[0] == 200

    def body(subject: str) -> dict[str, Any]:
        references = [{"name": "n.A", "subject": subject, "version": 1}]
        return {"schema": USER, "references": references}

    for path in (
        *("/subjects/mine/versions", "/subjects/mine"),
        *("/compatibility/subjects/mine/versions", "/compatibility/subjects/mine/versions/latest"),
    ):
        for refers in ("secret", ":.:secret", ":.ctx:secret"):
            assert (await secured.call(ann, path, body(refers)))[0] == 40301, (path, refers)
        # A name is resolved in the context of the subject.
        in_context = f"/contexts/.ctx{path}"
        for refers in ("secret", "ctx", ":.:secret"):
            assert (await secured.call(ann, in_context, body(refers)))[0] == 40301, (path, refers)
        assert (await secured.call(ann, in_context, body(":.:ctx")))[0] != 40301
    assert (await secured.call(ann, "/subjects/mine/versions", body("ctx")))[0] == 200


def confluent(url: str, **more: Any) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": url, "max.retries": 0, **more})


def by_token(token: str) -> dict[str, str]:
    return {
        "bearer.auth.credentials.source": "STATIC_TOKEN",
        "bearer.auth.token": token,
        "bearer.auth.logical.cluster": "any",
        "bearer.auth.identity.pool.id": "any",
    }


async def test_confluents_client_says_who_it_is(secured: Secured) -> None:
    url, token = secured.server.url, await secured.token("ann")
    await secured.allow("ann", Action.READ, Action.WRITE, name="by-*")
    schema = Schema(record("x"), "AVRO")
    basic = {"basic.auth.user.info": "ann:canary"}

    def work(subject: str, conf: dict[str, str]) -> None:
        with confluent(url, **conf) as client:
            known = client.register_schema(subject, schema)
            assert client.get_schema(known, subject_name=subject).schema_str == schema.schema_str
            assert client.lookup_schema(subject, schema).version == 1
            assert all(each.startswith("by-") for each in client.get_subjects())
            with pytest.raises(SchemaRegistryError) as raised:
                client.register_schema("other", schema)
            assert (raised.value.http_status_code, raised.value.error_code) == (403, 40301)
            with pytest.raises(SchemaRegistryError) as raised:
                client.delete_subject(subject)
            assert (raised.value.http_status_code, raised.value.error_code) == (403, 40301)

    def fail(conf: dict[str, str]) -> None:
        with confluent(url, **conf) as client, pytest.raises(SchemaRegistryError) as raised:
            client.register_schema("by-nobody", schema)
        assert (raised.value.http_status_code, raised.value.error_code) == (401, 401)
        assert "canary" not in str(raised.value)

    await asyncio.to_thread(work, "by-password", basic)
    await asyncio.to_thread(work, "by-token", by_token(token))
    wrong = {"basic.auth.user.info": "ann:canary2"}
    for conf in (
        {},
        wrong,
        by_token(token[:-1] + ("E" if token[-1] == "A" else "A")),
        by_token("x.y.z"),
    ):
        await asyncio.to_thread(fail, conf)


async def test_a_password_is_refused_alike_whatever_is_wrong(secured: Secured) -> None:
    messages = set()
    for pair in ("ann:wrong", "nobody:canary"):
        basic = base64.b64encode(pair.encode()).decode()
        headers = {"authorization": f"Basic {basic}"}
        answer: httpx.Response = await secured.server.http.get("/subjects", headers=headers)
        assert answer.status_code == 401
        messages.add(answer.json()["message"])
    assert len(messages) == 1


def told_of(secured: Secured, principal: str) -> list[dict[str, Any]]:
    """Return the audit's records about a principal, and clear them."""
    found = [json.loads(line) for line in secured.server.audited.lines]
    secured.server.audited.lines.clear()
    return [each for each in found if each["principal"] == principal]


async def test_each_refusal_and_each_use_is_reported_with_the_right_word(secured: Secured) -> None:
    names = {"subject": "a", "version": 1, "id": 1, "context": ".none"}
    guid = secured.registry.state.latest("a").schema.guid  # type: ignore[union-attr]
    refused = await secured.headers("refused")
    for operation in operations_of(secured.registry):
        assert operation.action is not None
        headers = await secured.headers(operation.name)
        await secured.allow(operation.name, operation.action)
        path = operation.path.format(**names, guid=guid)
        body = {"schema": fixed(1)} if operation.request else None
        for who, of in (("refused", refused), (operation.name, headers)):
            secured.server.audited.lines.clear()
            answer = await secured.server.http.request(
                operation.method, path, json=body, headers=of
            )
            told = [line for line in told_of(secured, who) if line["operation"] == operation.name]
            by_answer = operation.decided_by.name == "ANSWER"
            effect = "deny" if answer.status_code == 403 else "allow"
            assert who != "refused" or effect == "deny" or by_answer, operation.name
            assert who == "refused" or effect == "allow", (operation.name, answer.text)
            if not told:  # two operations that return one list count as one use per minute
                assert by_answer, operation.name
                assert effect == "allow", operation.name
                continue
            assert {line["effect"] for line in told} == {effect}, (operation.name, told)
            assert {line["status"] for line in told} == {answer.status_code}
            assert operation.action in {line["action"] for line in told}
            if not by_answer and operation.resource is not None:
                given = {name: names[name] for name in names if f"{{{name}}}" in operation.path}
                about = str(operation.resource({k: str(v) for k, v in given.items()}))
                assert about in {line["resource"] for line in told}, (operation.name, told)


async def test_what_is_refused_behind_the_door_is_reported_as_denied(secured: Secured) -> None:
    ann = await secured.headers("ann")
    await secured.allow("ann", Action.WRITE, Action.COMPATIBILITY, name="mine")
    references = [{"name": "n.A", "subject": "a", "version": 1}]
    body = {"schema": USER, "references": references}
    secured.server.audited.lines.clear()

    assert (await secured.call(ann, "/subjects/mine/versions", body))[0] == 40301

    told = told_of(secured, "ann")
    assert [(e["effect"], e["action"], e["resource"]) for e in told] == [
        ("deny", "read", "subject a")
    ]


async def test_modes_are_removed_recursively_by_who_may_set_each(secured: Secured) -> None:
    scope = ":.ctx:"
    ann, root = await secured.headers("ann"), await secured.headers(ROOT)
    await secured.allow("ann", Action.COMPATIBILITY, name=scope)
    for each in (scope, ":.ctx:c"):
        await secured.call(root, f"/mode/{each}", {"mode": "READONLY"}, "PUT")
    path = f"/mode/{scope}?recursive=true"
    assert (await secured.call(ann, path, method="DELETE"))[0] == 40301
    assert set(secured.registry.state.modes) == {scope, ":.ctx:c"}
    await secured.allow("ann", Action.COMPATIBILITY, name=":.ctx:c")
    assert (await secured.call(ann, path, method="DELETE"))[0] == 200
    assert not secured.registry.state.modes
