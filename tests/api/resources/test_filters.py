"""Polls and streams with a filter: what they return, and where they say to continue."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pytest

from api.resources import poll as poll_module
from tests.api.rest import TOPIC, Rest, avro_poll, live, refusal
from tests.api.transactions import started
from tests.waiting import in_time
from tests.wire.poll_decoder import AvroPollDecoder
from tms.core.limits import Limits
from tms.core.values.frame import bodies_of
from tms.core.values.message import Message, id_after
from tms.messaging import cache, page_builder, waiting_reader
from tms.wire.avro_frames import AVRO_FRAMES
from tms.wire.avro_runs import AvroRunsDecoder
from tms.wire.bodies import PublishRequest
from tms.wire.media_types import AVRO_FRAMES_TYPE, POLLED_ARROW_TYPE

pytestmark = pytest.mark.anyio

STOPPED_AT = "tms-stopped-at-transaction"
FILTER = 'key = "a" and not header.test exists'
QUERY = f"?filter={quote(FILTER)}"


@pytest.fixture
async def topic(own: Rest) -> Rest:
    await own.create()
    return own


async def publish(rest: Rest, *messages: Message, pointer: int | None = None) -> list[str]:
    """Publish and return the ids."""
    bodies = bodies_of([message.body() for message in messages])
    body = AVRO_FRAMES.encode_publish(PublishRequest(pointer, bodies))
    await rest.post("publish", body, AVRO_FRAMES_TYPE)
    return [message_id for message_id, _ in (await rest.messages())[-len(messages) :]]


async def commit(rest: Rest, transaction_id: int) -> None:
    answer = await rest.http.post(f"/v1/transactions/{transaction_id}/commit")
    assert answer.status_code == 200, answer.text


def keyed(*keys: str) -> list[Message]:
    return [Message(b"%d" % at, key.encode()) for at, key in enumerate(keys)]


async def poll(rest: Rest, query: str = "", **asked: Any) -> tuple[str, str, bool]:
    """Return all payloads, where to continue, and whether that is the end."""
    answer = await rest.post("poll", asked, query=query)
    assert answer.status_code == 200, answer.text
    return (
        "".join(message["payload"] for message in answer.json()),
        answer.headers["tms-next-position"],
        {"true": True, "false": False}[answer.headers["tms-at-end"]],
    )


def after(message_id: str) -> str:
    return id_after(bytes.fromhex(message_id)).hex()


@pytest.mark.parametrize("block_bytes", [1, cache.BLOCK_BYTES])
async def test_messages_that_match_are_returned_with_where_to_continue(
    topic: Rest, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(cache, "BLOCK_BYTES", block_bytes)
    ids = await publish(topic, *keyed("a", "b", "a", "b"))
    await publish(topic, Message(b"5", b"a", {"test": b""}))
    last = (await publish(topic, Message(b"6")))[0]

    assert await poll(topic, QUERY) == ("02", after(last), True)
    assert await poll(topic, filter=FILTER) == ("02", after(last), True)
    assert await poll(topic, QUERY, filter=FILTER, limit=1) == ("0", after(ids[0]), False)
    assert await poll(topic, QUERY, limit=2) == ("02", after(ids[2]), False)
    assert await poll(topic, QUERY, startFrom=ids[1], limit=1) == ("2", after(ids[2]), False)
    assert await poll(topic, QUERY, startFrom=after(last)) == ("", after(last), True)
    assert (await poll(topic, f"{QUERY}&end={ids[2]}"))[::2] == ("0", True)
    answer = await topic.post("poll", {"filter": FILTER}, query="?stopped_at=true")
    assert answer.json() == {
        "messages": [*(await topic.post("poll", {}, query=QUERY)).json()],
        "stoppedAt": None,
        "nextPosition": after(last),
        "atEnd": True,
    }


async def test_a_poll_without_a_filter_does_not_say_where_to_continue(topic: Rest) -> None:
    await publish(topic, *keyed("a"))

    assert "tms-next-position" not in (await topic.post("poll", {})).headers


async def test_an_empty_topic_and_one_where_nothing_matches(topic: Rest) -> None:
    assert (await poll(topic, QUERY))[::2] == ("", True)
    [only] = await publish(topic, *keyed("b"))
    assert await poll(topic, QUERY) == ("", after(only), True)
    assert await poll(topic, "?filter=not+key+exists") == ("", after(only), True)


async def test_each_format_has_the_messages_that_match(topic: Rest) -> None:
    await publish(topic, *keyed("a", "b", "a"))

    async def content(accept: str) -> bytes:
        sent = {"accept": accept}
        answer = await topic.post("poll", avro_poll(), AVRO_FRAMES_TYPE, query=QUERY, headers=sent)
        assert answer.headers["tms-at-end"] == "true"
        return answer.content

    in_avro = await topic.post("poll", avro_poll(), query=QUERY)
    assert [m.payload for m in AvroPollDecoder().feed(in_avro.content)] == [b"0", b"2"]
    runs = AvroRunsDecoder().feed(await content(AVRO_FRAMES_TYPE))
    assert [(m.payload, m.key) for m in runs] == [(b"0", b"a"), (b"2", b"a")]
    table = pa.ipc.open_stream(await content(POLLED_ARROW_TYPE)).read_all()
    assert table["payload"].to_pylist() == [b"0", b"2"]
    events = json.loads(await content("application/cloudevents-batch+json"))
    assert len(events) == 2


@pytest.mark.parametrize("text", ["", "key", 'payload = "a"', 'key = "a" "'])
async def test_a_bad_filter_is_refused(topic: Rest, text: str) -> None:
    answer = await topic.post("poll", {"filter": text})
    again = await topic.post("poll", {}, query=f"?filter={quote(text)}")
    assert again.json()["error"]["detail"] == answer.json()["error"]["detail"]
    assert refusal(answer) == (400, "invalid_filter")


async def test_two_filters_contradict_each_other(topic: Rest) -> None:
    answer = await topic.post("poll", {"filter": "key exists"}, query=QUERY)

    assert refusal(answer) == (400, "invalid_query")


async def test_a_poll_reads_on_while_nothing_matches_for_a_bounded_time(
    topic: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_builder, "READ_MAX", 1)
    monkeypatch.setattr("tms.messaging.reader.READ_MAX", 1)
    ids = await publish(topic, *keyed("b", "b", "b", "a", "b"))

    assert await poll(topic, QUERY) == ("3", after(ids[4]), True)
    monkeypatch.setattr(poll_module, "_FILTERED_S_MAX", 0.0)
    assert await poll(topic, QUERY) == ("", after(ids[0]), False)
    assert await poll(topic, QUERY, startFrom=after(ids[2])) == ("3", after(ids[3]), False)
    assert await poll(topic, f"{QUERY}&wait=30") == ("", after(ids[0]), False)


async def test_an_answer_ends_after_about_a_megabyte_that_matches() -> None:
    async with live(limits=Limits(poll_block_bytes=1)) as rest:
        await rest.create()
        big = Message(b"x" * 600_000, b"a")
        ids = [(await publish(rest, big))[0] for _ in range(3)]
        answer = await rest.post("poll", {}, query=QUERY)
        assert [message["id"] for message in answer.json()] == ids[:2]
        assert answer.headers["tms-next-position"] == after(ids[1])
        assert answer.headers["tms-at-end"] == "false"


async def test_a_poll_waits_for_a_message_that_matches(topic: Rest) -> None:
    waiting = asyncio.create_task(poll(topic, f"{QUERY}&wait=30"))
    await topic.until(lambda: topic.waiters() == 1)
    await publish(topic, *keyed("b"))
    await topic.until(lambda: topic.waiters() == 1)
    [matching] = await publish(topic, *keyed("a"))

    async with in_time():
        payloads, position, _ = await waiting
    assert (payloads, position) == ("0", after(matching))


async def test_a_wait_that_ends_says_what_it_has_passed(topic: Rest) -> None:
    waiting = asyncio.create_task(poll(topic, f"{QUERY}&wait=1"))
    await topic.until(lambda: topic.waiters() == 1)
    [other] = await publish(topic, *keyed("b"))

    async with in_time():
        assert await waiting == ("", after(other), True)


async def test_a_transaction_in_progress_stops_it(topic: Rest) -> None:
    open_one = await started(topic)
    [first] = await publish(topic, *keyed("b"))
    await publish(topic, *keyed("b"), pointer=open_one)
    await publish(topic, *keyed("a"))

    committed = f"{QUERY}&isolation=committed"
    answer = await topic.post("poll", {}, query=committed)
    assert answer.headers[STOPPED_AT] == str(open_one)
    assert await poll(topic, committed) == ("", after(first), True)
    await commit(topic, open_one)
    assert (await poll(topic, committed))[0] == "0"


async def test_a_wait_at_a_transaction_names_it_and_the_position(
    topic: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_reader, "STOPPED_S", 0.0)
    open_one = await started(topic)
    [first] = await publish(topic, *keyed("b"))
    await publish(topic, *keyed("a"), pointer=open_one)

    query = f"{QUERY}&isolation=committed&wait=30"
    request = topic.http.build_request("POST", f"{TOPIC}/poll{query}", json={})
    answer = await topic.http.send(request, stream=True)
    assert answer.headers[STOPPED_AT] == str(open_one)
    assert answer.headers["tms-next-position"] == after(first)
    await commit(topic, open_one)
    assert [each["payload"] for each in json.loads(await answer.aread())] == ["0"]


async def test_stored_messages_are_tested_too(topic: Rest) -> None:
    pointer = await started(topic)
    messages = [{"payload": key, "key": key} for key in "aba"]
    body = {"transactionWritePointer": str(pointer), "messages": messages}
    assert (await topic.post("store", body)).status_code == 200
    await topic.post("publish", {"transactionWritePointer": str(pointer), "messages": []})
    await commit(topic, pointer)

    payloads, position, is_at_end = await poll(topic, f"{QUERY}&isolation=committed", limit=1)
    assert (payloads, is_at_end) == ("a", False)
    rest = await poll(topic, f"{QUERY}&isolation=committed", startFrom=position)
    assert rest[0] == "a"


async def test_what_has_expired_is_passed(topic: Rest) -> None:
    [first] = await publish(topic, *keyed("a"))
    topic.clock.advance(10)
    trimmed: httpx.Response = await topic.post("trim", {"before": topic.clock.now_ms()})
    assert trimmed.status_code == 200

    assert await poll(topic, QUERY, startFrom=first) == ("", first, True)
    [later] = await publish(topic, *keyed("b"))
    assert await poll(topic, QUERY, startFrom=first) == ("", after(later), True)
