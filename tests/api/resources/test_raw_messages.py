"""Bodies that are a single message without a format around it."""

import base64
import json
from typing import Any

import pytest

from tests.api.rest import TOPIC, Rest, refusal
from tests.work import counted
from tms.core.errors import InvalidRequest, TooLarge
from tms.wire.bodies import MESSAGES_A_STEP
from tms.wire.raw_bodies import RawRequest, bodies_in

pytestmark = pytest.mark.anyio

RAW = f"{TOPIC}/messages"
EVENT = {"specversion": "1.0", "id": "17", "source": "/shop", "type": "order", "data": {"n": 17}}


@pytest.fixture(autouse=True)
async def _topic(own: Rest) -> None:
    assert (await own.http.put(TOPIC)).status_code == 200


async def publish(own: Rest, body: bytes, content_type: str, query: str = "", **fields: str) -> int:
    """Publish; return the number of messages."""
    answer = await own.http.post(
        RAW + query, content=body, headers={"content-type": content_type, **fields}
    )
    assert answer.status_code == 200, answer.text
    ids = answer.json()["ids"]
    polled = [each["id"] for each in await messages(own)]
    assert polled[-len(ids) :] == ids
    return len(ids)


async def messages(own: Rest) -> list[dict[str, Any]]:
    answer = await own.http.post(f"{TOPIC}/poll", json={})
    found: list[dict[str, Any]] = answer.json()
    return found


async def test_any_body_is_a_payload_with_its_type(own: Rest) -> None:
    for body, content_type in (
        (b"\xff\x00", "application/octet-stream"),
        (b"hello", "text/plain; charset=utf-8"),
        (b'{"a": 1}', "application/json"),
        (b"a=1", "application/x-www-form-urlencoded"),
        (b"<a/>", "application/xml"),
        (b"", "text/plain"),
    ):
        assert await publish(own, body, content_type) == 1
    found = await messages(own)
    assert found[0]["payload"] == {"base64": base64.b64encode(b"\xff\x00").decode()}
    assert "headers" not in found[0]
    assert [each["payload"] for each in found[1:]] == ["hello", '{"a": 1}', "a=1", "<a/>", ""]
    assert found[1]["headers"] == {"content-type": "text/plain; charset=utf-8"}


async def test_each_line_is_a_message(own: Rest) -> None:
    body = b'{"a": 1}\r\n\n[2]\n"x"'
    assert await publish(own, body, "application/x-ndjson", "?key=k") == 3
    found = await messages(own)
    assert [each["payload"] for each in found] == ['{"a": 1}', "[2]", '"x"']
    assert [each["key"] for each in found] == ["k"] * 3
    assert found[0]["headers"] == {"content-type": "application/json"}


async def test_each_item_is_a_message_if_asked(own: Rest) -> None:
    body = b'[{"a": [1, 2]}, 2 , null]'
    assert await publish(own, body, "application/json") == 1
    assert await publish(own, body, "application/json", "?split=true") == 3
    assert [each["payload"] for each in await messages(own)] == [
        body.decode(),
        '{"a": [1, 2]}',
        "2",
        "null",
    ]


async def test_the_key_and_headers_are_in_the_request(own: Rest) -> None:
    fields = {
        "TMS-Key": "caf%C3%A9",
        "TMS-Header-TraceId": "7f",
        "tms-header-Fee%20": "%E2%82%AC 5",
    }
    await publish(own, b"a", "application/octet-stream", **fields)
    [message] = await messages(own)
    assert message["key"] == "café"
    assert message["headers"] == {"TraceId": "7f", "Fee ": "€ 5"}


async def test_the_key_of_a_query_may_be_escaped_and_empty(own: Rest) -> None:
    for query in ("?k%65y=caf%C3%A9+1", "?key=", "?key"):
        await publish(own, b"a", "text/plain", query)
    assert [each["key"] for each in await messages(own)] == ["café 1", "", ""]


async def test_events_in_both_modes_are_messages(own: Rest) -> None:
    fields = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "caf%C3%A9"}
    await publish(own, b"<a/>", "application/xml", **fields)
    await publish(own, json.dumps(EVENT).encode(), "application/cloudevents+json; charset=utf-8")
    both = json.dumps([EVENT, EVENT]).encode()
    assert await publish(own, both, "application/cloudevents-batch+json") == 2
    accept = {"accept": "application/cloudevents-batch+json"}
    answer = await own.http.post(f"{TOPIC}/poll", json={}, headers=accept)
    assert answer.headers["content-type"] == "application/cloudevents-batch+json"
    ids = [each["id"] for each in await messages(own)]
    binary = {"specversion": "1.0", "id": "1", "source": "/s", "type": "café"}
    assert answer.json() == [
        {**binary, "datacontenttype": "application/xml", "data": "<a/>", "tmsid": ids[0]},
        *(
            {**EVENT, "datacontenttype": "application/json", "tmsid": message_id}
            for message_id in ids[1:]
        ),
    ]
    empty = await own.http.post(
        f"{TOPIC}/poll", json={"startFrom": ids[-1], "inclusive": False}, headers=accept
    )
    assert empty.json() == []


async def test_a_publish_is_conditional_if_asked(own: Rest) -> None:
    assert await publish(own, b"a", "text/plain", "?if_last=empty") == 1
    again = await own.http.post(
        f"{RAW}?if_last=empty", content=b"a", headers={"content-type": "text/plain"}
    )
    assert refusal(again) == (409, "topic_moved")


@pytest.mark.parametrize(
    ("body", "fields", "query", "expected"),
    [
        (b"a", {}, "", (415, "unsupported_content_type")),
        (b"", {"content-type": "application/x-ndjson"}, "", (400, "empty_publish")),
        (b'{"a":1}\n{"b"', {"content-type": "application/x-ndjson"}, "", (400, "invalid_body")),
        (b'"\xff"', {"content-type": "application/x-ndjson"}, "", (400, "invalid_body")),
        (b"[]", {"content-type": "application/json"}, "?split=true", (400, "empty_publish")),
        (b"{}", {"content-type": "application/json"}, "?split=true", (400, "invalid_body")),
        (b"[", {"content-type": "application/json"}, "?split=true", (400, "invalid_body")),
        (b"[1]", {"content-type": "text/plain"}, "?split=true", (400, "invalid_body")),
        (b"a", {"content-type": "a/b"}, "?key=a&key=b", (400, "invalid_query")),
        (b"a", {"content-type": "a/b", "tms-key": "a"}, "?key=b", (400, "invalid_query")),
        (b"a", {"content-type": "a/b"}, "?key=a&k%65y=b", (400, "invalid_query")),
        (b"a", {"content-type": "a/b"}, "?key=%FF", (400, "malformed_request")),
        (b"a", {"content-type": "a/b"}, "?wait=1", (400, "unknown_query_parameter")),
        (b"a", {"content-type": "a/b", "ce-id": "1"}, "", (400, "invalid_body")),
        (b"{}", {"content-type": "application/cloudevents+json"}, "", (400, "invalid_body")),
        (b"a", {"content-type": "a/b", "tms-header-": "1"}, "", (400, "invalid_message_header")),
        (b"a", {"content-type": "a/b", "tms-header-a": "%ff"}, "", (400, "invalid_message_header")),
        (
            b"a",
            {"content-type": "a/b", "idempotency-key": "1"},
            "",
            (400, "idempotency_key_refused"),
        ),
    ],
)
async def test_wrong_requests_are_refused_and_change_nothing(
    own: Rest, body: bytes, fields: dict[str, str], query: str, expected: tuple[int, str]
) -> None:
    assert refusal(await own.http.post(RAW + query, content=body, headers=fields)) == expected
    assert await messages(own) == []


async def test_a_page_of_another_site_publishes_nothing(own: Rest) -> None:
    answer = await own.http.post(
        RAW, content=b"a", headers={"content-type": "text/plain", "origin": "https://other.example"}
    )
    assert answer.json()["error"]["code"] == "cross_site"
    assert await messages(own) == []


async def test_a_header_twice_is_refused(own: Rest) -> None:
    answer = await own.http.post(
        RAW,
        content=b"a",
        headers=[("content-type", "a/b"), ("TMS-Header-a", "1"), ("tms-header-a", "2")],
    )
    assert refusal(answer) == (400, "invalid_message_header")


async def test_too_many_messages_are_refused(own: Rest) -> None:
    body = b"1\n" * (own.services.engine.limits.request_messages_max + 1)  # type: ignore[union-attr]
    answer = await own.http.post(
        RAW, content=body, headers={"content-type": "application/x-ndjson"}
    )
    assert refusal(answer) == (413, "too_many_messages")
    assert await messages(own) == []


@pytest.mark.parametrize(
    ("content_type", "item"),
    [("application/json", b"{}"), ("application/cloudevents-batch+json", b"{}")],
)
def test_too_many_items_are_refused_before_one_is_read(content_type: str, item: bytes) -> None:
    request = RawRequest(content_type, None, {}, {}, is_split=content_type == "application/json")
    with pytest.raises(TooLarge), counted() as work:
        list(bodies_in(request, b"[" + b",".join([item] * 10_000) + b"]", 9_999))
    assert work.lines < 100


@pytest.mark.parametrize("is_event", [False, True])
def test_items_take_their_turns(is_event: bool) -> None:  # noqa: FBT001
    content_type = "application/cloudevents-batch+json" if is_event else "application/json"
    request = RawRequest(content_type, None, {}, {}, is_split=not is_event)
    body = json.dumps([EVENT] * 3 * MESSAGES_A_STEP).encode()
    assert len(list(bodies_in(request, body, 100_000))) == 3


def test_a_wrong_item_is_named() -> None:
    request = RawRequest("application/json", None, {}, {}, is_split=True)
    with pytest.raises(InvalidRequest) as refused:
        list(bodies_in(request, b'[1, {"a": 1, "a": 2}]', 10))
    assert refused.value.detail["item"] == 2


def test_empty_lines_take_their_turns_too() -> None:
    request = RawRequest("application/x-ndjson", None, {}, {}, is_split=False)
    steps = bodies_in(request, b"\n" * (10 * MESSAGES_A_STEP) + b"1", 1)
    assert len(list(steps)) == 10
