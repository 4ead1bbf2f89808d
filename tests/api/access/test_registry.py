"""Subjects of the registry as resources, by Confluent's own client too."""

from collections.abc import AsyncIterator
from typing import Any

import anyio.to_thread
import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from api.http.metrics import RestMetrics
from api.registry.application import create_registry_app
from tests.api.doors import ROOT, Doors, bearer
from tests.api.rest import serving
from tests.registry.registries import opened
from tms.core.limits import Limits
from tms.security.resources import Action, Kind
from tms.security.rules import Effect, Rule
from tms.wire.registry_bodies import CONTENT_TYPE

pytestmark = pytest.mark.anyio

TEXT = '{"type":"record","name":"R%d","fields":[]}'


class Subjects:
    """A registry that lets in whom it knows."""

    def __init__(self, doors: Doors, http: httpx.AsyncClient, url: str) -> None:
        self.doors = doors
        self.http = http
        self.url = url

    async def call(
        self, who: str | None, method: str, path: str, body: Any = None
    ) -> tuple[int, Any]:
        headers = {} if who is None else bearer(await self.doors.token(who))
        if body is not None:
            headers["content-type"] = CONTENT_TYPE
        answer = await self.http.request(method, path, json=body, headers=headers)
        return answer.status_code, answer.json()

    async def register(
        self, who: str, subject: str, number: int = 1, **more: Any
    ) -> tuple[int, Any]:
        path = f"/subjects/{subject}/versions"
        return await self.call(who, "POST", path, {"schema": TEXT % number, **more})

    async def allow(self, who: str, actions: str, name: str) -> None:
        chosen = frozenset(map(Action, actions.split()))
        rule = Rule("", who, Effect.ALLOW, chosen, Kind.SUBJECT, name=name)
        await self.doors.grants.add_rule(rule)


@pytest.fixture
async def subjects(anyio_backend: object) -> AsyncIterator[Subjects]:
    doors = Doors()
    await doors.open()
    async with opened() as registries:
        registry = registries.make().registry
        app = create_registry_app(registry, Limits(), RestMetrics(), access=doors.access())
        async with (
            serving(app, Limits()) as (url, _),
            httpx.AsyncClient(base_url=url, trust_env=False) as http,
        ):
            yield Subjects(doors, http, url)
    await doors.grants.close()


async def test_refusals_have_confluents_form(subjects: Subjects) -> None:
    for path in (
        "/",
        "/subjects",
        "/schemas/ids/1",
        "/config",
        "/contexts/.c/subjects",
        "/nothing",
    ):
        status, told = await subjects.call(None, "GET", path)
        assert (status, told["error_code"]) == (401, 401), path
        assert told["message"].startswith("Unauthorized")
    status, told = await subjects.register("ann", "a")
    assert (status, told["error_code"]) == (403, 40301)
    assert told["message"] == "User is denied operation Write on Subject: a"


async def test_each_action_is_needed_for_what_it_names(subjects: Subjects) -> None:
    needed = [
        ("write", "POST", "/subjects/a/versions", {"schema": TEXT % 1}),
        ("read", "GET", "/subjects/a/versions", None),
        ("read", "POST", "/subjects/a", {"schema": TEXT % 1}),
        ("read", "GET", "/config/a?defaultToGlobal=true", None),
        ("compatibility", "PUT", "/config/a", {"compatibility": "NONE"}),
        ("delete", "DELETE", "/subjects/a", None),
    ]
    for at, (action, method, path, body) in enumerate(needed):
        who = f"{at}-{action}"
        assert (await subjects.call(who, method, path, body))[0] == 403
        await subjects.allow(who, action, "a")
        assert (await subjects.call(who, method, path, body))[0] == 200, (action, path)
    await subjects.allow("some", "compatibility", "a*")
    put = "PUT", "/config", {"compatibility": "NONE"}
    assert (await subjects.call("some", *put))[0] == 403, "all subjects' is not a's"
    await subjects.allow("some", "compatibility", "*")
    assert (await subjects.call("some", *put))[0] == 200


async def test_lists_and_ids_give_what_may_be_read(subjects: Subjects) -> None:
    ids = [(await subjects.register(ROOT, name, at))[1]["id"] for at, name in enumerate(("a", "b"))]
    await subjects.register(ROOT, "c", 0)
    assert await subjects.call("ann", "GET", "/subjects") == (200, [])
    assert (await subjects.call("ann", "GET", f"/schemas/ids/{ids[0]}"))[0] == 403
    await subjects.allow("ann", "read", "c")
    assert await subjects.call("ann", "GET", "/subjects") == (200, ["c"])
    assert (await subjects.call("ann", "GET", f"/schemas/ids/{ids[0]}"))[0] == 200
    assert await subjects.call("ann", "GET", f"/schemas/ids/{ids[0]}/subjects") == (200, ["c"])
    assert (await subjects.call("ann", "GET", f"/schemas/ids/{ids[1]}"))[0] == 403
    status, told = await subjects.call("ann", "GET", "/schemas")
    assert (status, [each["subject"] for each in told]) == (200, ["c"])


async def test_no_other_name_leads_around_a_rule(subjects: Subjects) -> None:
    await subjects.register(ROOT, "secret")
    await subjects.register(ROOT, "open", 2)
    denied = Rule("", "ann", Effect.DENY, frozenset([Action.READ]), Kind.SUBJECT, name="secret")
    await subjects.doors.grants.add_rule(denied)
    await subjects.allow("ann", "read write compatibility", "*")
    reads = "/versions/1", "/versions", "/versions/latest"
    for name in ("secret", ":.:secret", "%73ecret"):
        for read in reads:
            assert (await subjects.call("ann", "GET", f"/subjects/{name}{read}"))[0] == 403, name
    assert (await subjects.call("ann", "GET", "/contexts/%2E/subjects/secret/versions"))[0] == 403
    status, _ = await subjects.call("ann", "PUT", "/config/alias", {"alias": "secret"})
    assert status == 200
    assert (await subjects.call("ann", "GET", "/subjects/alias/versions/1"))[0] == 403
    referring = {"references": [{"name": "R1", "subject": "secret", "version": 1}]}
    assert (await subjects.register("ann", "mine", 3, **referring))[0] == 403


async def test_confluents_client_says_who_asks(subjects: Subjects) -> None:
    await subjects.allow("ann", "read write", "orders-*")
    token = await subjects.doors.token("ann")
    conf = {
        "url": subjects.url,
        "bearer.auth.credentials.source": "STATIC_TOKEN",
        "bearer.auth.token": token,
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "pool-1",
    }

    def use() -> list[str]:
        with SchemaRegistryClient(conf) as client:
            client.register_schema("orders-value", Schema(TEXT % 1, "AVRO"))
            with pytest.raises(SchemaRegistryError) as refused:
                client.register_schema("other", Schema(TEXT % 1, "AVRO"))
            assert (refused.value.http_status_code, refused.value.error_code) == (403, 40301)
            return list(client.get_subjects())

    assert await anyio.to_thread.run_sync(use) == ["orders-value"]
