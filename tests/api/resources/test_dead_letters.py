"""Dead letters over REST: choose their topic, list, redrive and drop them."""

import pytest

from tests.api.groups import GROUP, group, publish, settle, take
from tests.api.rest import TOPIC, Rest, refusal
from tests.waiting import until

pytestmark = pytest.mark.anyio

DEAD = f"{GROUP}/dead"


async def reject(own: Rest, count: int = 1) -> None:
    taken = (await take(own, messages=count)).json()
    nacks = [{"delivery": taken["delivery"], "dead": True, "reason": "torn"}]
    assert (await settle(own, nacks=nacks)).json()["refused"] == []


async def listed(own: Rest, count: int) -> list[dict[str, object]]:
    async def are_there() -> bool:
        return len((await own.http.get(DEAD)).json()["dead_letters"]) == count

    await until(are_there)
    found: list[dict[str, object]] = (await own.http.get(DEAD)).json()["dead_letters"]
    return found


async def test_dead_letters_are_listed_redriven_and_dropped(own: Rest) -> None:
    created = await group(own, attempts_max=3)
    assert created["settings"]["dead_letter"] == f"{TOPIC.rsplit('/', 1)[1]}--dead"
    await publish(own, "1", "2", "3")
    await reject(own, 3)
    first, second, third = await listed(own, 3)
    assert (first["payload"], first["disposition"], first["reason"]) == ("1", "rejected", "torn")
    assert (first["attempts"], first["member"], first["key"]) == (1, "a", None)
    answer = await own.http.post(f"{DEAD}/redrive", json={"ids": [second["id"]]})
    outcome = {"redriven": 1, "expired": [], "next": None, "limited_by": None}
    assert answer.json() == outcome
    assert [each["payload"] for each in (await take(own)).json()["messages"]] == ["2"]
    answer = await own.http.post(f"{DEAD}/drop", json={"ids": [third["id"], third["id"]]})
    assert answer.json() == {"dropped": 1}
    answer = await own.http.post(f"{DEAD}/redrive", json={"publish": True})
    assert answer.json()["redriven"] == 1
    assert await listed(own, 0) == []


async def test_the_namespace_bounds_how_long_dead_letters_live(own: Rest) -> None:
    week_s = 7 * 24 * 3600
    for name, most_s, dead_s in (("free", None, 10 * week_s), ("bound", 2 * week_s, week_s)):
        topic = f"/v1/namespaces/ns/topics/{name}"
        await own.http.put(topic, json={"ttl": 10 * week_s})
        if most_s is not None:
            answer = await own.http.put("/v1/namespaces/ns", json={"ttl_s_max": most_s})
            assert answer.status_code == 200, answer.text
        body = {"kind": "shared", "attempts_max": 1}
        created = await own.http.put(f"{topic}/subscriptions/g", json=body)
        assert created.status_code == 200, created.text
        dead = (await own.http.get(f"{topic}--dead")).json()
        assert int(dead["properties"]["ttl"]) == dead_s


async def test_pages_of_dead_letters_continue_behind_the_last_one(own: Rest) -> None:
    await group(own, attempts_max=1)
    await publish(own, "1", "2", "3")
    await reject(own, 3)
    await listed(own, 3)
    first = (await own.http.get(f"{DEAD}?limit=2")).json()
    assert [each["payload"] for each in first["dead_letters"]] == ["1", "2"]
    rest = (await own.http.get(f"{DEAD}?limit=2&after={first['next']}")).json()
    assert [each["payload"] for each in rest["dead_letters"]] == ["3"]
    assert rest["next"] is None
    asked = {"limit": 1, "after": first["dead_letters"][0]["id"]}
    outcome = (await own.http.post(f"{DEAD}/redrive", json=asked)).json()
    assert (outcome["redriven"], outcome["next"]) == (1, first["next"])
    assert [each["payload"] for each in await listed(own, 2)] == ["1", "3"]


async def test_wrong_requests_change_nothing(own: Rest) -> None:
    await group(own)
    bad = (400, "invalid_group")
    assert (await own.http.get(DEAD)).json() == {"dead_letters": [], "next": None}
    assert refusal(await own.http.post(f"{DEAD}/redrive", json={})) == bad
    assert refusal(await own.http.post(f"{DEAD}/drop", json={"ids": []})) == (400, "invalid_body")
    for limit in (0, 1_001):
        answer = await own.http.post(f"{DEAD}/redrive", json={"limit": limit})
        assert refusal(answer) == (400, "invalid_body")
    name = TOPIC.rsplit("/", 1)[1]
    for wrong in (name, "", "no such name!"):
        answer = await own.http.put(f"{GROUP}/settings", json={"dead_letter": wrong})
        assert answer.status_code == 400, answer.text
    answer = await own.http.put(f"{GROUP}/settings", json={"dead_letter": "nowhere"})
    assert refusal(answer) == (404, "topic_not_found")
    assert (await own.http.get(GROUP)).json()["settings"]["dead_letter"] == ""
