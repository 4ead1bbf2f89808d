"""A text without references may be a schema that was registered with some."""

import json
from typing import Any

import pytest

from tests.api.registry.live import LIMITS, Api, refused
from tests.api.registry.secured_registry import Secured
from tests.api.security.secured import ROOT
from tms.core.limits import SchemaLimits
from tms.core.services.schemas import SchemaReference
from tms.registry.registration import Registered
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

WRITTEN_OUT = (
    '{"name":"n.U","type":"record","fields":[{"name":"f","type":{"type":"record","name":"F",'
    '"fields":[{"name":"e","type":{"type":"enum","name":"E","symbols":["A"]}}]}},'
    '{"name":"g","type":["null","n.F"]}]}'
)


@pytest.mark.parametrize("query", ["", "?normalize=true"])
async def test_a_text_with_its_references_written_out_is_the_version_with_references(
    api: Api, query: str
) -> None:
    """Java's generated classes send such a text."""
    await api.register("e", '{"type":"enum","name":"n.E","symbols":["A"]}')
    to_enum = [{"name": "n.E", "subject": "e", "version": 1}]
    fields: list[Any] = [{"name": "e", "type": "E"}]
    text = json.dumps({"type": "record", "name": "n.F", "fields": fields})
    await api.register("f", text, references=to_enum)
    fields = [{"name": "f", "type": "F"}, {"name": "g", "type": ["null", "F"]}]
    user = json.dumps({"type": "record", "name": "n.U", "fields": fields})
    to_record = [{"name": "n.F", "subject": "f", "version": 1}]
    told = await api.register("u", user, references=to_record)
    assert (told["id"], told["version"]) == (3, 1)

    again = await api.register("u", WRITTEN_OUT, query)
    assert (again["id"], again["version"]) == (3, 1)
    assert again["references"] == told["references"]
    status, found = await api.call("POST", f"/subjects/u{query}", {"schema": WRITTEN_OUT})
    assert (status, found["id"], found["version"]) == (200, 3, 1)
    other = WRITTEN_OUT.replace('"A"', '"A","B"')
    assert refused(*await api.call("POST", "/subjects/u", {"schema": other})) == 40403
    assert (await api.register("u", other))["version"] == 2
    # A version with exactly that text comes first; in another subject it is another schema.
    elsewhere = await api.register("v", WRITTEN_OUT)
    assert elsewhere["id"] == 5
    assert (await api.register("u", WRITTEN_OUT))["id"] == 3


ENUM = '{"type":"enum","name":"%s","symbols":["A"]}'
USER = '{"type":"record","name":"n.U","fields":[{"name":"e","type":"%s"}]}'


def user(enum: str) -> str:
    """Return a text that has an enum where `USER` names one."""
    return USER.replace('"%s"', ENUM % enum)


async def test_a_reference_may_lead_into_another_context(api: Api) -> None:
    await api.register(":.other:e", ENUM % "n.E")
    references = [{"name": "n.E", "subject": ":.other:e", "version": 1}]
    await api.register(":.ctx:u", USER % "n.E", references=references)
    for path in ("/subjects/:.ctx:u", "/contexts/.ctx/subjects/u"):
        status, found = await api.call("POST", path, {"schema": user("n.E")})
        assert (status, found["id"], found["version"]) == (200, 1, 1), path
        status, told = await api.call("POST", f"{path}/versions", {"schema": user("n.E")})
        assert (status, told["id"], told["version"]) == (200, 1, 1), path
    assert refused(*await api.call("POST", "/subjects/u", {"schema": user("n.E")})) == 40401
    assert (await api.register("u", user("n.E")))["version"] == 1


async def test_the_version_may_be_deleted_softly(api: Api) -> None:
    await api.register("e", ENUM % "n.E")
    references = [{"name": "n.E", "subject": "e", "version": 1}]
    await api.register("u", USER % "n.E", references=references)
    await api.call("PUT", "/config/u", {"compatibility": "NONE"})
    await api.register("u", USER.replace("n.U", "n.V") % "n.E", references=references)
    await api.call("DELETE", "/subjects/u/versions/1")
    body = {"schema": user("n.E")}
    assert refused(*await api.call("POST", "/subjects/u", body)) == 40403
    status, found = await api.call("POST", "/subjects/u?deleted=true", body)
    assert (status, found["version"]) == (200, 1)


async def test_types_of_two_namespaces_are_two_unless_texts_are_normalized(api: Api) -> None:
    """Confluent's normalized text gives an unqualified type the namespace of the enclosing type."""
    for subject in ("u", "v", "w"):
        await api.register(f"{subject}-e", ENUM % "E")
        references = [{"name": "E", "subject": f"{subject}-e", "version": 1}]
        await api.register(subject, USER % "E", references=references)
    of_namespace, of_none = user("n.E"), user('E","namespace":"')
    assert (await api.register("u", of_none))["version"] == 1
    assert refused(*await api.call("POST", "/subjects/u", {"schema": of_namespace})) == 40403
    assert (await api.register("u", of_namespace))["version"] == 2
    for text in (of_none, of_namespace):
        assert (await api.register("v", text, "?normalize=true"))["version"] == 1
        status, found = await api.call("POST", "/subjects/v?normalize=true", {"schema": text})
        assert (status, found["version"]) == (200, 1)
    await api.call("PUT", "/config/w", {"normalize": True})
    assert (await api.register("w", of_none))["version"] == 1
    assert (await api.register("w", of_namespace))["version"] == 1


async def test_the_order_of_other_attributes_does_not_matter(api: Api) -> None:
    await api.register("e", '{"type":"enum","name":"n.E","symbols":["A"],"x":1,"y":{"a":1,"b":2}}')
    references = [{"name": "n.E", "subject": "e", "version": 1}]
    await api.register("u", USER % "n.E", references=references)
    written_out = user('n.E","y":{"b":2,"a":1},"x":1,"doc":"')
    assert (await api.register("u", written_out))["version"] == 1
    assert (await api.register("u", written_out.replace('"doc":""', '"doc":"d"')))["version"] == 2


async def test_versions_that_lead_too_far_by_now_do_not_hinder(api: Api) -> None:
    """Limits may be lower than when the versions were registered."""
    called = api.registries.make(limits=SchemaLimits(references_depth_max=9))
    await called.register("f0", ENUM % "n.E0")
    for number in range(1, 7):
        text = USER.replace("n.U", f"n.E{number}") % f"n.E{number - 1}"
        told = await called.register(
            f"f{number}", text, [SchemaReference(f"n.E{number - 1}", f"f{number - 1}", 1)]
        )
        assert isinstance(told, Registered)
    assert LIMITS.references_depth_max < 6
    await api.call("PUT", "/config/f6", {"compatibility": "NONE"})
    assert refused(*await api.call("POST", "/subjects/f6", {"schema": ENUM % "n.E6"})) == 40403
    assert (await api.register("f6", ENUM % "n.E6"))["version"] == 2


async def test_the_version_has_the_metadata_and_the_id_that_are_asked_for(api: Api) -> None:
    """This also holds if a version with exactly that text has other metadata."""
    await api.register("e", ENUM % "n.E")
    references = [{"name": "n.E", "subject": "e", "version": 1}]
    one, two = ({"properties": {"a": value}} for value in "12")
    await api.register("u", USER % "n.E", references=references, metadata=one)
    assert (await api.register("u", user("n.E"), metadata=two))["version"] == 2
    for metadata, version in ((one, 1), (two, 2)):
        body = {"schema": user("n.E"), "metadata": metadata}
        assert (await api.register("u", user("n.E"), metadata=metadata))["version"] == version
        assert (await api.call("POST", "/subjects/u", body))[1]["version"] == version
    await api.call("PUT", "/mode/i", {"mode": "IMPORT"})
    await api.register("i", USER % "n.E", references=references, id=70, version=1)
    assert (await api.register("i", user("n.E"), id=71, version=2))["version"] == 2
    assert (await api.register("i", user("n.E"), id=70))["version"] == 1


async def test_who_may_not_read_what_is_referred_to_does_not_find_out_its_text(
    secured: Secured,
) -> None:
    """Otherwise they could guess the text until the answer names the version."""
    root, ann = await secured.headers(ROOT), await secured.headers("ann")
    bob, eve = await secured.headers("bob"), await secured.headers("eve")
    enum, other = ENUM % "n.E", (ENUM % "n.E").replace('"A"', '"B"')
    for subject in ("mine", ":.ctx:mine"):
        for secret, text in (("secret", enum), ("other", other)):
            await secured.call(root, f"/subjects/{secret}/versions", {"schema": text})
        middle = '{"type":"record","name":"n.M","fields":[{"name":"e","type":"E"}]}'
        references = [{"name": "n.E", "subject": ":.:secret", "version": 1}]
        body = {"schema": middle, "references": references}
        await secured.call(root, "/subjects/middle/versions", body)
        references = [{"name": "n.M", "subject": ":.:middle", "version": 1}]
        body = {"schema": USER % "n.M", "references": references}
        assert (await secured.call(root, f"/subjects/{subject}/versions", body))[0] == 200
        for who in ("ann", "bob", "eve"):
            await secured.allow(who, Action.READ, Action.WRITE, name=subject)
    for name in ("middle", "secret"):
        await secured.allow("bob", Action.READ, name=name)
    await secured.allow("eve", Action.READ, name="middle")
    await secured.call(root, "/config", {"compatibility": "NONE"}, "PUT")

    right = {"schema": USER.replace('"%s"', middle.replace('"E"', enum))}
    wrong = {"schema": USER.replace('"%s"', middle.replace('"E"', other))}
    for subject in ("mine", ":.ctx:mine"):
        for query in ("", "?normalize=true"):
            path = f"/subjects/{subject}"
            status, found = await secured.call(bob, f"{path}{query}", right)
            assert (status, found["version"]) == (200, 1)
            status, told = await secured.call(bob, f"{path}/versions{query}", right)
            assert (status, told["version"]) == (200, 1)
            for stranger in (ann, eve):
                assert (await secured.call(stranger, f"{path}{query}", wrong))[0] == 40403
                assert (await secured.call(stranger, f"{path}{query}", right))[0] == 40403
    # To them, a text that is not stored verbatim is a new version, right or wrong.
    assert (await secured.call(eve, "/subjects/mine/versions", right))[1]["version"] == 2
    assert (await secured.call(eve, "/subjects/mine/versions", wrong))[1]["version"] == 3
    versions = secured.registry.state.versions("mine")
    assert [len(each.schema.references) for each in versions] == [1, 0, 0]
