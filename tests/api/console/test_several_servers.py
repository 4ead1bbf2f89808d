"""The console of several servers: a follower shows the leader's pages, a shard its leader's."""

import json
import re
from contextlib import AsyncExitStack

import pytest

from tests.api.cluster.sharing import SharingServer, code_of, shared, topic
from tests.api.cluster.standing_by import Second, leader, second
from tests.api.rest import NOW_MS
from tests.api.security.secured import ROOT, Pair, opened_server, pair
from tests.manual_clock import ManualClock
from tests.waiting import until
from tms.core.values.schedules import DeliveryTime
from tms.core.values.shards import ShardBy
from tms.core.values.topic import TopicId
from tms.security.tokens import new_token

__all__ = ["leader", "pair", "second"]
pytestmark = pytest.mark.anyio

PAGE = "/console/namespaces/n1/topics/t"
"""The page of a topic of shard 1, which the second server leads."""
FROM_ELSEWHERE = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}


async def test_without_access_control_the_browser_is_led_to_the_leader(
    anyio_backend: str,
) -> None:
    async with shared() as [first, second]:
        await first.http.put(topic("n1"))
        led = await first.http.get(f"{PAGE}?x=1")
        assert (led.status_code, led.headers["location"]) == (303, f"{second.url}{PAGE}?x=1")
        assert (await second.http.get(PAGE)).status_code == 200
        for path in ("/console", "/console/cluster", "/console/transactions"):
            assert (await first.http.get(path)).status_code == 200
        assert (await first.http.get("/console/namespaces/n0/topics/t")).status_code == 404


async def test_pages_whose_shard_is_not_in_their_path_are_of_its_leader(
    anyio_backend: str,
) -> None:
    async with shared() as [first, second]:
        await first.http.put(topic("n1"))
        for path in ("/console/topics?namespace=n1", "/console/cleanup?shard=1"):
            led = await first.http.get(path)
            assert (led.status_code, led.headers["location"]) == (303, f"{second.url}{path}")
        page = await second.http.get("/console/topics?namespace=n1")
        assert (page.status_code, "/namespaces/n1/topics/t" in page.text) == (200, True)
        for server in (first, second):
            assert (await server.http.get("/console/cleanup")).status_code == 200
        assert (await second.http.get("/console/cleanup?shard=1")).status_code == 200


async def test_topics_of_all_shards_are_shown_and_created_at_each_server(
    anyio_backend: str,
) -> None:
    async with shared(ShardBy.TOPIC) as servers:
        for server in servers:
            names = [f"{letter}{server.number}" for letter in "abcdefgh"]
            shown = await server.http.get("/console/topics?namespace=n")
            server.http.cookies.update(shown.cookies)
            found = re.search(r'name="csrf" value="([^"]+)"', shown.text)
            assert found is not None
            for name in names:
                form = {"csrf": found[1], "name": name}
                created = await server.http.post("/console/namespaces/n/topics", data=form)
                assert created.status_code == 303, created.text
            for each in servers:
                page = await each.http.get("/console/topics?namespace=n")
                assert page.status_code == 200
                assert all(f"/namespaces/n/topics/{name}" in page.text for name in names)


async def test_a_follower_has_the_leaders_console(pair: Pair) -> None:
    token = pair.root["authorization"].removeprefix("Bearer ")
    http = pair.standby.http
    form = await http.get("/console", headers={"accept": "text/html"}, follow_redirects=True)
    assert (form.status_code, "Sign in" in form.text) == (200, True)
    signed_in = await http.post("/console/sign-in", data={"token": token})
    assert signed_in.status_code == 303
    http.cookies.update(signed_in.cookies)
    page = await http.get("/console/topics")
    assert (page.status_code, ROOT in page.text) == (200, True)
    assert "tms-forwarded-by" in page.headers
    assert (await http.get("/v1/transactions")).status_code == 401


async def test_a_follower_forwards_nothing_of_strangers(pair: Pair) -> None:
    forwarded: list[str] = []
    enter = pair.forwarder._shares.enter

    async def noting(sharer: str) -> None:
        forwarded.append(sharer)
        await enter(sharer)

    pair.forwarder._shares.enter = noting  # type: ignore[method-assign]
    http = pair.standby.http
    for _ in range(2):
        led = await http.get("/console/topics?namespace=a")
        assert (led.status_code, "sign-in" in led.headers["location"]) == (303, True)
        wrong = await http.post("/console/sign-in", data={"token": "tms_wrong"})
        assert (wrong.status_code, "not valid" in wrong.text) == (200, True)
        form = await http.post("/console/namespaces/n/topics", data={"name": "t"})
        assert form.status_code == 401
        assert (await http.get("/console/no-such-page")).status_code == 303
        style = re.search(r'href="([^"]+\.css[^"]*)"', wrong.text)
        assert style is not None
        assert (await http.get(f"/console/{style[1]}")).status_code == 200
        http.cookies.set("tms_console", "made-up")
    assert forwarded == []
    assert (await http.get("/console/topics", headers=pair.root)).status_code == 200
    assert forwarded == [f"principal {ROOT}"]


async def test_a_form_of_who_signed_in_at_a_follower_is_taken_by_the_leader(pair: Pair) -> None:
    http = pair.standby.http
    token = pair.root["authorization"].removeprefix("Bearer ")
    signed_in = await http.post("/console/sign-in", data={"token": token})
    http.cookies.update(signed_in.cookies)
    page = await http.get("/console/topics?namespace=n", headers=FROM_ELSEWHERE)
    found = re.search(r'name="csrf" value="([^"]+)"', page.text)
    assert found is not None
    made = await http.post("/console/namespaces/n/topics", data={"csrf": found[1], "name": "t"})
    assert made.status_code == 303, made.text
    assert (await http.get("/v1/namespaces/n/topics", headers=pair.root)).json() == ["t"]
    signed_out = await http.post("/console/sign-out")
    assert signed_out.headers["location"].endswith("/sign-in")
    assert (await http.get("/console/topics?namespace=n")).status_code == 303


async def test_the_audit_has_each_form_that_changes_something(pair: Pair) -> None:
    topic_id, http = TopicId("n", "t"), pair.servers["directly"].http
    await pair.services.messaging.create_topic(topic_id)
    schedules = pair.services.schedules
    ids = (await schedules.schedule(topic_id, [b"1", b"2"], DeliveryTime(after_s=60))).ids
    token = pair.root["authorization"].removeprefix("Bearer ")
    http.cookies.update((await http.post("/console/sign-in", data={"token": token})).cookies)
    page = "/console/namespaces/n/topics/t/scheduled"
    found = re.search(r'name="csrf" value="([^"]+)"', (await http.get(page)).text)
    assert found is not None
    for message_id in ids:
        form = {"csrf": found[1], "id": message_id}
        assert (await http.post(f"{page}/cancel", data=form)).status_code == 303
    lines = [json.loads(line) for each in pair.servers.values() for line in each.audited.lines]
    told = [each["about"] for each in lines if each["operation"] == "consoleCancelScheduled"]
    assert told == [f"scheduled message {message_id}" for message_id in ids]


async def test_without_access_control_a_follower_leads_the_browser_to_the_leader(
    second: Second,
) -> None:
    led = await second.http.get("/console/topics?a=b")
    assert led.status_code == 303
    assert led.headers["location"] == f"{second.forwarder.address}/console/topics?a=b"
    second.forwarder.forward_to(None)
    assert (await second.http.get("/console")).status_code == 503


async def sign_in(server: SharingServer, token: str) -> None:
    answer = await server.http.post("/console/sign-in", data={"token": token})
    assert answer.status_code == 303, answer.text
    server.http.cookies.update(answer.cookies)


async def test_who_is_signed_in_at_one_server_sees_and_changes_topics_of_another(
    anyio_backend: str,
) -> None:
    clock = ManualClock(NOW_MS)
    async with AsyncExitStack() as stack:
        guards = [await opened_server(stack, "console-shards", clock) for _ in range(2)]
        token, kept = new_token(ROOT)
        await guards[0].grants.add_token(kept)
        await until(lambda: guards[1].grants.token(kept.id) is not None)
        [first, _] = await stack.enter_async_context(shared(guards=guards))
        bearer = {"authorization": f"Bearer {token}"}
        await first.http.put(topic("n1"), headers=bearer)

        stranger = await first.http.get(PAGE)
        assert stranger.status_code in (303, 401)
        assert stranger.headers.get("content-type", "text/html").startswith("text/html")

        refused = await first.http.post("/console/sign-in", data={"token": "tms_wrong"})
        assert (refused.status_code, "not valid" in refused.text) == (200, True)
        assert b"authenticate" in guards[0].audited.lines[-1]

        await sign_in(first, token)
        page = await first.http.get(PAGE, headers=FROM_ELSEWHERE)
        assert page.status_code == 200
        assert ROOT in page.text
        found = re.search(r'name="csrf" value="([^"]+)"', page.text)
        assert found is not None
        change = {"csrf": found[1], "typed": "t"}
        foreign = await first.http.post(f"{PAGE}/delete", data=change, headers=FROM_ELSEWHERE)
        assert foreign.status_code == 403
        assert (await first.http.post(f"{PAGE}/delete", data={"typed": "t"})).status_code == 403
        deleted = await first.http.post(f"{PAGE}/delete", data=change)
        assert deleted.status_code == 303, deleted.text
        gone = await first.http.get(topic("n1"), headers=bearer)
        assert code_of(gone) == (404, "topic_not_found")
