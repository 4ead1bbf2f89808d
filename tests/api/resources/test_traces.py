"""A publish's `traceparent` becomes a header of its messages if the topic asks for it."""

from typing import Any

import httpx
import pytest

from tests.api.rest import AVRO_TYPE, TOPIC, Rest, avro_poll, avro_publish, live
from tests.wire.poll_decoder import AvroPollDecoder

pytestmark = pytest.mark.anyio

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-00"


async def create(rest: Rest, **properties: Any) -> None:
    assert (await rest.http.put(TOPIC, json=properties)).status_code == httpx.codes.OK


async def publish(rest: Rest, *messages: object, parent: str = PARENT) -> None:
    body, headers = {"messages": messages}, {"traceparent": parent}
    answer = await rest.http.post(f"{TOPIC}/publish", json=body, headers=headers)
    assert answer.status_code == httpx.codes.OK, answer.text


async def polled(rest: Rest) -> list[tuple[Any, Any, Any]]:
    rows = (await rest.http.post(f"{TOPIC}/poll", json={})).json()
    return [(row.get("payload"), row.get("key"), row.get("headers")) for row in rows]


async def test_messages_get_the_trace_of_their_request() -> None:
    async with live(own=True) as rest:
        await create(rest, trace_header="on")
        own = {"payload": "own", "headers": {"traceparent": OTHER}}
        await publish(rest, "a", {"payload": "b", "key": "k", "headers": {"h": "v"}}, own)
        await publish(rest, {"payload": None, "key": "k"})
        await publish(rest, "bad", parent="00-0-0-0")
        both = {"topics": {"t": ["all"]}}
        headers = {"traceparent": PARENT}
        answer = await rest.http.post("/v1/namespaces/ns/publish", json=both, headers=headers)
        assert answer.status_code == httpx.codes.OK
        raw = {"content-type": "application/octet-stream", **headers}
        answer = await rest.http.post(f"{TOPIC}/messages", content=b"raw", headers=raw)
        assert answer.status_code == httpx.codes.OK

        trace = {"traceparent": PARENT}
        assert await polled(rest) == [
            ("a", None, trace),
            ("b", "k", {"h": "v", **trace}),
            ("own", None, {"traceparent": OTHER}),
            (None, "k", trace),
            ("bad", None, None),
            ("all", None, trace),
            ("raw", None, trace),
        ]


async def test_topics_that_do_not_ask_have_none() -> None:
    async with live() as rest:
        await create(rest)
        await publish(rest, "a")

        assert await polled(rest) == [("a", None, None)]
        wrong = await rest.http.put(f"{TOPIC}2", json={"trace_header": "yes"})
        assert wrong.json()["error"]["detail"]["reason"] == 'it is "off" or "on"'


async def test_bodies_of_cdap_have_nothing_of_it() -> None:
    async with live() as rest:
        await create(rest, trace_header="on")
        headers = {"content-type": AVRO_TYPE, "traceparent": PARENT}
        await rest.http.post(f"{TOPIC}/publish", content=avro_publish(b"a"), headers=headers)
        answer = await rest.http.post(f"{TOPIC}/poll", content=avro_poll(), headers=headers)

        decoder = AvroPollDecoder()
        assert [each.payload for each in decoder.feed(answer.content)] == [b"a"]
