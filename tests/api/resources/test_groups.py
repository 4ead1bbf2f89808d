"""Groups over REST: members take and settle, and each wrong request gets its error."""

import asyncio
from typing import Any

import pytest

from tests.api.groups import GROUP, SHARED, group, publish, settle, take
from tests.api.rest import NOW_MS, TOPIC, Rest, refusal
from tests.api.transactions import started
from tms.core.errors import NoLeader
from tms.core.values.groups import Take
from tms.core.values.topic import TopicId
from tms.messaging.groups.takes import Takes
from tms.wire.avro_taken import decode_taken
from tms.wire.media_types import AVRO_FRAMES_TYPE

pytestmark = pytest.mark.anyio


async def test_a_group_is_created_shown_listed_and_deleted(own: Rest) -> None:
    created = await group(own, order="key", lease_s=5)
    assert created["settings"]["order"] == "key"
    assert created["version"] == NOW_MS * 1000
    assert (await own.http.get(GROUP)).json() == created
    assert (await own.http.put(GROUP, json={**SHARED, "order": "key", "lease_s": 5})).json() == (
        created
    )
    assert refusal(await own.http.put(GROUP, json=SHARED)) == (409, "subscription_exists")
    [listed] = (await own.http.get(f"{TOPIC}/subscriptions")).json()
    assert (listed["name"], listed["kind"]) == ("workers", "shared")
    assert (await own.http.delete(GROUP)).status_code == 200
    assert refusal(await own.http.get(GROUP)) == (404, "subscription_not_found")


async def test_messages_are_taken_and_settled_in_both_formats(own: Rest) -> None:
    await group(own)
    await publish(own, "1", "2", "3")
    first = (await take(own, messages=2, sequence=1)).json()
    assert [each["payload"] for each in first["messages"]] == ["1", "2"]
    assert (first["attempts"], first["limited_by"], first["lease_s"]) == ([], None, 30.0)
    answer = await own.http.post(
        f"{GROUP}/take", json={"member": "b"}, headers={"Accept": AVRO_FRAMES_TYPE}
    )
    assert answer.headers["content-type"] == AVRO_FRAMES_TYPE
    second = decode_taken(answer.content)
    assert [message.payload for block in second.blocks for message in block] == [b"3"]
    ids = [each["id"] for each in first["messages"]]
    done = (await settle(own, acks=[{"delivery": first["delivery"], "ids": ids}])).json()
    assert done == {"settled": 2, "refused": []}
    again = (await settle(own, acks=[{"delivery": first["delivery"], "ids": ids[:1]}])).json()
    assert again["refused"] == [{"delivery": first["delivery"], "id": ids[0], "reason": "settled"}]
    [member, other] = (await own.http.get(f"{GROUP}/members")).json()
    assert (member["name"], member["holds"], other["name"], other["holds"]) == ("a", 0, "b", 1)
    [opened] = (await own.http.get(f"{GROUP}/open")).json()
    assert (opened["state"], opened["member"]) == ("leased", "b")
    await own.http.post(f"{GROUP}/seek", json={"after": "start"})
    assert (await own.http.get(f"{GROUP}/open")).json() == []
    assert len((await take(own, messages=5)).json()["messages"]) == 3


async def test_a_take_waits_and_its_ack_goes_with_the_next_one(own: Rest) -> None:
    await group(own)
    waiting = asyncio.create_task(take(own, wait=60))
    await own.until(lambda: own.takers() == 1)
    await publish(own, "1")
    first = (await waiting).json()
    await publish(own, "2")
    second = await take(own, wait=60, settle={"acks": [{"delivery": first["delivery"]}]})
    assert (second.json()["settled"], len(second.json()["messages"])) == (1, 1)


async def test_a_take_whose_wait_fails_reports_what_it_settled(
    own: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await group(own)
    await publish(own, "1")
    first = (await take(own)).json()
    acks = {"acks": [{"delivery": first["delivery"]}]}
    waiting = [
        asyncio.create_task(take(own, member, wait=60, **more))
        for member, more in (("a", {"settle": acks}), ("b", {}))
    ]
    await own.until(lambda: own.takers() == 2)

    async def serve(*_: object) -> None:
        raise NoLeader

    monkeypatch.setattr(Takes, "serve", serve)
    await publish(own, "2")
    done, failed = [await each for each in waiting]
    assert (done.json()["settled"], done.json()["delivery"]) == (1, None)
    assert refusal(failed) == (503, "no_leader")


async def test_what_was_leased_to_a_client_that_left_is_given_to_others(own: Rest) -> None:
    await group(own)
    taking = asyncio.create_task(own.http.post(f"{GROUP}/take?wait=60", json={"member": "a"}))
    await own.until(lambda: own.takers() == 1)
    taking.cancel()
    await own.until(lambda: own.takers() == 0)
    await publish(own, "1")
    taken = (await take(own, "b")).json()
    assert [each["payload"] for each in taken["messages"]] == ["1"]


async def test_a_commit_carries_acks_all_or_none(own: Rest) -> None:
    await group(own)
    await publish(own, "1")
    taken = (await take(own)).json()
    acks = {
        "namespace": "ns",
        "topic": "t",
        "subscription": "workers",
        "member": "a",
        "delivery": taken["delivery"],
        "ids": [taken["messages"][0]["id"]],
    }
    transaction = await started(own)
    path = f"/v1/transactions/{transaction}/commit"
    wrong = await own.http.post(path, json={"acks": [acks, {**acks, "ids": ["00" * 20]}]})
    assert refusal(wrong) == (409, "ack_refused")
    assert len(wrong.json()["error"]["detail"]["refused"]) == 1
    assert (await own.http.post(path, json={"acks": [acks]})).status_code == 200
    body = {"topics": {"t": ["2"]}, "acks": [acks]}
    assert refusal(await own.http.post("/v1/namespaces/ns/publish", json=body)) == (
        409,
        "ack_refused",
    )
    assert (await own.http.get(GROUP)).json()["state"]["open"] == 0


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("take", {"member": ""}, 400, "invalid_member"),
        ("take", {"member": "a b"}, 400, "invalid_member"),
        ("take", {}, 400, "invalid_body"),
        ("take", {"member": "a", "messages": 0}, 400, "invalid_body"),
        ("take", {"member": "a", "messages": 1_001}, 400, "invalid_body"),
        ("take", {"member": "a", "lease_s": 100_000}, 400, "invalid_body"),
        ("take?wait=x", {"member": "a"}, 400, "invalid_wait"),
        (
            "settle",
            {"member": "a", "acks": [{"delivery": 1, "ids": ["x"]}]},
            400,
            "invalid_message_id",
        ),
        ("settle", {"member": "a", "nacks": [{"delivery": 1, "delay_s": -1}]}, 400, "invalid_body"),
        ("settle", {"acks": []}, 400, "invalid_body"),
        ("seek", {}, 400, "invalid_body"),
        ("seek", {"after": "start", "time_ms": 5}, 400, "invalid_body"),
        ("seek", {"after": "middle"}, 400, "invalid_message_id"),
    ],
)
async def test_wrong_requests_change_nothing(
    own: Rest, path: str, body: dict[str, Any], status: int, code: str
) -> None:
    before = await group(own)
    assert refusal(await own.http.post(f"{GROUP}/{path}", json=body)) == (status, code)
    assert (await own.http.get(GROUP)).json() == before


async def test_kinds_are_distinguished(own: Rest) -> None:
    await group(own)
    single = f"{TOPIC}/subscriptions/single"
    await own.http.put(single)
    move = {"after": "00" * 20, "expected_version": 1}
    assert refusal(await own.http.post(f"{GROUP}/advance", json=move)) == (
        409,
        "subscription_is_shared",
    )
    taken = await own.http.post(f"{single}/take", json={"member": "a"})
    assert refusal(taken) == (409, "subscription_is_single")
    wrong = await own.http.put(single, json={"kind": "single", "order": "key"})
    assert refusal(wrong) == (400, "invalid_body")


async def test_settings_change(own: Rest) -> None:
    before = await group(own)
    body = {"paused": True, "expected_version": before["version"]}
    changed = await own.http.put(f"{GROUP}/settings", json=body)
    assert changed.json()["settings"]["paused"] is True
    assert refusal(await own.http.put(f"{GROUP}/settings", json=body)) == (
        409,
        "subscription_moved",
    )
    await publish(own, "1")
    assert (await take(own)).json()["limited_by"] == "paused"
    assert await own.services.groups.take(TopicId("ns", "t"), "workers", Take("a"))


async def test_an_operator_skips_messages_and_takes_them_back(own: Rest) -> None:
    await group(own)
    await publish(own, "1", "2", "3")
    taken = (await take(own, messages=3)).json()
    first, second, _ = (each["id"] for each in taken["messages"])
    assert (await own.http.post(f"{GROUP}/skip", json={"ids": [first]})).json() == {"skipped": 1}
    answer = await own.http.post(f"{GROUP}/release", json={"ids": [second], "failed": True})
    assert answer.json() == {"released": 1}
    assert (await own.http.post(f"{GROUP}/release", json={"member": "a"})).json() == {"released": 1}
    found = (await own.http.get(f"{GROUP}/open")).json()
    assert [(each["attempts"], each["state"]) for each in found] == [
        (1, "waiting"),
        (0, "available"),
    ]
    for path in ("skip", "release"):
        answer = await own.http.post(f"{GROUP}/{path}", json={})
        assert refusal(answer) == (400, "invalid_body")
