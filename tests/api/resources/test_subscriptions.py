"""Subscriptions, and commits that move them."""

from typing import Any

import httpx
import pytest

from tests.api.rest import JSON_TYPE, NOW_MS, TOPIC, TOPICS, Rest, live, refusal
from tests.api.transactions import started
from tms.core.limits import Limits
from tms.core.values.subscriptions import SubscriptionPosition
from tms.core.values.topic import TopicId
from tms.wire import json_subscriptions

pytestmark = pytest.mark.anyio

SUBSCRIPTION = f"{TOPIC}/subscriptions/billing"
BILLING = {"name": "billing", "kind": "single"}
ID = "0000018bcfe568000000" + "0" * 20
OTHER_ID = "0000018bcfe568000001" + "0" * 20
TOPIC_ID = TopicId("ns", "t")
VERSION = NOW_MS * 1000
"""The version of the first subscription."""
MOVED = (409, "subscription_moved")
NOT_FOUND = (404, "subscription_not_found")


async def advance(own: Rest, after: str, expected_version: int) -> httpx.Response:
    body = {"after": after, "expected_version": expected_version}
    return await own.http.post(f"{SUBSCRIPTION}/advance", json=body)


async def position(own: Rest) -> tuple[str | None, int]:
    answer = await own.http.get(SUBSCRIPTION)
    assert (answer.status_code, answer.headers["content-type"]) == (200, JSON_TYPE)
    told = answer.json()
    assert (set(told), told["name"]) == ({"name", "kind", "after", "version"}, "billing")
    return told["after"], told["version"]


def moving(**changed: Any) -> dict[str, Any]:
    return {
        "namespace": "ns",
        "topic": "t",
        "subscription": "billing",
        "after": ID,
        "expected_version": VERSION,
        **changed,
    }


async def test_a_subscription_is_created_before_the_oldest_message(own: Rest) -> None:
    await own.create()

    created = await own.http.put(SUBSCRIPTION)

    assert created.status_code == 200
    assert created.json() == {**BILLING, "after": None, "version": VERSION}
    assert await position(own) == (None, VERSION)
    assert refusal(await own.http.put(SUBSCRIPTION)) == (409, "subscription_exists")


async def test_a_subscription_is_created_at_a_position(own: Rest) -> None:
    await own.create()

    created = await own.http.put(SUBSCRIPTION, json={"after": ID.upper()})
    assert created.json() == {**BILLING, "after": ID, "version": VERSION}
    second = await own.http.put(f"{TOPIC}/subscriptions/a-1.B_2", json={"after": ID})
    found = json_subscriptions.decode_subscription(second.content, TOPIC_ID)
    assert found == SubscriptionPosition(TOPIC_ID, "a-1.B_2", bytes.fromhex(ID), VERSION + 1)

    listed = await own.http.get(f"{TOPIC}/subscriptions")
    names = [s.name for s in json_subscriptions.decode_subscriptions(listed.content, TOPIC_ID)]
    assert names == ["a-1.B_2", "billing"]


async def test_a_position_moves_from_the_version_that_is_known(own: Rest) -> None:
    await own.create()
    await own.http.put(SUBSCRIPTION)

    assert (await advance(own, ID, VERSION)).json() == {
        **BILLING,
        "after": ID,
        "version": VERSION + 1,
    }
    refused = await advance(own, OTHER_ID, VERSION)
    assert refusal(refused) == MOVED
    assert await position(own) == (ID, VERSION + 1)
    moved = await advance(own, OTHER_ID, VERSION + 1)
    assert moved.json() == {**BILLING, "after": OTHER_ID, "version": VERSION + 2}


async def test_a_subscription_is_deleted(own: Rest) -> None:
    await own.create()
    await own.http.put(SUBSCRIPTION)

    deleted = await own.http.delete(SUBSCRIPTION)

    assert (deleted.status_code, deleted.content) == (200, b"")
    assert refusal(await own.http.get(SUBSCRIPTION)) == NOT_FOUND
    assert refusal(await own.http.delete(SUBSCRIPTION)) == NOT_FOUND
    assert refusal(await advance(own, ID, VERSION)) == NOT_FOUND
    assert (await own.http.get(f"{TOPIC}/subscriptions")).json() == []


async def test_a_topic_that_is_not_there_has_none(own: Rest) -> None:
    not_found = (404, "topic_not_found")

    assert refusal(await own.http.put(SUBSCRIPTION)) == not_found
    assert refusal(await own.http.get(SUBSCRIPTION)) == not_found
    assert refusal(await own.http.delete(SUBSCRIPTION)) == not_found
    assert refusal(await own.http.get(f"{TOPIC}/subscriptions")) == not_found
    assert refusal(await advance(own, ID, VERSION)) == not_found


@pytest.mark.parametrize("name", ["a b", "a:b", "ä", "x" * 256])
async def test_a_wrong_name_is_refused(own: Rest, name: str) -> None:
    await own.create()
    path = f"{TOPIC}/subscriptions/{name}"
    wrong = (400, "invalid_subscription_name")

    assert refusal(await own.http.put(path)) == wrong
    assert refusal(await own.http.get(path)) == wrong
    assert refusal(await own.http.delete(path)) == wrong


@pytest.mark.parametrize(
    ("verb", "body", "code"),
    [
        ("", b"[]", "invalid_body"),
        ("", b'{"after": 5}', "invalid_body"),
        ("", b'{"after": "00"}', "invalid_message_id"),
        ("/advance", b"", "invalid_body"),
        ("/advance", b"{}", "invalid_body"),
        ("/advance", b'{"after": "x", "expected_version": 0}', "invalid_message_id"),
        ("/advance", b'{"after": null, "expected_version": 0}', "invalid_body"),
    ],
)
async def test_a_wrong_body_is_refused(own: Rest, verb: str, body: bytes, code: str) -> None:
    await own.create()
    await own.http.put(SUBSCRIPTION)
    path = f"{SUBSCRIPTION}{verb}" if verb else f"{TOPIC}/subscriptions/other"
    answer = await own.http.request(
        "POST" if verb else "PUT", path, content=body, headers={"content-type": JSON_TYPE}
    )

    assert refusal(answer) == (400, code)
    assert await position(own) == (None, VERSION)


async def test_too_many_subscriptions_are_refused() -> None:
    async with live(Limits(topic_subscriptions_max=1), own=True) as own:
        await own.create()
        await own.http.put(SUBSCRIPTION)

        answer = await own.http.put(f"{TOPIC}/subscriptions/other")

        assert refusal(answer) == (413, "too_many_subscriptions")


async def test_a_commit_moves_positions(own: Rest) -> None:
    await own.create()
    await own.http.put(SUBSCRIPTION)
    first, second = await started(own), await started(own)
    advances = [moving(after=OTHER_ID, expected_version=VERSION + 1)]

    committed = await own.http.post(
        f"/v1/transactions/{first}/commit", json={"advances": [moving()]}
    )
    assert committed.status_code == 200
    assert await position(own) == (ID, VERSION + 1)
    committed = await own.http.post(
        f"/v1/transactions/{second}/commit", json={"advances": advances}
    )
    assert committed.status_code == 200
    assert await position(own) == (OTHER_ID, VERSION + 2)


@pytest.mark.parametrize(
    ("advance", "refused"),
    [
        (moving(expected_version=VERSION + 1), MOVED),
        (moving(subscription="other"), NOT_FOUND),
        (moving(topic="other"), (404, "topic_not_found")),
        (moving(topic="a b"), (400, "invalid_topic_name")),
        (moving(namespace="a-b"), (400, "invalid_namespace_name")),
        (moving(subscription="a b"), (400, "invalid_subscription_name")),
        (moving(after="x"), (400, "invalid_message_id")),
        (moving(expected_version="0"), (400, "invalid_body")),
    ],
)
async def test_a_refused_move_leaves_the_transaction_in_progress(
    own: Rest, advance: dict[str, Any], refused: tuple[int, str]
) -> None:
    await own.create()
    await own.http.put(SUBSCRIPTION)
    transaction_id = await started(own)
    path = f"/v1/transactions/{transaction_id}"
    valid = moving() if advance["subscription"] != "billing" else None

    advances = [advance] if valid is None else [valid, advance]
    answer = await own.http.post(f"{path}/commit", json={"advances": advances})

    assert refusal(answer) == refused
    assert await position(own) == (None, VERSION)
    assert (await own.http.get(path)).json()["status"] == "in_progress"
    assert (await own.http.post(f"{path}/commit")).status_code == 200


async def test_a_subscription_is_the_topics_and_goes_with_it(own: Rest) -> None:
    await own.create()
    await own.http.put(SUBSCRIPTION)
    await own.http.delete(TOPIC)
    await own.create()

    assert (await own.http.get(f"{TOPICS}/t/subscriptions")).json() == []
