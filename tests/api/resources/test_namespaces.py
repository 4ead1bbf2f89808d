"""Namespaces over REST: their settings, and the refusals of callers that exceed them."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.api.rest import NOW_MS, TOPIC, TOPICS, Rest, live, refusal
from tms.core.limits import TTL_S_DEFAULT, TTL_S_MAX

pytestmark = pytest.mark.anyio

NAMESPACES = "/v1/namespaces"
NS = f"{NAMESPACES}/ns"
SERVERS_RULES = {
    "ttl_s_default": TTL_S_DEFAULT,
    "ttl_s_max": TTL_S_MAX,
    "message_bytes_max": 10 * 1024 * 1024,
    "request_bytes_max": 16 * 1024 * 1024,
    "publish_messages_per_s": None,
    "publish_bytes_per_s": None,
}


@pytest.fixture(params=[True, False])
async def rest(anyio_backend: object, request: pytest.FixtureRequest) -> AsyncIterator[Rest]:
    """An application with transactions of its own, and one without."""
    async with live(own=request.param) as opened_rest:
        yield opened_rest


async def declare(rest: Rest, **settings: int) -> dict[str, Any]:
    answer = await rest.http.put(NS, json=settings)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def publish(
    rest: Rest, *messages: str, verb: str = "publish", pointer: int | None = None
) -> httpx.Response:
    body: dict[str, Any] = {"messages": list(messages)}
    if pointer is not None:
        body["transactionWritePointer"] = str(pointer)
    return await rest.post(verb, body)


async def test_one_that_was_never_declared_has_the_servers_limits(rest: Rest) -> None:
    answer = await rest.http.get(NS)

    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"name": "ns", "version": None, "settings": {}, "rules": SERVERS_RULES}
    assert (await rest.http.get(NAMESPACES)).json() == []


async def test_settings_are_given_replaced_listed_and_deleted(rest: Rest) -> None:
    told = await declare(rest, ttl_s_max=100, message_bytes_max=5)
    assert told == {
        "name": "ns",
        "version": 0,
        "settings": {"ttl_s_max": 100, "message_bytes_max": 5},
        "rules": {**SERVERS_RULES, "ttl_s_default": 100, "ttl_s_max": 100, "message_bytes_max": 5},
    }
    assert (await rest.http.get(NS)).json() == told

    replaced = await declare(rest, publish_messages_per_s=7)
    assert (replaced["version"], replaced["settings"]) == (1, {"publish_messages_per_s": 7})
    assert (await rest.http.put(f"{NAMESPACES}/bank")).json()["settings"] == {}
    listed = (await rest.http.get(NAMESPACES)).json()
    assert [each["name"] for each in listed] == ["bank", "ns"]

    deleted = await rest.http.delete(NS)
    assert (deleted.status_code, deleted.content) == (200, b"")
    assert refusal(await rest.http.delete(NS)) == (404, "namespace_not_declared")
    assert (await rest.http.get(NS)).json()["version"] is None


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"null",
        b"[]",
        b"\xff",
        b'{"ttl_s_max": 0}',
        b'{"ttl_s_max": 2147483648}',
        b'{"ttl_s_max": "5"}',
        b'{"ttl_s_max": 1.5}',
        b'{"ttl_s_max": true}',
        b'{"message_bytes_max": 9223372036854775808}',
        b'{"message_bytes_max": 6, "request_bytes_max": 5}',
        b'{"unknown": 5}',
        b'{"ttl_s_max": 5, "ttl_s_max": 6}',
        b"[" * 100_000,
    ],
)
async def test_settings_that_are_none_are_refused(rest: Rest, body: bytes) -> None:
    answer = await rest.http.put(NS, content=body)

    assert refusal(answer) == (400, "invalid_namespace_settings")
    assert (await rest.http.get(NAMESPACES)).json() == []


async def test_a_name_is_checked(rest: Rest) -> None:
    for method in ("GET", "PUT", "DELETE"):
        answer = await rest.http.request(method, f"{NAMESPACES}/a-b")
        assert refusal(answer) == (400, "invalid_namespace_name")


async def test_topics_have_the_namespaces_ttl_and_none_longer(rest: Rest) -> None:
    await declare(rest, ttl_s_default=60, ttl_s_max=100)
    await rest.create()

    assert (await rest.http.get(TOPIC)).json()["properties"]["ttl"] == "60"
    answer = await rest.http.put(f"{TOPICS}/long", json={"ttl": 101})
    assert refusal(answer) == (400, "ttl_over_namespace_limit")
    detail = answer.json()["error"]["detail"]
    assert detail == {"namespace": "ns", "ttl": 101, "ttl_s_max": 100}
    answer = await rest.http.put(f"{TOPIC}/properties", json={"ttl": 101})
    assert refusal(answer) == (400, "ttl_over_namespace_limit")
    await rest.create("/v1/namespaces/other/topics/long", ttl=101)


async def test_topics_keep_their_ttl_when_the_namespaces_changes_or_goes(rest: Rest) -> None:
    await rest.create(ttl=500)
    await declare(rest, ttl_s_max=100)
    assert (await rest.http.get(TOPIC)).json()["properties"]["ttl"] == "500"

    await rest.http.delete(NS)

    assert (await rest.http.get(TOPIC)).json()["properties"]["ttl"] == "500"
    await rest.create(f"{TOPICS}/another", ttl=500)


async def test_a_message_or_request_over_the_namespaces_size_is_413(rest: Rest) -> None:
    await rest.create()
    await declare(rest, message_bytes_max=5, request_bytes_max=8)

    assert (await publish(rest, "12345", "678")).status_code == 200
    message = await publish(rest, "123456")
    assert refusal(message) == (413, "message_over_namespace_limit")
    assert message.json()["error"]["detail"] == {
        "namespace": "ns",
        "bytes": 6,
        "message_bytes_max": 5,
    }
    request = await publish(rest, "12345", "6789")
    assert refusal(request) == (413, "request_over_namespace_limit")
    assert "`tms namespace set`" in request.json()["error"]["message"]
    assert await rest.payloads() == [b"12345", b"678"]


async def test_over_the_rate_it_is_429_with_when_to_come_again(rest: Rest) -> None:
    await rest.create()
    await declare(rest, publish_messages_per_s=2)
    assert (await publish(rest, *"123456")).status_code == 200

    refused = await publish(rest, "7")

    assert refusal(refused) == (429, "publish_rate_exceeded")
    assert refused.headers["retry-after"] == "3"
    assert refused.headers["ratelimit"] == '"tms";r=0;t=3'
    assert refused.json()["error"]["detail"] == {
        "namespace": "ns",
        "retry_after_s": 3,
        "publish_messages_per_s": 2,
    }
    rest.clock.advance(2500)
    assert (await publish(rest, "7")).status_code == 200
    assert await rest.payloads() == [b"%d" % number for number in range(1, 8)]


async def test_a_change_holds_for_the_next_publish(rest: Rest) -> None:
    await rest.create()
    await declare(rest, publish_bytes_per_s=1)
    await publish(rest, "x" * 10)
    assert (await publish(rest, "x")).status_code == 429

    await declare(rest, publish_bytes_per_s=1000)
    assert (await publish(rest, "x")).status_code == 200
    await declare(rest, message_bytes_max=1)
    assert (await publish(rest, "xx")).status_code == 413
    await rest.http.delete(NS)
    assert (await publish(rest, "xx")).status_code == 200


async def test_storing_counts_and_publishing_what_was_stored_does_not(rest: Rest) -> None:
    started = await rest.http.post("/v1/transactions")
    is_own = started.status_code == 200
    pointer = int(started.json()["transaction_id"]) if is_own else NOW_MS * 1_000_000
    await rest.create()
    await declare(rest, publish_messages_per_s=1, message_bytes_max=5)

    too_large = await publish(rest, "123456", verb="store", pointer=pointer)
    assert refusal(too_large) == (413, "message_over_namespace_limit")
    assert (await publish(rest, "1", "2", verb="store", pointer=pointer)).status_code == 200
    assert (await publish(rest, "3", verb="store", pointer=pointer)).status_code == 429
    rest.clock.advance(1000)
    assert (await publish(rest, pointer=pointer)).status_code == 200


async def test_publishing_to_several_topics_is_one_publish() -> None:
    async with live(own=True) as rest:
        for name in "ab":
            await rest.create(f"{TOPICS}/{name}")
        await declare(rest, request_bytes_max=3, publish_messages_per_s=1)
        path = f"{NS}/publish"

        answer = await rest.http.post(path, json={"topics": {"a": ["12"], "b": ["34"]}})
        assert refusal(answer) == (413, "request_over_namespace_limit")
        answer = await rest.http.post(path, json={"topics": {"a": ["1"], "b": ["2"]}})
        assert answer.status_code == 200
        answer = await rest.http.post(path, json={"topics": {"a": ["1"], "b": ["2"]}})
        assert refusal(answer) == (429, "publish_rate_exceeded")
