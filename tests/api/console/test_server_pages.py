"""The pages of the server: cluster, namespaces, cleanup, access and audit."""

import json
from dataclasses import replace

import pytest

from tests.api.cluster.standing_by import STATE, Known
from tests.api.console.site import NS, PAGE, TOPIC, Site, site
from tests.api.doors import ROOT, Doors
from tests.sharding.three_shards import home_of
from tms.core.services.cluster import ClusterState, ShardStanding, ShardState
from tms.core.services.findings import Finding
from tms.core.values.caller import AUDIT, AUDIT_TOPIC, Caller
from tms.core.values.namespaces import NamespaceSettings
from tms.core.values.shards import ShardBy
from tms.security.resources import Action

pytestmark = pytest.mark.anyio


async def test_a_server_that_is_alone_says_so(open_site: Site) -> None:
    assert "This server is not part of a cluster" in await open_site.browser.get("cluster")


async def test_the_servers_of_a_cluster_are_shown(anyio_backend: object) -> None:
    async with site(cluster=Known()) as opened:
        page = await opened.browser.get("cluster")
    assert "<strong>leader</strong>" in page
    assert "http://a:1" in page


class Sharing:
    """A cluster whose servers share three shards, of which one is free."""

    async def state(self) -> ClusterState:
        shards = [
            ShardState(shard=0, leader=4, token=9, wish=4),
            ShardState(shard=1, leader=None, token=None, state=ShardStanding.FREE),
            ShardState(shard=2, leader=4, token=3),
        ]
        return replace(STATE, leader=None, token=None, by=ShardBy.TOPIC, shards=shards)

    def findings(self) -> list[Finding]:
        return []


async def test_who_leads_which_shard_is_shown_and_which_is_not_served(
    anyio_backend: object,
) -> None:
    async with site(cluster=Sharing()) as opened:
        page = await opened.browser.get("cluster")
    assert "<strong>leads</strong> 0, 2" in page
    assert '<span class="warn">free</span>' in page
    assert "by topic" in page
    assert "<strong>leader</strong>" not in page


async def test_cleanup_shows_its_passes_and_runs_one(open_site: Site) -> None:
    browser = open_site.browser
    page = await browser.get("cleanup")
    assert "Why rows were deleted" in page
    assert "Last passes" not in page
    answer = await browser.post("cleanup/run")
    assert "The pass has ended." in answer.text
    assert "Last passes" in answer.text
    cleanup = open_site.services.cleanup
    assert cleanup is not None
    state = await cleanup.state()
    assert (state.passes, len(state.last_passes)) == (1, 1)
    assert (await browser.ask("cleanup", shard="x")).status_code == 400
    assert (await browser.ask("cleanup", shard="7")).status_code == 400


async def test_each_shard_has_a_cleanup_of_its_own(anyio_backend: object) -> None:
    async with site(shard_by=ShardBy.NAMESPACE) as opened:
        browser = opened.browser
        page = await browser.get("cleanup")
        assert "The store has 3 shards" in page
        await browser.get("cleanup", shard="1")
        answer = await browser.post("cleanup/run", {"shard": "1"})
        assert "The pass has ended." in answer.text
        cleanups = [opened.services.in_shard(shard).cleanup for shard in range(3)]
        assert [(await each.state()).passes for each in cleanups if each] == [0, 1, 0]
        await opened.create()
        await home_of(opened.services, TOPIC).messaging.publish(TOPIC, [b"x"])
        assert "committed" in await browser.get(f"{PAGE}/messages")
        assert "Approximate size" in await browser.get(PAGE)


async def test_a_namespace_gets_settings_and_loses_them(open_site: Site) -> None:
    browser, namespaces = open_site.browser, open_site.services.namespaces
    assert "There are none" in await browser.get("namespaces")
    led = await browser.post("namespaces", {"name": NS})
    assert "Namespace ns" in led.text
    await browser.get(f"namespaces/{NS}")
    await browser.post(f"namespaces/{NS}/declare", {"ttl_s_max": "3600"})
    assert (await namespaces.namespace(NS)).settings == NamespaceSettings(ttl_s_max=3600)
    assert "ttl_s_max 3600" in await browser.get("namespaces")
    for bad in ("-1", "many", "9" * 100, "0"):
        answer = await browser.post(f"namespaces/{NS}/declare", {"ttl_s_max": bad})
        assert answer.status_code == 400
    assert (await browser.post(f"namespaces/{NS}/delete", {"typed": "x"})).status_code == 400
    assert (await namespaces.namespace(NS)).version == 0
    await browser.post(f"namespaces/{NS}/delete", {"typed": NS})
    assert (await namespaces.namespace(NS)).version is None


async def test_access_is_off(open_site: Site) -> None:
    assert "everybody may do everything" in await open_site.browser.get("access")


async def test_rules_and_tokens_are_shown_without_secrets(guarded_site: Site) -> None:
    doors = guarded_site.doors
    assert doors is not None
    secret = await doors.token("shop")
    rule = await doors.allow("shop", [Action.PUBLISH], NS, "orders*")
    browser = await guarded_site.as_somebody(ROOT)
    page = await browser.get("access")
    assert rule.id in page
    assert await doors.id_of("shop") in page
    assert secret.split("_", 2)[2] not in page
    asked = {"principal": "shop", "action": "publish", "namespace": NS, "topic": "orders1"}
    page = await browser.get("access", **asked)
    assert f"shop may publish on ns:orders1, by rule {rule.id}." in page
    page = await browser.get("access", **{**asked, "topic": "others"})
    assert "shop may not publish on ns:others: no rule allows it." in page
    assert (await browser.ask("access", principal="x", action="fly")).status_code == 400


async def test_rules_come_in_pages(guarded_site: Site) -> None:
    doors = guarded_site.doors
    assert doors is not None
    for number in range(101):
        await doors.allow(f"who{number:03}", [Action.CONSUME])
    browser = await guarded_site.as_somebody(ROOT)
    page = await browser.get("access")
    assert "who099" in page
    assert "<td>who100</td>" not in page
    page = await browser.get("access", rules="who099\x00zz")
    assert "<td>who100</td>" in page


async def test_who_may_nothing_sees_nothing_of_the_server(guarded_site: Site) -> None:
    browser = await guarded_site.as_somebody("nobody")
    for path in ("cluster", "cleanup", "audit", f"namespaces/{NS}"):
        assert (await browser.ask(path)).status_code in {403, 404}, path
    page = await browser.get("access")
    assert "to see rules and tokens." in page
    assert "nobody" in page
    assert "There are none" in await browser.get("namespaces")
    await browser.get("access")
    assert (await browser.post("cleanup/run")).status_code == 403
    assert (await browser.post(f"namespaces/{NS}/declare", {"ttl_s_max": "9"})).status_code == 403
    cleanup = guarded_site.services.cleanup
    assert cleanup is not None
    assert (await cleanup.state()).passes == 0


async def test_the_newest_of_the_audit_are_shown_to_who_may_read_it(anyio_backend: object) -> None:
    doors = Doors()
    await doors.open()
    async with site(doors) as opened:
        browser = await opened.as_somebody(ROOT)
        assert "This server does not publish its audit" in await browser.get("audit")
        caller = Caller(part=AUDIT)
        await opened.services.messaging.create_topic(AUDIT_TOPIC, {}, caller=caller)
        lines = [
            json.dumps({"time_ms": 1_700_000_000_000, "principal": "<b>mallory", "effect": "deny"}),
            "no json \u202e",
            "[1]",
        ]
        entries = [each.encode() for each in lines]
        await opened.services.messaging.publish(AUDIT_TOPIC, entries, caller=caller)
        page = await browser.get("audit")
        assert "2023-11-14 22:13:20" in page
        assert "&lt;b&gt;mallory" in page
        assert '<td class="bad">deny</td>' in page
        assert "\u202e" not in page
