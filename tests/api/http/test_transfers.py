"""Over a socket: bodies that are slow, too large or never end, clients that leave, long answers."""

import asyncio
import json
import math
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from api.resources import poll
from tests.api.rest import AVRO_TYPE, JSON_TYPE, TOPIC, Live, avro_poll, avro_publish, live, refusal
from tests.waiting import turns
from tests.wire.poll_decoder import AvroPollDecoder
from tms.core.errors import InvalidRequest
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio

AVRO = {"content-type": AVRO_TYPE}
CHUNKED = {**AVRO, "transfer-encoding": "chunked"}
BYTES_MAX = 100_000


SMALL = Limits(request_bytes_max=BYTES_MAX, message_bytes_max=BYTES_MAX, poll_block_bytes=64 * 1024)


@pytest.fixture
async def small(anyio_backend: object) -> AsyncIterator[Live]:
    """A server with small caps, and the topic `t`."""
    async with live(SMALL) as served:
        await served.create()
        yield served
        assert await served.payloads() == []


@pytest.fixture
async def hasty(anyio_backend: object) -> AsyncIterator[Live]:
    """A server with short timeouts."""
    async with live(replace(SMALL, request_body_s_max=0.2)) as served:
        await served.create()
        yield served
        assert json.loads(await poll_at_once(served)) == []


async def poll_at_once(served: Live) -> bytes:
    """Return a poll's answer. Head and body are one write: a stall between two would be a 408."""
    wire = await served.connect()
    await wire.send("POST", f"{TOPIC}/poll", b"{}", {"content-type": JSON_TYPE})
    status, _, body = await wire.answer()
    await wire.close()
    assert status == 200
    return body


def code_of(body: bytes) -> str:
    code: str = json.loads(body)["error"]["code"]
    return code


async def test_a_client_that_sends_all_of_a_body_too_large_sees_the_413(small: Live) -> None:
    answer = await small.post("publish", bytes(5_000_000))

    assert refusal(answer) == (413, "request_too_large")
    assert answer.headers["connection"] == "close"
    assert answer.json()["error"]["detail"] == {
        "request_bytes_max": BYTES_MAX,
        "content_length": 5_000_000,
    }


async def test_a_body_too_large_of_unknown_length(small: Live) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield bytes(100_000)

    answer = await small.http.post(f"{TOPIC}/publish", content=parts(), headers=AVRO)

    assert refusal(answer) == (413, "request_too_large")


async def test_a_body_announced_too_large_is_refused_before_it_comes(small: Live) -> None:
    wire = await small.connect()
    announced = {**AVRO, "content-length": str(BYTES_MAX + 1), "expect": "100-continue"}
    await wire.send("POST", f"{TOPIC}/publish", headers=announced)

    status, headers, body = await wire.answer()

    assert (status, code_of(body), headers["connection"]) == (413, "request_too_large", "close")
    await wire.close()


async def test_a_body_of_the_largest_size_is_awaited_with_100_continue(small: Live) -> None:
    wire = await small.connect()
    body = avro_publish(b"")[:-1]
    expecting = {**AVRO, "content-length": str(len(body)), "expect": "100-continue"}
    await wire.send("POST", f"{TOPIC}/publish", headers=expecting)

    assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.writer.write(body)
    assert code_of((await wire.answer())[2]) == "invalid_body"
    await wire.close()


async def test_an_answer_that_did_not_wait_for_the_body_ends_the_connection(small: Live) -> None:
    wire = await small.connect()
    await wire.send("POST", "/nothing", b"part of it", headers={**AVRO, "content-length": "20"})

    status, headers, body = await wire.answer()
    assert (status, code_of(body), headers["connection"]) == (404, "not_found", "close")
    wire.writer.write(b"the rest..")
    assert await wire.rest() == b""
    await wire.close()


async def test_a_refusal_after_the_body_keeps_the_connection(small: Live) -> None:
    wire = await small.connect()
    refused = [
        (b"", AVRO, 400),
        (b"?", {"content-type": "text/plain"}, 415),
        (b"?", {**AVRO, "content-encoding": "gzip"}, 400),
        (bytes(90_000), AVRO, 400),
    ]
    for body, headers, expected in refused:
        await wire.send("POST", f"{TOPIC}/publish", body, headers)
        status, answered, _ = await wire.answer()
        assert status == expected
        assert "connection" not in answered
    await wire.send("GET", "/ping")
    assert (await wire.answer())[2] == b"OK."
    await wire.close()


@pytest.mark.parametrize(
    ("headers", "start"),
    [
        ({**AVRO, "content-length": "10"}, b""),
        ({**AVRO, "content-length": "10"}, b"ab"),
        (CHUNKED, b"2\r\nab\r\n"),
    ],
)
async def test_a_body_that_does_not_arrive_in_time(
    hasty: Live, headers: dict[str, str], start: bytes
) -> None:
    wire = await hasty.connect()
    await wire.send("POST", f"{TOPIC}/publish", start, headers)

    status, answered, body = await wire.answer()

    assert (status, code_of(body)) == (408, "body_too_slow")
    assert answered["connection"] == "close"
    assert json.loads(body)["error"]["detail"] == {"request_body_s_max": 0.2}
    await wire.close()


async def test_slow_bodies_do_not_hold_up_others(hasty: Live) -> None:
    slow = [await hasty.connect() for _ in range(5)]
    for wire in slow:
        await wire.send("POST", f"{TOPIC}/publish", headers={**AVRO, "content-length": "10"})

    await poll_at_once(hasty)

    for wire in slow:
        assert (await wire.answer())[0] == 408
        await wire.close()


async def test_a_client_that_leaves_within_its_body_has_published_nothing(small: Live) -> None:
    wire = await small.connect()
    body = avro_publish(b"x" * 100)
    headers = {**AVRO, "content-length": str(len(body))}
    await wire.send("POST", f"{TOPIC}/publish", body[:-1], headers)
    await wire.close()

    await small.until(
        lambda: small.metric("tms_http_requests_total", operation="publish", status="499") == 1
    )


async def test_a_body_in_many_small_parts(served: Live) -> None:
    await served.create()
    wire = await served.connect()
    await wire.send("POST", f"{TOPIC}/publish", headers=CHUNKED)
    for byte in avro_publish(b"hello"):
        wire.writer.write(b"1\r\n%c\r\n" % byte)
        await wire.writer.drain()
        await turns()
    wire.writer.write(b"0\r\n\r\n")

    assert (await wire.answer())[0] == 200
    assert await served.payloads() == [b"hello"]
    await wire.close()


async def test_pipelined_requests_are_answered_in_order(served: Live) -> None:
    await served.create()
    wire = await served.connect()
    for payload in (b"a", b"b"):
        await wire.send("POST", f"{TOPIC}/publish", avro_publish(payload), AVRO)
    await wire.send("POST", f"{TOPIC}/poll", b"{}", {"content-type": JSON_TYPE})

    assert [(await wire.answer())[0] for _ in range(2)] == [200, 200]
    assert [m["payload"] for m in json.loads((await wire.answer())[2])] == ["a", "b"]
    await wire.close()


async def test_a_waiting_poll_ends_when_its_client_leaves(served: Live) -> None:
    await served.create()
    wire = await served.connect()
    await wire.send("POST", f"{TOPIC}/poll?wait=60", b"{}", {"content-type": JSON_TYPE})
    await served.until(lambda: served.waiters() == 1)

    await wire.close()

    await served.until(lambda: served.waiters() == 0)
    await served.until(
        lambda: served.metric("tms_http_requests_total", operation="poll", status="499") == 1
    )


async def test_a_waiting_poll_answers_and_keeps_its_connection(served: Live) -> None:
    await served.create()
    wire = await served.connect()
    for payload in (b"a", b"b"):
        asked = json.dumps({"startFrom": served.clock.now_ms()}).encode()
        await wire.send("POST", f"{TOPIC}/poll?wait=60", asked, {"content-type": JSON_TYPE})
        await served.until(lambda: served.waiters() == 1)
        await served.publish(payload)
        assert [m["payload"] for m in json.loads((await wire.answer())[2])] == [payload.decode()]
        served.clock.advance(1)
    await wire.close()


# A long answer: MESSAGES of MESSAGE_BYTES, many times what sockets and server buffer of it.
MESSAGES = 600
MESSAGE_BYTES = 50_000


@pytest.fixture
async def long(anyio_backend: object) -> AsyncIterator[Live]:
    """A server whose topic `t` holds 30 MB."""
    async with live(Limits(poll_block_bytes=64 * 1024)) as served:
        await served.create()
        for _ in range(MESSAGES // 100):
            await served.publish(*[b"x" * MESSAGE_BYTES] * 100)
        yield served


ALL = avro_poll(limit=MESSAGES)


async def test_a_long_answer_is_streamed_whole(long: Live) -> None:
    decoder = AvroPollDecoder()
    given = 0
    headers = {**AVRO, "accept-encoding": "identity"}
    async with long.http.stream("POST", f"{TOPIC}/poll", content=ALL, headers=headers) as answer:
        assert answer.headers["transfer-encoding"] == "chunked"
        async for part in answer.aiter_raw():
            given += decoder.feed(part).count
    decoder.close()

    assert given == MESSAGES


async def test_a_long_answer_is_compressed_as_a_stream(long: Live) -> None:
    answer = await long.post("poll", ALL, headers={"accept-encoding": "gzip"})

    decoder = AvroPollDecoder()
    assert answer.headers["content-encoding"] == "gzip"
    assert decoder.feed(answer.content).count == MESSAGES
    decoder.close()


async def polled_until_still(served: Live) -> float:
    """Wait until polls read nothing more; return how many bytes they have read."""
    seen = -1.0
    while (now := served.metric("tms_polled_bytes_total")) != seen:
        seen = now
        await turns(50)
    return seen


async def test_a_client_that_does_not_read_is_not_read_ahead_for(long: Live) -> None:
    wire = await long.connect()
    await wire.send("POST", f"{TOPIC}/poll", ALL, AVRO)

    assert 0 < await polled_until_still(long) < MESSAGES * MESSAGE_BYTES / 2

    await wire.close()
    await long.until(
        lambda: long.metric("tms_http_requests_total", operation="poll", status="499") == 1
    )


async def feed_all(decoder: AvroPollDecoder, parts: AsyncIterator[bytes]) -> None:
    async for part in parts:
        decoder.feed(part)


async def test_an_error_within_a_long_answer_breaks_it_off(
    long: Live, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll._refused_streams, "_logged_at", -math.inf)  # by another test
    headers = {**AVRO, "accept-encoding": "identity"}
    decoder = AvroPollDecoder()
    async with long.http.stream("POST", f"{TOPIC}/poll", content=ALL, headers=headers) as answer:
        assert answer.status_code == 200
        await polled_until_still(long)
        await long.http.delete(TOPIC)
        parts = answer.aiter_raw()
        with pytest.raises(httpx.RemoteProtocolError):
            await feed_all(decoder, parts)
    with pytest.raises(InvalidRequest, match="cut off"):
        decoder.close()

    assert "polls cut off" in caplog.text
    assert long.metric("tms_http_requests_total", operation="poll", status="500") == 1


async def test_bodies_that_arrive_slowly_on_many_connections_share_a_bound() -> None:
    limits = Limits(request_bytes_max=100_000, message_bytes_max=100_000, queue_bytes_max=250_000)
    begun = avro_publish(b"x" * 99_000)[:-1]
    headers = {**AVRO, "content-length": str(len(begun) + 1)}
    async with live(limits) as served:
        await served.create()
        wires = [await served.connect() for _ in range(3)]
        for wire in wires:
            await wire.send("POST", f"{TOPIC}/publish", begun, headers)
        # Two of them fit; the third is refused and must be retried later.
        answers = [asyncio.create_task(wire.answer()) for wire in wires]
        [refused], _ = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        status, headers_of_answer, body = refused.result()
        assert (status, code_of(body)) == (503, "queue_full")
        assert headers_of_answer["retry-after"] == "1"
        for wire, answer in zip(wires, answers, strict=True):
            if answer is not refused:
                wire.writer.write(b"\x00")
                assert (await answer)[0] == 200
            await wire.close()
        assert (await served.post("publish", {"messages": ["after"]})).status_code == 200
        assert len(await served.payloads()) == 3
