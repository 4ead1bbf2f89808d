"""Messages as server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest

from api.resources import stream
from tests.api.rest import TOPIC, Live, Rest, refusal
from tests.waiting import WAIT_S_MAX, until

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
LARGE = 24
"""Messages of a MiB, for which the buffers of both sides have no room."""


class Event(NamedTuple):
    """One event: its fields, as a browser reads them."""

    id: str | None
    kind: str | None
    data: Any


class Stream:
    """The events of an answer."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.seen: str | None = None
        self.lines = answer.aiter_lines()

    async def next(self) -> Event:
        """Return the next event, with or without data."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(WAIT_S_MAX):
            async for line in self.lines:
                if not line:
                    break
                name, _, value = line.partition(":")
                fields[name] = value.removeprefix(" ")
        self.seen = fields.get("id", self.seen)
        data = json.loads(fields["data"]) if "data" in fields else None
        return Event(fields.get("id"), fields.get("event"), data)

    async def messages(self, count: int) -> list[str]:
        """Return the payloads of the next messages."""
        payloads: list[str] = []
        while len(payloads) < count:
            event = await self.next()
            if event.data is not None and event.kind is None:
                assert event.data["id"] == event.id
                payloads.append(event.data["payload"])
        return payloads


@asynccontextmanager
async def reading(rest: Rest, query: str = "", **fields: str) -> AsyncIterator[Stream]:
    async with rest.http.stream("GET", f"{TOPIC}/stream{query}", headers=fields) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        yield Stream(answer)


@pytest.fixture(autouse=True)
async def _topic(own: Rest) -> None:
    await own.create()


async def test_messages_that_exist_are_followed_by_new_ones(own: Rest) -> None:
    await own.publish(b"a", b"b")
    async with reading(own) as events:
        assert await events.messages(2) == ["a", "b"]
        await own.publish(b"c")
        assert await events.messages(1) == ["c"]
        keyed = {"payload": "multi\nline", "key": "k", "headers": {"h": "1"}}
        await own.post("publish", {"messages": [keyed]})
        event = await events.next()
        assert {name: event.data[name] for name in keyed} == keyed


async def test_a_stream_begins_where_it_is_asked_to(own: Rest) -> None:
    await own.publish(b"a")
    own.clock.advance(1_000)
    await own.publish(b"b", b"c")
    [(first, _), *_] = await own.messages()
    expected = ["a", "b", "c"]
    for number, (query, skipped) in enumerate(
        (
            ("", 0),
            ("?start=start", 0),
            (f"?after={first}", 1),
            (f"?time={own.clock.now_ms()}", 1),
            ("?start=end", 7),
        )
    ):
        async with reading(own, query) as events:
            await events.next()
            await own.publish(b"%d" % number)
            expected.append(str(number))
            assert await events.messages(len(expected) - skipped) == expected[skipped:]


async def test_a_reader_goes_on_after_the_last_id_that_it_has_seen(own: Rest) -> None:
    async with reading(own, "?start=end") as events:
        await events.next()
        seen = events.seen
    await own.publish(b"a", b"b")
    for expected in (["a"], ["b"]):
        fields = {} if seen is None else {"Last-Event-ID": seen}
        async with reading(own, "?start=start", **fields) as events:
            assert await events.messages(1) == expected
            seen = events.seen


async def test_a_reader_that_began_at_the_end_of_an_empty_topic_misses_nothing(own: Rest) -> None:
    async with reading(own, "?start=end") as events:
        await events.next()
        await events.next()
        assert events.seen is not None
    await own.publish(b"a")
    async with reading(own, "?start=end", **{"Last-Event-ID": events.seen}) as again:
        assert await again.messages(1) == ["a"]


async def test_a_slow_reader_lags_and_slows_nobody(own: Live) -> None:
    async with own.http.stream("GET", f"{TOPIC}/stream") as slow:
        await until(lambda: own.waiters() == 1)
        for number in range(LARGE):
            await own.publish(b"%d " % number + b"x" * MIB)
        async with reading(own) as fast:
            assert len(await fast.messages(LARGE)) == LARGE
            await until(lambda: own.waiters() == 1)  # the other one waits for its client
        payloads = await Stream(slow).messages(LARGE)
    assert [int(payload.split()[0]) for payload in payloads] == [*range(LARGE)]


async def test_a_head_ends(own: Rest) -> None:
    answer = await own.http.head(f"{TOPIC}/stream")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
    await until(lambda: own.waiters() == 0)
    assert (await own.http.get(TOPIC)).status_code == 200


async def test_a_heartbeat_has_the_position(own: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_S", 0.05)
    await own.publish(b"a")
    async with reading(own) as events:
        [first] = await events.messages(1)
        seen = events.seen
        beat = await events.next()
        assert (first, beat.data) == ("a", None)
        assert beat.id == seen


async def test_a_reader_of_committed_messages_is_told_where_it_stops(own: Rest) -> None:
    started = await own.http.post("/v1/transactions?codec=false")
    pointer = started.json()["transaction_id"] if isinstance(started.json(), dict) else started.text
    await own.post("publish", {"messages": ["in it"], "transactionWritePointer": str(pointer)})
    async with reading(own, "?isolation=committed") as events:
        event = await events.next()
        while event.kind is None:
            event = await events.next()
        assert (event.kind, event.data) == ("stopped", {"transaction_id": str(pointer)})
        assert (await own.http.post(f"/v1/transactions/{pointer}/commit")).status_code == 200
        assert await events.messages(1) == ["in it"]


async def test_a_stream_ends_after_a_time_without_messages_if_asked(own: Rest) -> None:
    await own.publish(b"a")
    for wait in ("0", "0.05"):
        async with reading(own, f"?wait={wait}") as events:
            assert await events.messages(1) == ["a"]
            async with asyncio.timeout(WAIT_S_MAX):
                rest = [line async for line in events.lines]
            assert not any(line.startswith("data") for line in rest)


async def test_messages_that_do_not_match_a_filter_are_passed(
    own: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_S", 0.01)

    async def publish(*keys: str) -> str:
        messages = [{"payload": key, "key": key} for key in keys]
        await own.post("publish", {"messages": messages})
        return (await own.messages())[-1][0]

    await publish("b", "a")
    query = "?filter=key+%3D+%22a%22"
    async with reading(own, query) as events:
        assert await events.messages(1) == ["a"]
    last = await publish("b")
    async with reading(own, query, **{"last-event-id": events.seen or ""}) as events:
        while events.seen != last:
            assert (await events.next()).data is None
        await publish("a")
        assert await events.messages(1) == ["a"]


async def test_long_logs_arrive_in_pages(own: Rest) -> None:
    count = own.services.engine.limits.poll_messages_default * 3 + 1  # type: ignore[union-attr]
    await own.publish(*(b"%d" % number for number in range(count)))
    async with reading(own) as events:
        assert await events.messages(count) == [str(number) for number in range(count)]


async def test_streams_end_when_the_server_stops(own: Live) -> None:
    async with reading(own) as events:
        await events.next()
        await until(lambda: own.waiters() == 1)
        own.service.stop_waiting()
        async with asyncio.timeout(WAIT_S_MAX):
            rest = [line async for line in events.lines]
        assert all(not line or line.startswith((":", "id:")) for line in rest)


async def test_a_reader_that_leaves_waits_no_more(own: Rest) -> None:
    async with reading(own) as events:
        await events.next()
        await until(lambda: own.waiters() == 1)
    await until(lambda: own.waiters() == 0)


async def test_a_deleted_topic_breaks_the_stream(own: Rest) -> None:
    async with reading(own) as events:
        await events.next()
        await until(lambda: own.waiters() == 1)
        await own.http.delete(TOPIC)
        with pytest.raises(httpx.RemoteProtocolError):
            await events.messages(1)


@pytest.mark.parametrize(
    ("query", "fields", "expected"),
    [
        ("?start=middle", {}, (400, "invalid_query")),
        ("?after=1", {}, (400, "invalid_message_id")),
        (f"?after={'0' * 40}&start=end", {}, (400, "invalid_query")),
        ("?time=soon", {}, (400, "invalid_query")),
        ("?isolation=dirty", {}, (400, "invalid_query")),
        ("?wait=long", {}, (400, "invalid_wait")),
        ("?filter=key", {}, (400, "invalid_filter")),
        ("?end=1", {}, (400, "unknown_query_parameter")),
        ("", {"Last-Event-ID": "1"}, (400, "invalid_message_id")),
    ],
)
async def test_wrong_requests_are_refused(
    own: Rest, query: str, fields: dict[str, str], expected: tuple[int, str]
) -> None:
    answer = await own.http.get(f"{TOPIC}/stream{query}", headers=fields)
    assert refusal(answer) == expected


async def test_a_topic_that_does_not_exist_has_no_stream(own: Rest) -> None:
    answer = await own.http.get(f"{TOPIC}s/stream")
    assert refusal(answer) == (404, "topic_not_found")
