"""A follower forwards requests to the leader, streams both bodies, and says so in its answer.

The leader is a real one on the memory store, and both are behind sockets.
"""

import asyncio
import json

import pytest

from tests.api.cluster.standing_by import ID, Second
from tests.api.rest import (
    AVRO_TYPE,
    TOPIC,
    Live,
    avro_poll,
    avro_publish,
    live,
    refusal,
    zipped,
)
from tests.waiting import in_time, turns
from tms.messaging import waiting_reader

pytestmark = pytest.mark.anyio


async def test_requests_are_answered_by_the_leader(second: Second, leader: Live) -> None:
    created = await second.http.put(TOPIC, json={"ttl": 60})
    assert (created.status_code, created.content) == (200, b"")
    assert created.headers["tms-forwarded-by"] == str(ID)
    body = zipped(avro_publish(b"one", b"two"))
    headers = {"content-type": AVRO_TYPE, "content-encoding": "gzip"}
    await second.http.post(f"{TOPIC}/publish", content=body, headers=headers)

    assert await leader.payloads() == [b"one", b"two"]
    through, straight = [
        await http.post(f"{TOPIC}/poll", content=avro_poll(), headers={"content-type": AVRO_TYPE})
        for http in (second.http, leader.http)
    ]
    assert through.content == straight.content
    assert "tms-forwarded-by" not in straight.headers
    assert through.headers["content-type"] == AVRO_TYPE
    assert through.headers.get_list("date") == [through.headers["date"]]
    assert (await second.http.get(TOPIC)).json()["properties"]["ttl"] == "60"


async def test_errors_and_queries_come_through(second: Second) -> None:
    assert refusal(await second.http.get(TOPIC)) == (404, "topic_not_found")
    assert refusal(await second.http.get("/v1/nowhere")) == (404, "not_found")
    started = await second.http.post("/v1/transactions?codec=false")
    pointer = started.json()["transaction_id"]
    listed = await second.http.get("/v1/transactions?status=in_progress")
    assert [each["transaction_id"] for each in listed.json()] == [pointer]
    for path in ("/v1/transactions", "/v1/cluster"):  # forwarded, and answered here
        unknown = await second.http.get(f"{path}?none=1")
        assert refusal(unknown) == (400, "unknown_query_parameter")
    odd = await second.http.get("/v1/namespaces/a%2Fb/topics?x=%20y")
    assert refusal(odd) == (400, "unknown_query_parameter")
    head = await second.http.head("/openapi.json")
    assert (head.status_code, head.content) == (200, b"")


async def test_a_publish_on_condition_is_decided_by_the_leader(
    second: Second, leader: Live
) -> None:
    await second.http.put(TOPIC, json={"cleanup": "compact"})
    message = {"messages": [{"payload": "one", "key": "a"}]}
    first = await second.http.post(f"{TOPIC}/publish?if_last=empty&ids=true", json=message)
    [last] = first.json()["ids"]
    again = await second.http.post(f"{TOPIC}/publish?if_last=empty", json=message)
    assert refusal(again) == (409, "topic_moved")
    assert again.json()["error"]["detail"]["last_id"] == last
    behind = await second.http.post(f"{TOPIC}/publish?if_last={last}", json=message)
    assert behind.status_code == 200
    keyless = await second.http.post(f"{TOPIC}/publish", json={"messages": ["one"]})
    assert refusal(keyless) == (400, "key_required")
    assert await leader.payloads() == [b"one", b"one"]


async def test_a_body_arrives_before_it_is_whole(second: Second, leader: Live) -> None:
    await leader.create()
    wire = await second.connect()
    body = json.dumps({"messages": ["x" * 100_000]}).encode()
    headers = {"content-type": "application/json", "transfer-encoding": "chunked"}
    await wire.send("POST", f"{TOPIC}/publish", b"", headers)
    for start in range(0, len(body), 10_000):
        part = body[start : start + 10_000]
        wire.writer.write(b"%x\r\n%b\r\n" % (len(part), part))
        await wire.writer.drain()
        await turns(5)
    wire.writer.write(b"0\r\n\r\n")

    assert (await wire.answer())[0] == 200
    assert [len(payload) for payload in await leader.payloads()] == [100_000]
    await wire.close()


async def test_a_refused_body_ends_the_connection_after_the_answer(second: Second) -> None:
    wire = await second.connect()
    await wire.send("POST", f"{TOPIC}/publish", b"x", {"content-length": str(1 << 40)})

    status, headers, _ = await wire.answer()

    assert (status, headers["connection"]) == (413, "close")
    await wire.close()


async def test_a_body_that_never_comes_is_not_waited_for(second: Second, leader: Live) -> None:
    await leader.create()
    wire = await second.connect()
    await wire.send("POST", f"{TOPIC}/publish", b"x", {"content-length": "10"})

    status, headers, body = await wire.answer()

    assert (status, headers["connection"]) == (408, "close")
    assert json.loads(body)["error"]["code"] == "body_too_slow"
    await wire.close()


async def test_a_long_answer_is_streamed(second: Second, leader: Live) -> None:
    await leader.create()
    for _ in range(4):
        await leader.publish(*[bytes(100_000)] * 20)
    body, headers = avro_poll(limit=1000), {"content-type": AVRO_TYPE}
    parts = 0
    async with second.http.stream("POST", f"{TOPIC}/poll", content=body, headers=headers) as answer:
        async for _ in answer.aiter_raw():
            parts += 1

    assert parts > 5


async def test_a_poll_waits_at_the_leader_and_ends_with_its_client(
    second: Second, leader: Live
) -> None:
    await leader.create()
    wire = await second.connect()
    headers = {"content-type": AVRO_TYPE}
    await wire.send("POST", f"{TOPIC}/poll?wait=60", avro_poll(), headers)
    await leader.until(lambda: leader.waiters() == 1)

    await wire.close()

    await leader.until(lambda: leader.waiters() == 0)


async def test_without_a_leader_nothing_is_done_and_that_is_said(second: Second) -> None:
    for address in (None, "http://127.0.0.1:1"):
        second.forwarder.forward_to(address)
        answer = await second.http.put(TOPIC)
        assert refusal(answer) == (503, "no_leader")
        assert answer.headers["retry-after"] == "1"
    second.forwarder.forward_to(None)
    second.services.places.set_remote(0, None, None)
    assert refusal(await second.http.get("/ready")) == (503, "no_leader")


async def test_what_was_forwarded_once_is_not_forwarded_again(second: Second, leader: Live) -> None:
    answer = await second.http.put(TOPIC, headers={"TMS-Forwarded-By": "3"})

    assert refusal(answer) == (503, "no_leader")
    assert refusal(await leader.http.get(TOPIC)) == (404, "topic_not_found")


async def test_when_another_leads_who_waits_is_informed_that_he_does_not_know(
    second: Second, leader: Live
) -> None:
    await leader.create()
    headers = {"content-type": AVRO_TYPE}
    waiting = asyncio.create_task(
        second.http.post(f"{TOPIC}/poll?wait=60", content=avro_poll(), headers=headers)
    )
    await leader.until(lambda: leader.waiters() == 1)

    second.forwarder.forward_to("http://127.0.0.1:1")

    async with in_time():
        assert refusal(await waiting) == (504, "outcome_unknown")


async def test_requests_about_the_server_itself_are_answered_here(second: Second) -> None:
    for path in ("/health", "/ready", "/metrics", "/v1/cluster"):
        answer = await second.http.get(path)
        assert answer.status_code == 200
        assert "tms-forwarded-by" not in answer.headers
    told = (await second.http.get("/v1/cluster")).json()
    assert (told["id"], told["role"], told["leader"], told["token"]) == (ID, "standby", 4, 2)
    assert told["instances"][0]["address"] == "http://a:1"
    assert (told["by"], told["shards"]) == (None, [])


async def test_a_leader_answers_for_as_long_as_its_lease_lasts(second: Second) -> None:
    left_s = 5.0
    async with live(own=True) as own:
        await own.create()
        second.routing.lead(0, own.services, lambda: left_s)
        assert (await second.http.get(TOPIC)).status_code == 200
        left_s = 0.0
        assert refusal(await second.http.get(TOPIC)) == (404, "topic_not_found")
        left_s = 5.0
        assert (await second.http.get(TOPIC)).status_code == 200
        second.routing.follow(0)
        assert refusal(await second.http.get(TOPIC)) == (404, "topic_not_found")


async def test_a_target_is_handed_on_as_it_came(second: Second) -> None:
    """The leader receives the exact path: an encoded slash stays within its name."""
    answer = await second.http.get("/v1/namespaces/ns/topics/a%2Fb")

    assert refusal(answer) == (400, "invalid_topic_name")
    assert answer.json()["error"]["detail"] == {"topic": "a/b"}


async def test_a_page_of_the_standby_itself_may_call_the_leader(second: Second) -> None:
    origin = str(second.http.base_url).rstrip("/")
    for sent, status in ((origin, 200), ("http://evil.example", 403)):
        answer = await second.http.put(
            f"{TOPIC}-{status}", headers={"origin": sent, "sec-fetch-site": "same-origin"}
        )
        assert answer.status_code == status


async def test_a_server_alone_says_so(leader: Live) -> None:
    answer = await leader.http.get("/v1/cluster")

    assert answer.json() == {
        "id": None,
        "role": "alone",
        "leader": None,
        "token": None,
        "instances": [],
        "by": None,
        "shards": [],
    }


async def test_who_takes_no_gzip_is_sent_none(leader: Live, second: Second) -> None:
    await leader.create(TOPIC)
    await leader.publish(b"x" * 100_000)
    for wire in (await leader.connect(), await second.connect()):
        await wire.send("POST", f"{TOPIC}/poll", b"{}", {"content-type": "application/json"})
        status, headers, _ = await wire.answer()
        assert (status, headers.get("content-encoding")) == (200, None)
        await wire.close()


async def test_a_reader_is_told_where_it_waits_through_a_standby(
    second: Second, leader: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_reader, "STOPPED_S", 0.02)
    await leader.create()
    started = await second.http.post("/v1/transactions?codec=false")
    pointer = started.json()["transaction_id"]
    await leader.publish(b"a", pointer=int(pointer))
    path, headers = f"{TOPIC}/poll?isolation=committed&wait=60", {"content-type": AVRO_TYPE}

    async with (
        in_time(),
        second.http.stream("POST", path, content=avro_poll(), headers=headers) as answer,
    ):
        assert answer.headers["tms-stopped-at-transaction"] == pointer
        await leader.http.post(f"/v1/transactions/{pointer}/commit")
        assert b"a" in await answer.aread()
