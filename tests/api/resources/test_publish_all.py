"""Publishing to several topics at once."""

from typing import Any

import httpx
import pytest

from tests.api.rest import AVRO_TYPE, TOPICS, Rest, live, refusal
from tests.api.transactions import HOME
from tms.core.limits import Limits
from tms.core.services.messaging import AllPublished
from tms.wire.avro_bodies import AVRO
from tms.wire.bodies import PublishAllRequest

pytestmark = pytest.mark.anyio

PUBLISH = "/v1/namespaces/ns/publish"
ORDERS, AUDIT = f"{TOPICS}/orders", f"{TOPICS}/audit"


async def publish(own: Rest, **asked: Any) -> httpx.Response:
    return await own.http.post(PUBLISH, json=asked)


async def payloads(own: Rest, topic: str) -> list[bytes]:
    return [payload for _, payload in await own.messages(topic)]


@pytest.fixture
async def topics(own: Rest) -> Rest:
    await own.create(ORDERS)
    await own.create(AUDIT)
    return own


async def test_it_is_one_transaction_in_all_topics(topics: Rest) -> None:
    answer = await publish(topics, topics={"orders": ["1", {"base64": "/w=="}], "audit": ["a"]})

    told = answer.json()
    assert (answer.status_code, told["duplicate"]) == (200, False)
    assert int(told["transaction_id"]) > 0
    assert await payloads(topics, ORDERS) == [b"1", b"\xff"]
    assert await payloads(topics, AUDIT) == [b"a"]
    committed = await topics.post("poll", {}, topic=ORDERS, query="?isolation=committed")
    assert len(committed.json()) == 2


async def test_bytes_in_avro(topics: Rest) -> None:
    body = AVRO.encode_publish_all(PublishAllRequest({"orders": [b"\xff"]}))
    answer = await topics.http.post(PUBLISH, content=body, headers={"content-type": AVRO_TYPE})

    assert (answer.status_code, answer.headers["content-type"]) == (200, AVRO_TYPE)
    assert not AVRO.decode_published_all(answer.content).is_duplicate
    assert await payloads(topics, ORDERS) == [b"\xff"]


async def position(own: Rest) -> tuple[str | None, int]:
    told = (await own.http.get(f"{AUDIT}/subscriptions/s")).json()
    return told["after"], told["version"]


async def test_positions_move_with_it_or_nothing_is_done(topics: Rest) -> None:
    """Repeating the publish is fine too: the position has moved, but by this very publish."""
    await topics.http.put(f"{AUDIT}/subscriptions/s", json={})
    _, version = before = await position(topics)
    move = {"namespace": "ns", "topic": "audit", "subscription": "s", "after": "01" * 20}

    stale = {"advances": [{**move, "expected_version": version + 1}]}
    refused = await publish(topics, topics={"orders": ["1"]}, owner="shop", sequence=1, **stale)
    assert refusal(refused) == (409, "subscription_moved")
    assert (await payloads(topics, ORDERS), await position(topics)) == ([], before)

    right = {"advances": [{**move, "expected_version": version}]}
    for is_again in (False, True):
        done = await publish(topics, topics={"orders": ["1"]}, owner="shop", sequence=1, **right)
        assert (done.status_code, done.json()["duplicate"]) == (200, is_again)
        assert await payloads(topics, ORDERS) == [b"1"]
        assert await position(topics) == ("01" * 20, version + 1)


async def test_a_repetition_says_so_and_does_nothing(topics: Rest) -> None:
    first = await publish(topics, topics={"orders": ["1"]}, owner="shop", sequence=1)
    again = await publish(topics, topics={"orders": ["1"]}, owner="shop", sequence=1)
    in_avro = await topics.http.post(
        PUBLISH,
        content=AVRO.encode_publish_all(PublishAllRequest({"orders": [b"1"]}, "shop", 1)),
        headers={"content-type": AVRO_TYPE},
    )

    transaction_id = first.json()["transaction_id"]
    assert again.status_code == 200
    assert again.json() == {"transaction_id": transaction_id, "duplicate": True}
    told = AVRO.decode_published_all(in_avro.content)
    assert told == AllPublished(int(transaction_id), is_duplicate=True)
    assert await payloads(topics, ORDERS) == [b"1"]


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"topics": {}}, 400, "empty_publish"),
        ({"topics": {"orders": [], "audit": ["a"]}}, 400, "empty_publish"),
        ({"topics": {"audit": ["a"], "other": ["b"]}}, 404, "topic_not_found"),
        ({"topics": {"audit": ["a"], "a b": ["b"]}}, 400, "invalid_topic_name"),
        ({"topics": {"audit": ["a"]}, "sequence": 1}, 400, "invalid_owner"),
        ({"topics": {"audit": ["a"]}, "owner": ""}, 400, "invalid_owner"),
        ({"topics": {"audit": [5]}}, 400, "invalid_body"),
        ({"topics": ["audit"]}, 400, "invalid_body"),
        ({"messages": ["a"]}, 400, "invalid_body"),
    ],
)
async def test_a_refused_publish_does_nothing(
    topics: Rest, asked: dict[str, Any], status: int, code: str
) -> None:
    assert refusal(await publish(topics, **asked)) == (status, code)
    assert await payloads(topics, ORDERS) == await payloads(topics, AUDIT) == []


async def test_an_owner_with_an_open_transaction_is_busy(topics: Rest) -> None:
    await topics.http.post(f"/v1/transactions{HOME}", json={"owner": "shop", "sequence": 1})

    answer = await publish(topics, topics={"orders": ["1"]}, owner="shop", sequence=2)

    assert refusal(answer) == (409, "owner_busy")


async def test_the_namespace_is_checked(own: Rest) -> None:
    answer = await own.http.post("/v1/namespaces/a-b/publish", json={"topics": {"t": ["a"]}})

    assert refusal(answer) == (400, "invalid_namespace_name")


async def test_a_content_type_is_needed(topics: Rest) -> None:
    answer = await topics.http.post(PUBLISH, content=b'{"topics": {"orders": ["1"]}}')

    assert refusal(answer) == (415, "unsupported_content_type")


async def test_messages_of_all_topics_count_together() -> None:
    async with live(Limits(request_messages_max=3), own=True) as own:
        await own.create(ORDERS)
        await own.create(AUDIT)

        assert (await publish(own, topics={"orders": ["1", "2"], "audit": ["a"]})).is_success
        for body_topics in ({"orders": ["1", "2"], "audit": ["a", "b"]}, {"orders": ["1"] * 4}):
            answer = await publish(own, topics=body_topics)
            assert refusal(answer) == (413, "too_many_messages")


async def test_sizes_are_capped() -> None:
    limits = Limits(message_bytes_max=10, request_bytes_max=100)
    async with live(limits, own=True) as own:
        await own.create(ORDERS)

        answer = await publish(own, topics={"orders": ["x" * 11]})

        assert refusal(answer) == (413, "message_too_large")


async def test_topics_at_once_are_bounded_by_a_setting_that_is_named() -> None:
    async with live(Limits(topics_in_memory_max=1), own=True) as own:
        await own.create(ORDERS)
        await own.create(AUDIT)

        answer = await publish(own, topics={"orders": ["1"], "audit": ["a"]})

        assert refusal(answer) == (413, "too_many_topics_at_once")
        told = answer.json()["error"]
        assert "topics_in_memory_max" in told["message"]
        assert told["detail"] == {"count": 2, "topics_in_memory_max": 1}
        assert await payloads(own, ORDERS) == []
