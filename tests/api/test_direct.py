"""The short way from the socket to hot endpoints gives the same answers as the long one."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from api.direct import DirectExchange
from tests.api.rest import AVRO_TYPE, JSON_TYPE, TOPIC, TOPICS, Live, Wire, avro_publish, live
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio

AVRO, JSON = {"content-type": AVRO_TYPE}, {"content-type": JSON_TYPE}
PUBLISH, POLL = f"{TOPIC}/publish", f"{TOPIC}/poll"
TRANSACTIONS = "/v1/transactions"
ONE = avro_publish(b"x" * 100)


@pytest.fixture
async def served(anyio_backend: object) -> AsyncIterator[Live]:
    """A server whose pages are small, and whose transactions are its own."""
    async with live(Limits(poll_block_bytes=1000), own=True) as served:
        await served.create()
        for _ in range(20):
            await served.publish(b"m" * 100)
        yield served


@pytest.fixture
def no_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each request fail that goes through ASGI."""

    async def fail(_cycle: RequestResponseCycle, _app: object) -> None:
        raise AssertionError

    monkeypatch.setattr(RequestResponseCycle, "run_asgi", fail)


REQUESTS: dict[str, tuple[str, bytes, Mapping[str, str]]] = {
    "published": (PUBLISH, ONE, AVRO),
    "published in JSON": (PUBLISH, b'{"messages": ["a"]}', JSON),
    "of no topic": (f"{TOPICS}/none/publish", ONE, AVRO),
    "a wrong name": (f"{TOPICS}/n.o/publish", ONE, AVRO),
    "no body": (PUBLISH, b"", AVRO),
    "a wrong body": (PUBLISH, b"\xff", AVRO),
    "another type": (PUBLISH, ONE, {"content-type": "text/plain"}),
    "no type": (PUBLISH, ONE, {}),
    "the last on its connection": (PUBLISH, ONE, {**AVRO, "connection": "close"}),
    "polled": (POLL, b'{"limit": 3}', JSON),
    "polled from no topic": (f"{TOPICS}/none/poll", b"{}", JSON),
    "polled what is committed": (f"{POLL}?isolation=committed", b'{"limit": 3}', JSON),
    "polled by no transaction": (f"{POLL}?transaction_id=1", b"{}", JSON),
    "a wrong query": (f"{POLL}?isolation=none", b"{}", JSON),
    "an unknown query": (f"{POLL}?none=1&none", b'{"limit": 3}', JSON),
    "no transaction": (f"{TRANSACTIONS}/1/commit", b"", {}),
}


async def answer_of(wire: Wire, request: tuple[str, bytes, Mapping[str, str]]) -> object:
    path, body, headers = request
    await wire.send("POST", path, body, headers)
    status, fields, answered = await wire.answer()
    is_open = True
    if fields.get("connection") == "close":
        is_open = bool(await wire.rest())
    return status, {**fields, "date": ""}, answered, is_open


@pytest.mark.parametrize("name", REQUESTS)
async def test_the_answer_is_the_same_as_by_the_long_way(served: Live, name: str) -> None:
    path, body, headers = REQUESTS[name]
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    asgi = await served.connect()
    in_chunks = (path, chunks, {**headers, "transfer-encoding": "chunked"})
    expected = await answer_of(asgi, in_chunks)
    direct = await served.connect()

    assert await answer_of(direct, REQUESTS[name]) == expected
    await asgi.close()
    await direct.close()


@pytest.mark.parametrize("name", REQUESTS)
async def test_what_is_simple_goes_the_short_way(served: Live, no_cycle: None, name: str) -> None:
    wire = await served.connect()
    await answer_of(wire, REQUESTS[name])
    if REQUESTS[name][2].get("connection") != "close":
        await answer_of(wire, REQUESTS[name])
    await wire.close()


async def test_a_transaction_in_requests_that_go_the_short_way(
    served: Live, no_cycle: None
) -> None:
    wire = await served.connect()
    await wire.send("POST", f"{TRANSACTIONS}?codec=false", b"{}", JSON)
    status, _, body = await wire.answer()
    assert status == 200
    transaction_id = body.split(b'"transaction_id":')[1].split(b",")[0].strip(b' "}').decode()
    for path, body in (
        (PUBLISH, avro_publish(b"in it", pointer=int(transaction_id))),
        (f"{TRANSACTIONS}/{transaction_id}/commit", b""),
    ):
        await wire.send("POST", path, body, AVRO)
        assert (await wire.answer())[0] == 200
    await wire.close()


async def test_an_answer_of_many_pages_is_streamed(served: Live) -> None:
    wire = await served.connect()
    await wire.send("POST", POLL, b"{}", JSON)
    async with asyncio.timeout(5):
        head = await wire.reader.readuntil(b"\r\n\r\n")
        streamed = await wire.reader.readuntil(b"\r\n0\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    assert streamed.count(b'"bW1t') + streamed.count(b"mmmm" * 25) == 20
    await wire.send("POST", PUBLISH, ONE, AVRO)

    assert (await wire.answer())[0] == 200
    await wire.close()


async def test_a_client_that_leaves_a_stream_is_counted_as_gone(served: Live) -> None:
    for _ in range(100):
        await served.publish(*[b"m" * 1000] * 49)
    wire = await served.connect()
    await wire.send("POST", POLL, b'{"limit": 100000}', JSON)
    await wire.reader.readuntil(b"\r\n\r\n")
    await wire.close()

    await served.until(
        lambda: served.metric("tms_http_requests_total", operation="poll", status="499") == 1
    )


@pytest.mark.parametrize("split", [1, 20, -1])
async def test_a_request_in_two_parts(served: Live, split: int) -> None:
    wire = await served.connect()
    head = f"POST {PUBLISH} HTTP/1.1\r\nhost: t\r\ncontent-type: {AVRO_TYPE}\r\n".encode()
    request = head + b"content-length: %d\r\n\r\n%s" % (len(ONE), ONE)
    at = split if split > 0 else len(request) + split
    # What is read together with a poll has been read where that is answered, which is at once.
    poll = f"POST {POLL} HTTP/1.1\r\nhost: t\r\ncontent-type: {JSON_TYPE}\r\n".encode()
    body = b'{"limit": 1}'
    wire.writer.write(poll + b"content-length: %d\r\n\r\n%s" % (len(body), body) + request[:at])
    assert (await wire.answer())[0] == 200
    wire.writer.write(request[at:])

    assert (await wire.answer())[0] == 200
    assert (await served.payloads())[-1] == b"x" * 100
    await wire.close()


async def test_requests_behind_one_that_waits_are_answered_in_order(served: Live) -> None:
    wire = await served.connect()
    for path, body, headers in (
        REQUESTS["published"],
        REQUESTS["of no topic"],
        REQUESTS["polled"],
        REQUESTS["published"],
    ):
        await wire.send("POST", path, body, headers)

    assert [(await wire.answer())[0] for _ in range(4)] == [200, 404, 200, 200]
    await wire.close()


async def test_what_fails_behind_its_answer_ends_the_connection_and_is_logged(
    served: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_exchange: DirectExchange, *_: object) -> None:
        await asyncio.sleep(0)
        raise ValueError("a mistake of ours")

    monkeypatch.setattr(DirectExchange, "answer", fail)
    wire = await served.connect()
    with caplog.at_level(logging.ERROR, "uvicorn.error"):
        await wire.send("POST", PUBLISH, ONE, AVRO)
        assert await wire.rest() == b""

    assert "an answer was broken off" in caplog.text
    await wire.close()
