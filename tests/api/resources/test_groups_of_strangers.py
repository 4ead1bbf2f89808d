"""Groups with clients that disconnect, never read, share a name or fail at everything."""

import asyncio
import json
from typing import Any

import pytest

from tests.api.rest import TOPIC, Live, Rest, refusal
from tests.waiting import until

pytestmark = pytest.mark.anyio

GROUP = f"{TOPIC}/subscriptions/workers"
JSON = {"content-type": "application/json"}
MIB = 1024 * 1024


@pytest.fixture
async def group(own: Live) -> Live:
    """A server with a group of a topic that has four messages."""
    await own.create()
    assert (await own.http.put(GROUP, json={"kind": "shared"})).status_code == 200
    await publish(own, "1", "2", "3", "4")
    return own


async def publish(own: Rest, *payloads: str) -> None:
    body = {"messages": list(payloads)}
    assert (await own.http.post(f"{TOPIC}/publish", json=body)).status_code == 200


async def take(own: Rest, member: str, wait: float = 0, **more: Any) -> dict[str, Any]:
    body = {"member": member, **more}
    answer = await own.http.post(f"{GROUP}/take?wait={wait}", json=body)
    assert answer.status_code == 200, answer.text
    taken: dict[str, Any] = answer.json()
    return taken


async def settle(own: Rest, member: str, **parts: Any) -> dict[str, Any]:
    answer = await own.http.post(f"{GROUP}/settle", json={"member": member, **parts})
    assert answer.status_code == 200, answer.text
    settled: dict[str, Any] = answer.json()
    return settled


async def state(own: Rest) -> dict[str, Any]:
    told: dict[str, Any] = (await own.http.get(GROUP)).json()["state"]
    return told


def payloads(taken: dict[str, Any]) -> list[str]:
    return [message["payload"] for message in taken["messages"]]


@pytest.mark.parametrize(
    "fields", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
async def test_a_page_of_another_site_takes_and_settles_nothing(
    group: Live, fields: dict[str, str]
) -> None:
    taken = await take(group, "a")
    before = await state(group)
    settling = {"member": "a", "acks": [{"delivery": taken["delivery"]}]}
    asked: list[tuple[str, Any]] = [("take", {"member": "a"}), ("settle", settling)]
    for path, body in [*asked, ("seek", {"after": "start"})]:
        answer = await group.http.post(f"{GROUP}/{path}", json=body, headers=fields)
        assert refusal(answer) == (403, "cross_site")
    assert await state(group) == before


async def test_half_a_request_leases_and_settles_nothing(group: Live) -> None:
    taken = await take(group, "a")
    before = await state(group)
    for path, body in (
        ("take", {"member": "b", "settle": {"acks": [{"delivery": taken["delivery"]}]}}),
        ("settle", {"member": "a", "acks": [{"delivery": taken["delivery"]}]}),
    ):
        whole = json.dumps(body).encode()
        for end in (0, len(whole) // 2, len(whole) - 1):
            wire = await group.connect()
            sent = {**JSON, "content-length": str(len(whole))}
            await wire.send("POST", f"{GROUP}/{path}", whole[:end], sent)
            wire.writer.write_eof()
            assert b"200 OK" not in await wire.rest()
            await wire.close()
    assert await state(group) == before
    assert [each["name"] for each in (await group.http.get(f"{GROUP}/members")).json()] == ["a"]


async def test_what_a_client_never_reads_is_given_to_others_when_its_lease_ends(
    group: Live,
) -> None:
    large = [f"{number}" * MIB for number in range(4)]
    await settle(group, "a", acks=[{"delivery": (await take(group, "a", messages=4))["delivery"]}])
    await publish(group, *large)
    wire = await group.connect()
    body = json.dumps({"member": "a", "messages": 4, "bytes": 8 * MIB}).encode()
    await wire.send("POST", f"{GROUP}/take", body, JSON)
    try:

        async def are_leased() -> bool:
            return bool((await state(group))["leased"] == 4)

        await until(are_leased)
        await others_get(group, large)
    finally:
        await wire.close()


async def others_get(group: Live, large: list[str]) -> None:
    for passed_ms, limited_by in ((0, None), (30_000, "retry")):
        group.clock.advance(passed_ms)
        nothing = await take(group, "b", messages=4)
        assert (nothing["delivery"], nothing["limited_by"]) == (None, limited_by)
    group.clock.advance(1_000)
    taken = await take(group, "b", messages=4, bytes=8 * MIB)
    assert (payloads(taken), taken["attempts"]) == (large, [2] * 4)
    await settle(group, "b", acks=[{"delivery": taken["delivery"]}])
    assert (await state(group))["open"] == 0


async def test_two_with_one_name_never_have_a_message_both(group: Live) -> None:
    waiting = [asyncio.create_task(take(group, "a", 5, messages=2)) for _ in range(4)]
    first = [await each for each in waiting[:2]]
    await publish(group, "5", "6")
    taken = [*first, *[await each for each in waiting[2:]]]
    given = [payload for each in taken for payload in payloads(each)]
    assert sorted(given) == ["1", "2", "3", "4", "5", "6"]
    assert len({each["delivery"] for each in taken}) == 4
    for each in taken:
        done = await settle(group, "a", acks=[{"delivery": each["delivery"]}])
        assert done == {"settled": len(each["messages"]), "refused": []}


async def test_two_with_one_name_and_sequence_are_one_that_repeats_itself(group: Live) -> None:
    first, again = [await take(group, "a", messages=2, sequence=7) for _ in range(2)]
    assert (again["delivery"], payloads(again)) == (first["delivery"], payloads(first))
    acks = [{"delivery": first["delivery"]}]
    assert (await settle(group, "a", acks=acks))["settled"] == 2
    assert (await settle(group, "a", acks=acks))["settled"] == 0
    assert payloads(await take(group, "a", messages=2, sequence=8)) == ["3", "4"]


async def test_one_who_begins_again_takes_back_what_its_name_had(group: Live) -> None:
    old = await take(group, "a", messages=3)
    new = await take(group, "a", messages=3, anew=True)
    assert (payloads(new), new["attempts"]) == (payloads(old), [])
    refused = (await settle(group, "a", acks=[{"delivery": old["delivery"]}]))["refused"]
    assert {each["reason"] for each in refused} == {"lease_lost"}


@pytest.mark.parametrize("order", ["none", "key"])
async def test_a_worker_that_nacks_everything_loses_nothing_and_waits_longer_each_time(
    own: Live, order: str
) -> None:
    await own.create()
    settings = {"order": order, "retry_s": 1, "retry_s_max": 10}
    await own.http.put(GROUP, json={"kind": "shared", **settings})
    await publish(own, "1", "2", "3")
    for attempt, wait_s in enumerate((1, 2, 4, 8, 10, 10), 1):
        taken = await take(own, "bad", messages=3)
        assert payloads(taken) == ["1", "2", "3"]
        assert taken["attempts"] == ([] if attempt == 1 else [attempt] * 3)
        nacks = [{"delivery": taken["delivery"], "reason": "no"}]
        await settle(own, "bad", nacks=nacks)
        for early_ms in (0, wait_s * 1000 - 1):
            own.clock.advance(early_ms)
            early = await take(own, "bad", messages=3)
            assert (early["delivery"], early["limited_by"]) == (None, "retry")
        own.clock.advance(1)
    taken = await take(own, "good", messages=3)
    assert taken["attempts"] == [7] * 3
    await settle(own, "good", acks=[{"delivery": taken["delivery"]}])
    assert await state(own) == {**await state(own), "open": 0, "unread": 0}


JUNK: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 10**6, 2**63, "", "x", "\u00e9" * 200, [], [0], [None], {}, {"x": 1}),
)
BODIES: dict[str, dict[str, Any]] = {
    "take": {"member": "b", "messages": 1, "bytes": 5, "lease_s": 5, "sequence": 5, "settle": {}},
    "settle": {"member": "b", "acks": [], "nacks": [], "release": [], "extend": [1], "lease_s": 5},
    "seek": {"after": "start"},
    "settings": {"lease_s": 5, "retry_s": 5, "open_max": 5, "paused": False, "expected_version": 1},
    "": {"kind": "shared", "order": "key", "after": "end", "member_max": 5, "paused": False},
}
CODES = {
    400: ("invalid_body", "invalid_group", "invalid_member", "invalid_message_id"),
    409: ("subscription_moved", "subscription_exists"),
}
UNSEEN = {"oldest_s": None, "members": None}


@pytest.mark.parametrize("path", BODIES)
async def test_a_wrong_field_is_refused_named_and_changes_nothing(group: Live, path: str) -> None:
    await take(group, "a", messages=2)
    method, at = ("PUT" if path in ("", "settings") else "POST"), f"{GROUP}/{path}".rstrip("/")

    async def everything() -> Any:
        shown = (await group.http.get(GROUP)).json()
        opened = (await group.http.get(f"{GROUP}/open")).json()
        return {**shown, "state": {**shown["state"], **UNSEEN}}, opened

    refused = 0
    for name in [*BODIES[path], "another"]:
        for junk in JUNK:
            before = await everything()
            body = {**BODIES[path], name: junk}
            answer = await group.http.request(method, at, json=body)
            if answer.status_code == 200:  # some junk is valid in its field
                assert name != "another"
                continue
            refused += 1
            status, code = refusal(answer)
            assert code in CODES[status], (body, code)
            assert await everything() == before, body
            detail = answer.json()["error"]["detail"]
            expects = "expected" in detail or "id" in detail or status == 409
            assert expects or name in str(detail), (body, detail)
    assert refused > 5 * len(BODIES[path])
