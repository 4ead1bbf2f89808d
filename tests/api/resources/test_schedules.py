"""Scheduled messages over REST."""

import pytest

from tests.api.rest import AVRO_TYPE, JSON_TYPE, NOW_MS, TOPIC, Rest, avro_publish, refusal
from tests.api.transactions import ask, shown, started
from tests.waiting import until

pytestmark = pytest.mark.anyio

SCHEDULE = f"{TOPIC}/schedule"
SCHEDULED = f"{TOPIC}/scheduled"


@pytest.fixture(autouse=True)
async def _topic(own: Rest) -> None:
    assert (await own.http.put(TOPIC)).status_code == 200


async def published(own: Rest) -> list[object]:
    answer = await own.http.post(f"{TOPIC}/poll", json={})
    return [each["payload"] for each in answer.json()]


async def publishes(own: Rest, *payloads: str) -> None:
    async def is_so() -> bool:
        return await published(own) == list(payloads)

    await until(is_so)


async def test_messages_are_scheduled_listed_cancelled_and_published(own: Rest) -> None:
    keyed = {"payload": "b", "key": "k", "headers": {"trace": "7f"}}
    answer = await own.http.post(f"{SCHEDULE}?deliver_after=60", json={"messages": ["a", keyed]})
    assert answer.status_code == 200
    [first, second] = answer.json()["ids"]
    assert answer.json()["deliver_at"] == NOW_MS + 60_000
    later = await own.http.post(
        f"{SCHEDULE}?deliver_at={NOW_MS + 120_000}",
        content=avro_publish(b"c"),
        headers={"content-type": AVRO_TYPE},
    )
    assert later.headers["content-type"] == JSON_TYPE
    listed = (await own.http.get(SCHEDULED)).json()
    assert listed[1] == {
        "id": second,
        "deliver_at": NOW_MS + 60_000,
        "payload": "b",
        "key": "k",
        "headers": {"trace": "7f"},
    }
    assert [each["payload"] for each in listed] == ["a", "b", "c"]
    page = await own.http.get(f"{SCHEDULED}?limit=1&after={first}")
    assert [each["payload"] for each in page.json()] == ["b"]
    assert (await own.http.delete(f"{SCHEDULED}/{first}")).status_code == 200
    again = await own.http.delete(f"{SCHEDULED}/{first}")
    assert refusal(again) == (404, "scheduled_not_found")
    assert await published(own) == []
    own.clock.advance(60_000)
    await publishes(own, "b")
    own.clock.advance(60_000)
    await publishes(own, "b", "c")
    assert (await own.http.get(SCHEDULED)).json() == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "invalid_delivery_time"),
        ("?deliver_at=1&deliver_after=1", "invalid_delivery_time"),
        ("?deliver_after=1e9", "invalid_delivery_time"),
        ("?deliver_after=1e999", "invalid_delivery_time"),
        ("?deliver_after=-1", "invalid_query"),
        ("?deliver_after=nan", "invalid_query"),
        ("?deliver_after=soon", "invalid_query"),
        ("?deliver_at=soon", "invalid_query"),
        (f"?deliver_at={NOW_MS * 1000}", "invalid_delivery_time"),
    ],
)
async def test_a_wrong_time_schedules_nothing(own: Rest, query: str, code: str) -> None:
    answer = await own.http.post(f"{SCHEDULE}{query}", json={"messages": ["a"]})
    assert refusal(answer) == (400, code)
    assert (await own.http.get(SCHEDULED)).json() == []


async def test_wrong_messages_schedule_nothing(own: Rest) -> None:
    query = f"{SCHEDULE}?deliver_after=1"
    answer = await own.http.post(query, json={"messages": []})
    assert refusal(answer) == (400, "empty_publish")
    answer = await own.http.post(
        query, json={"messages": ["a"], "transactionWritePointer": "1700000000000000000"}
    )
    assert refusal(answer) == (400, "invalid_body")
    answer = await own.http.post(f"{TOPIC}x/schedule?deliver_after=1", json={"messages": ["a"]})
    assert refusal(answer) == (404, "topic_not_found")
    for each in ("x", "0" * 32, "f" * 32):
        answer = await own.http.delete(f"{SCHEDULED}/{each}")
        assert refusal(answer) == (404, "scheduled_not_found")


LATER = {"namespace": "ns", "topic": "t", "messages": ["a"], "deliver_after": 60}


async def test_a_commit_schedules_messages(own: Rest) -> None:
    transaction = await started(own)
    keyed = {"payload": "b", "key": "k"}
    body = {"schedule": [LATER, {**LATER, "messages": [keyed], "deliver_after": 0}]}
    answer = await ask(own, f"/{transaction}/commit", body)
    assert answer.status_code == 200
    await publishes(own, "b")
    own.clock.advance(60_000)
    await publishes(own, "b", "a")


async def test_a_publish_to_several_topics_schedules_messages(own: Rest) -> None:
    path = "/v1/namespaces/ns/publish"
    answer = await own.http.post(path, json={"topics": {"t": ["a"]}, "schedule": [LATER]})
    assert answer.status_code == 200
    assert await published(own) == ["a"]
    assert len((await own.http.get(SCHEDULED)).json()) == 1


@pytest.mark.parametrize(
    ("wrong", "refused"),
    [
        ({"messages": []}, (400, "empty_publish")),
        ({"messages": [{"value": 1}]}, (400, "invalid_body")),
        ({"deliver_after": None}, (400, "invalid_delivery_time")),
        ({"deliver_at": NOW_MS}, (400, "invalid_delivery_time")),
        ({"deliver_after": -1}, (400, "invalid_delivery_time")),
        ({"deliver_after": "soon"}, (400, "invalid_body")),
        ({"topic": "unknown"}, (404, "topic_not_found")),
        ({"namespace": "no namespace"}, (400, "invalid_namespace_name")),
    ],
)
async def test_a_commit_that_schedules_something_wrong_is_refused(
    own: Rest, wrong: dict[str, object], refused: tuple[int, str]
) -> None:
    transaction = await started(own)
    answer = await ask(own, f"/{transaction}/commit", {"schedule": [LATER, LATER | wrong]})
    assert refusal(answer) == refused
    assert (await own.http.get(SCHEDULED)).json() == []
    assert (await shown(own, transaction))["status"] == "in_progress"
