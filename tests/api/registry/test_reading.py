"""No answer of the registry has a word of a schema that the caller may not read."""

import json
from typing import Any

import pytest

from tests.api.registry.secured_registry import Secured
from tests.api.security.secured import ROOT
from tests.registry.registries import fixed
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

NAMED = '{"type":"record","name":"%s","namespace":"n","fields":[{"name":"%s","type":"%s"}]}'
SECRET = NAMED % ("Hidden", "secret", "int")
HOLDER = NAMED % ("Holder", "held", "Hidden")
USER = NAMED % ("User", "held", "Holder")
TAGS = [
    {"schemaEntity": {"entityPath": "n.Hidden.secret", "entityType": "sr_field"}, "tags": ["t"]}
]
NO_FIELD = [{"schemaEntity": {"entityPath": "n.Hidden.x", "entityType": "sr_field"}, "tags": ["t"]}]


def refers(name: str, subject: str) -> list[dict[str, Any]]:
    return [{"name": name, "subject": subject, "version": 1}]


async def registered(secured: Secured, subject: str, **body: Any) -> int:
    status, told = await secured.call(
        await secured.headers(ROOT), f"/subjects/{subject}/versions", body
    )
    assert status == 200, told
    return int(told["id"])


async def test_contexts_are_those_with_something_one_may_read(secured: Secured) -> None:
    ann, bob = await secured.headers("ann"), await secured.headers("bob")
    await secured.allow("ann", Action.READ, name="a")
    await secured.allow("bob", Action.READ, name=":.ctx:*")
    await registered(secured, ":.other:x", schema=fixed(1))
    assert await secured.call(await secured.headers("nobody"), "/contexts") == (200, [])
    assert await secured.call(ann, "/contexts") == (200, ["."])
    assert await secured.call(bob, "/contexts") == (200, [".ctx"])
    everything = [".", ".ctx", ".other"]
    assert await secured.call(await secured.headers(ROOT), "/contexts") == (200, everything)
    assert await secured.call(bob, "/contexts?limit=1&offset=1") == (200, [])


async def test_who_writes_and_does_not_read_is_told_numbers_alone(secured: Secured) -> None:
    contract = {"metadata": {"properties": {"owner": "secret"}}}
    await registered(secured, "s", schema=SECRET, **contract)
    await secured.allow("ann", Action.WRITE, name="s")
    ann = await secured.headers("ann")
    path = "/subjects/s/versions"
    whole = SECRET.replace('"type":"int"', '"type":"int","default":0')
    for path, body in (
        ("/subjects/s/versions", {"schema": SECRET}),
        ("/subjects/s/versions?format=resolved", {"schema": SECRET}),
        ("/subjects/s/versions", {}),
        ("/subjects/s/versions", {"metadata": {"properties": {"x": "y"}}}),
        ("/subjects/s/versions", {"schemaTagsToAdd": TAGS}),
        ("/subjects/s/versions", {"schema": whole, "propagateSchemaTags": True}),
        ("/subjects/s/versions/latest/tags", {"tagsToAdd": TAGS}),
    ):
        status, told = await secured.call(ann, path, body)
        assert (status, set(told)) == (200, {"id", "version"}), (path, body, told)
    for path, body, code in (
        ("/subjects/s/versions", {"schema": '"int"'}, 409),
        ("/subjects/s/versions", {"schema": fixed(9)}, 409),
        ("/subjects/s/versions", {"schemaTagsToAdd": NO_FIELD}, 42201),
        ("/subjects/s/versions/latest/tags", {"tagsToAdd": NO_FIELD}, 42201),
    ):
        status, told = await secured.call(ann, path, body)
        assert (status, "secret" in json.dumps(told).lower()) == (code, False), told
        assert "Hidden" not in json.dumps(told)
    # A caller that may read that schema too gets the reason.
    await secured.allow("bob", Action.WRITE, Action.READ, name="s")
    bob = await secured.headers("bob")
    told = (await secured.call(bob, "/subjects/s/versions", {"schema": '"int"'}))[1]
    assert "oldSchema: " in told["message"]
    assert "secret" in (await secured.call(bob, "/subjects/s/versions", {}))[1]["schema"]


async def test_what_is_made_with_references_is_for_who_reads_them(secured: Secured) -> None:
    await registered(secured, "hidden", schema=SECRET)
    await registered(secured, "held", schema=HOLDER, references=refers("n.Hidden", "hidden"))
    known = await registered(secured, "mine", schema=USER, references=refers("n.Holder", "held"))
    for name in ("held", "mine"):
        await secured.allow("ann", Action.READ, Action.WRITE, name=name)
    ann, root = await secured.headers("ann"), await secured.headers(ROOT)
    guid = (await secured.call(root, f"/schemas/ids/{known}"))[1]["guid"]
    reads = (
        "/subjects/mine/versions/1",
        "/subjects/mine/metadata",
        f"/schemas/ids/{known}",
        f"/schemas/guids/{guid}",
    )
    for path in reads:
        assert (await secured.call(ann, path))[0] == 200, path
        for query in ("format=resolved", "findTags=true", "format=resolved&findTags=true"):
            assert (await secured.call(ann, f"{path}?{query}"))[0] == 40301, path
        answer = await secured.server.http.get(f"{path}?format=resolved", headers=root)
        assert "secret" in answer.text, path
    texts = ("/subjects/mine/versions/1/schema", f"/schemas/ids/{known}/schema")
    for path in texts:
        answer = await secured.server.http.get(f"{path}?format=resolved", headers=ann)
        assert answer.status_code == 403, path
        assert (await secured.server.http.get(path, headers=ann)).text == USER
    # References in a request do not reach it either, at any depth.
    sent = {"schema": USER, "references": refers("n.Holder", "held")}
    for path in (
        *("/subjects/mine/versions", "/subjects/mine", "/subjects/mine/versions?format=resolved"),
        *("/compatibility/subjects/mine/versions", "/compatibility/subjects/mine/versions/latest"),
    ):
        assert (await secured.call(ann, path, sent))[0] == 40301, path
    path = "/compatibility/subjects/mine/versions/latest?verbose=true"
    assert (await secured.call(ann, path, {"schema": fixed(1)}))[0] == 40301
    status, told = await secured.call(ann, "/subjects/mine/versions", {"schema": fixed(1)})
    assert (status, "secret" in told["message"], "Holder" in told["message"]) == (409, False, False)
    # The text that contains the reference is the caller's own.
    told = (await secured.call(ann, "/subjects/mine/versions", {}))[1]
    assert told["schema"] == USER
    told = (await secured.call(ann, "/subjects/mine/versions?format=resolved", {}))[1]
    assert set(told) == {"id", "version"}


async def test_who_refers_to_a_version_is_told_to_who_reads_them(secured: Secured) -> None:
    await registered(secured, "open", schema=SECRET)
    known = await registered(secured, "user", schema=HOLDER, references=refers("n.Hidden", "open"))
    await secured.allow("ann", Action.READ, name="open")
    ann, root = await secured.headers("ann"), await secured.headers(ROOT)
    path = "/subjects/open/versions/1/referencedby"
    assert await secured.call(ann, path) == (200, [])
    assert await secured.call(root, path) == (200, [known])


@pytest.mark.parametrize("written", [":.::.ctx:mine", ":.::.::.ctx:mine", ":.ctx:mine"])
async def test_a_name_is_resolved_where_it_is_checked(secured: Secured, written: str) -> None:
    await registered(secured, ":.ctx:shared", schema=SECRET)
    await registered(secured, "shared", schema=SECRET.replace("secret", "known"))
    for name in (":.ctx:mine", "shared"):
        await secured.allow("ann", Action.READ, Action.WRITE, name=name)
    ann = await secured.headers("ann")
    sent = {"schema": HOLDER, "references": refers("n.Hidden", "shared")}
    for path in (f"/subjects/{written}/versions", f"/contexts/.other/subjects/{written}/versions"):
        assert (await secured.call(ann, path, sent))[0] == 40301, path
    sent["references"] = refers("n.Hidden", ":.:shared")
    status, told = await secured.call(ann, f"/subjects/{written}/versions", sent)
    assert status == 200, told
    shown = (await secured.call(ann, f"/subjects/{written}/versions/1?format=resolved"))[1]
    assert shown["subject"] == ":.ctx:mine"
    assert "known" in shown["schema"]
    # A version that is registered again with tags keeps the same references.
    tags = [{"schemaEntity": {"entityPath": "n.Holder", "entityType": "sr_record"}, "tags": ["t"]}]
    for path, body in (
        (f"/subjects/{written}/versions/1/tags", {"tagsToAdd": tags}),
        (f"/subjects/{written}/versions", {"schemaTagsToRemove": tags}),
    ):
        status, told = await secured.call(ann, path, body)
        assert status == 200, told
        assert told["references"] == refers("n.Hidden", "shared")


async def test_to_import_does_not_destroy_what_one_may_not_delete(secured: Secured) -> None:
    for name in ("s", "t"):
        await registered(secured, name, schema=SECRET)
        assert (
            await secured.call(await secured.headers(ROOT), f"/subjects/{name}", method="DELETE")
        )[0] == 200
    await secured.allow("ann", Action.COMPATIBILITY, Action.WRITE, Action.READ, name="s")
    await secured.allow("bob", Action.COMPATIBILITY, Action.DELETE)
    ann, bob = await secured.headers("ann"), await secured.headers("bob")
    state = secured.registry.state
    mode = {"mode": "IMPORT"}
    for query in ("", "?force=true"):
        assert (await secured.call(ann, f"/mode/s{query}", mode, "PUT"))[0] == 40301
    await secured.allow("eve", Action.COMPATIBILITY)
    await secured.allow("eve", Action.DELETE, name="s")
    eve = await secured.headers("eve")
    assert (await secured.call(eve, "/mode?force=true", mode, "PUT"))[0] == 40301
    assert len(state.versions("s", deleted=True)) == len(state.versions("t", deleted=True)) == 1
    # Nor does an import with its version number.
    root = await secured.headers(ROOT)
    assert (await secured.call(root, "/mode/t?force=true", {"mode": "READWRITE"}, "PUT"))[0] == 200
    await registered(secured, "u", schema=SECRET)
    assert (await secured.call(root, "/mode/u?force=true", mode, "PUT"))[0] == 200
    assert (await secured.call(root, "/subjects/u", method="DELETE"))[0] == 200
    await secured.allow("ann", Action.WRITE, name="u")
    over = {"schema": fixed(7), "id": 77, "version": 1}
    assert (await secured.call(ann, "/subjects/u/versions", over))[0] == 40301
    assert len(state.versions("u", deleted=True)) == 1
    assert (await secured.call(bob, "/mode/s", mode, "PUT"))[0] == 200
    assert state.versions("s", deleted=True) == []
