"""Polls with a transaction's id, and polls of committed messages: results, and where they stop."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.api.rest import AVRO_TYPE, JSON_TYPE, TOPIC, Rest, avro_poll, live, refusal
from tests.api.transactions import started
from tests.waiting import in_time
from tests.wire.poll_decoder import AvroPollDecoder
from tms.core.limits import Limits
from tms.core.values.transaction import ALL_VISIBLE_LATEST
from tms.messaging import waiting_reader
from tms.wire.transaction_codec import encode_transaction

pytestmark = pytest.mark.anyio

STOPPED_AT = "tms-stopped-at-transaction"
COMMITTED = "?isolation=committed"


@pytest.fixture
async def topic(own: Rest) -> Rest:
    await own.create()
    return own


async def end(own: Rest, transaction_id: int, verb: str) -> None:
    answer = await own.http.post(f"/v1/transactions/{transaction_id}/{verb}")
    assert answer.status_code == 200, answer.text


async def poll(own: Rest, query: str, **asked: Any) -> tuple[str, int | None]:
    """Return all payloads as one text, and the position at which the poll stopped."""
    answer = await own.post("poll", asked, query=query)
    assert answer.status_code == 200, answer.text
    stopped_at = answer.headers.get(STOPPED_AT)
    payloads = "".join(message["payload"] for message in answer.json())
    return payloads, None if stopped_at is None else int(stopped_at)


async def test_what_is_committed_is_given_up_to_what_may_commit(topic: Rest) -> None:
    open_one = await started(topic)
    await topic.publish(b"a")
    await topic.publish(b"b", pointer=open_one)
    await topic.publish(b"c")

    assert await poll(topic, "") == ("abc", None)
    assert await poll(topic, "?isolation=all") == ("abc", None)
    assert await poll(topic, COMMITTED) == ("a", open_one)
    await end(topic, open_one, "commit")
    assert await poll(topic, COMMITTED) == ("abc", None)


@pytest.mark.parametrize("verb", ["abort", "invalidate"])
async def test_what_has_failed_is_passed_over(topic: Rest, verb: str) -> None:
    failed = await started(topic)
    published = await topic.publish(b"a", pointer=failed)
    await topic.publish(b"b")
    if verb == "abort":
        await topic.post("rollback", published.content)
    await end(topic, failed, verb)

    assert await poll(topic, COMMITTED) == ("b", None)
    assert await poll(topic, "") == ("ab", None)


async def test_a_transaction_reads_by_its_id(topic: Rest) -> None:
    other = await started(topic)
    own_one = await started(topic)
    await topic.publish(b"own", pointer=own_one)
    await topic.publish(b"other", pointer=other)

    query = f"?transaction_id={own_one}"
    assert await poll(topic, query) == ("own", other)
    await end(topic, other, "commit")
    # A snapshot excludes what committed after its start.
    assert await poll(topic, query) == ("own", other)
    later = await started(topic)
    assert await poll(topic, f"?transaction_id={later}") == ("", own_one)
    in_avro = await topic.post("poll", avro_poll(), query=query)
    assert [m.payload for m in AvroPollDecoder().feed(in_avro.content)] == [b"own"]
    assert in_avro.headers[STOPPED_AT] == str(other)


async def test_a_codec_stops_with_the_header_too(topic: Rest) -> None:
    reader = await topic.http.post("/v1/transactions?namespace=ns")
    open_one = await started(topic)
    await topic.publish(b"a", pointer=open_one)

    codec = reader.json()["transaction"]
    assert await poll(topic, "", transaction=codec) == ("", open_one)
    assert await poll(topic, "?isolation=all", transaction=codec) == ("", open_one)


async def test_a_transaction_that_ended_reads_nothing(topic: Rest) -> None:
    ended = await started(topic)
    await end(topic, ended, "commit")

    answer = await topic.post("poll", {}, query=f"?transaction_id={ended}")
    assert refusal(answer) == (409, "transaction_not_in_progress")
    answer = await topic.post("poll", {}, query="?transaction_id=2")
    assert refusal(answer) == (404, "transaction_unknown")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("transaction_id=x", "invalid_transaction_id"),
        ("transaction_id=0", "invalid_transaction_id"),
        ("transaction_id=", "invalid_transaction_id"),
        ("transaction_id=5&transaction_id=6", "invalid_transaction_id"),
        ("isolation=snapshot", "invalid_query"),
        ("isolation=", "invalid_query"),
        ("transaction_id=5&isolation=committed", "invalid_query"),
    ],
)
async def test_a_wrong_query_is_refused(topic: Rest, query: str, code: str) -> None:
    assert refusal(await topic.post("poll", {}, query=f"?{query}")) == (400, code)


@pytest.mark.parametrize("query", ["?transaction_id=5", COMMITTED])
async def test_a_transaction_in_the_body_and_another_reader_in_the_query(
    topic: Rest, query: str
) -> None:
    codec = base64.b64encode(encode_transaction(ALL_VISIBLE_LATEST)).decode()

    answer = await topic.post("poll", {"transaction": codec}, query=query)

    assert refusal(answer) == (400, "invalid_query")


async def test_an_answer_of_several_pages_has_no_header() -> None:
    async with live(Limits(poll_block_bytes=1_000), own=True) as own:
        await own.create()
        open_one = await started(own)
        await own.publish(*[b"x" * 100] * 50)
        await own.publish(b"y", pointer=open_one)

        answer = await own.post("poll", {}, query=COMMITTED)

        assert len(answer.json()) == 50
        assert STOPPED_AT not in answer.headers


async def waiting(own: Rest, query: str) -> "asyncio.Task[httpx.Response]":
    task = asyncio.create_task(own.post("poll", {}, query=query))
    await own.until(lambda: own.waiters() == 1)
    return task


async def test_a_commit_wakes_those_who_wait_for_what_is_committed(topic: Rest) -> None:
    transaction_id = await started(topic)
    await topic.publish(b"a", pointer=transaction_id)
    task = await waiting(topic, f"{COMMITTED}&wait=60")

    await topic.publish(b"b")
    assert not task.done()
    await end(topic, transaction_id, "commit")

    answer = await task
    assert [message["payload"] for message in answer.json()] == ["a", "b"]


async def test_an_invalidation_wakes_those_who_wait_behind(topic: Rest) -> None:
    transaction_id = await started(topic)
    await topic.publish(b"a", pointer=transaction_id)
    await topic.publish(b"b")
    task = await waiting(topic, f"{COMMITTED}&wait=60")

    await end(topic, transaction_id, "invalidate")

    assert [message["payload"] for message in (await task).json()] == ["b"]


async def test_a_publish_to_several_topics_wakes_them(topic: Rest) -> None:
    task = await waiting(topic, f"{COMMITTED}&wait=60")

    await topic.http.post("/v1/namespaces/ns/publish", json={"topics": {"t": ["a"]}})

    assert [message["payload"] for message in (await task).json()] == ["a"]


async def test_a_wait_that_ends_says_where_it_stopped(topic: Rest) -> None:
    transaction_id = await started(topic)
    await topic.publish(b"a", pointer=transaction_id)

    assert await poll(topic, f"{COMMITTED}&wait=0.01") == ("", transaction_id)


async def test_a_reader_whose_transaction_ends_while_it_waits_is_reported(topic: Rest) -> None:
    reader = await started(topic)
    task = await waiting(topic, f"?transaction_id={reader}&wait=60")
    await end(topic, reader, "abort")

    await topic.publish(b"a")

    assert refusal(await task) == (409, "transaction_not_in_progress")
    assert (await topic.http.get(TOPIC)).status_code == 200


@asynccontextmanager
async def head_of(
    http: httpx.AsyncClient, query: str, body: bytes | None = None
) -> AsyncIterator[httpx.Response]:
    """Yield the answer to a waiting poll once its head arrives; `body` is Avro, by default JSON."""
    content, kind = (b"{}", JSON_TYPE) if body is None else (body, AVRO_TYPE)
    async with in_time():
        path, headers = f"{TOPIC}/poll{query}", {"content-type": kind}
        async with http.stream("POST", path, content=content, headers=headers) as answer:
            yield answer


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report a reader's wait after a moment instead of a second."""
    monkeypatch.setattr(waiting_reader, "STOPPED_S", 0.02)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("body", [None, avro_poll()], ids=["json", "avro"])
async def test_a_reader_learns_at_which_transaction_it_waits(
    topic: Rest, body: bytes | None
) -> None:
    open_one = await started(topic)
    await topic.publish(b"a", pointer=open_one)
    await topic.publish(b"b")

    async with head_of(topic.http, f"{COMMITTED}&wait=60", body) as answer:
        assert answer.status_code == 200
        assert answer.headers[STOPPED_AT] == str(open_one)
        await end(topic, open_one, "invalidate")
        content = await answer.aread()

    given = list(AvroPollDecoder().feed(content)) if body else json.loads(content)
    assert len(given) == 1


@pytest.mark.usefixtures("soon")
async def test_a_wait_at_a_transaction_ends_with_nothing(topic: Rest) -> None:
    open_one = await started(topic)
    await topic.publish(b"a", pointer=open_one)

    async with head_of(topic.http, f"{COMMITTED}&wait=0.1") as answer:
        assert answer.headers[STOPPED_AT] == str(open_one)
        assert await answer.aread() == b"[]"


async def test_a_reader_learns_at_once_that_its_transaction_ended_within_a_second(
    topic: Rest,
) -> None:
    open_one = await started(topic)
    await topic.publish(b"a", pointer=open_one)
    task = await waiting(topic, f"{COMMITTED}&wait=60")

    await end(topic, open_one, "commit")

    answer = await task
    assert STOPPED_AT not in answer.headers
    assert "content-length" in answer.headers


@pytest.mark.usefixtures("soon")
async def test_an_answer_that_said_where_it_waits_breaks_off_if_it_may_not_continue(
    topic: Rest,
) -> None:
    reader, other = await started(topic), await started(topic)
    await topic.publish(b"a", pointer=other)

    async with head_of(topic.http, f"?transaction_id={reader}&wait=60") as answer:
        assert answer.headers[STOPPED_AT] == str(other)
        await end(topic, reader, "abort")
        await topic.publish(b"b")
        with pytest.raises(httpx.RemoteProtocolError):
            await answer.aread()

    assert (await topic.http.get(TOPIC)).status_code == 200


async def test_a_checkpoint_is_reported_as_its_transaction(topic: Rest) -> None:
    open_one = await started(topic)
    checkpoint = await topic.http.post(f"/v1/transactions/{open_one}/checkpoint")
    pointer = int(checkpoint.json()["write_pointer"])
    assert pointer != open_one
    await topic.publish(b"a", pointer=pointer)

    assert await poll(topic, COMMITTED) == ("", open_one)


WITH_STOP = f"{COMMITTED}&stopped_at=true"


async def test_json_has_a_field_that_says_where_a_reader_stopped(topic: Rest) -> None:
    assert (await topic.post("poll", {}, query=WITH_STOP)).json() == {
        "messages": [],
        "stoppedAt": None,
    }
    await topic.publish(b"a")
    open_one = await started(topic)
    await topic.publish(b"b", pointer=open_one)

    answer = await topic.post("poll", {}, query=WITH_STOP)
    assert [message["payload"] for message in answer.json()["messages"]] == ["a"]
    assert answer.json()["stoppedAt"] == answer.headers[STOPPED_AT] == str(open_one)
    everything = (await topic.post("poll", {}, query="?stopped_at=true")).json()
    assert (len(everything["messages"]), everything["stoppedAt"]) == (2, None)
    plain = await topic.post("poll", {}, query=f"{COMMITTED}&stopped_at=false")
    assert plain.json() == answer.json()["messages"]


async def test_the_field_is_behind_the_messages_of_several_pages() -> None:
    async with live(Limits(poll_block_bytes=1_000), own=True) as own:
        await own.create()
        open_one = await started(own)
        await own.publish(*[b"x" * 100] * 50)
        await own.publish(b"y", pointer=open_one)

        answer = (await own.post("poll", {}, query=WITH_STOP)).json()

        assert (len(answer["messages"]), answer["stoppedAt"]) == (50, str(open_one))


async def test_the_field_is_refused_where_the_answer_is_not_in_json(topic: Rest) -> None:
    answer = await topic.post("poll", avro_poll(), query="?stopped_at=true")
    assert refusal(answer) == (400, "invalid_query")
    answer = await topic.post("poll", {}, query="?stopped_at=1")
    assert refusal(answer) == (400, "invalid_query")
