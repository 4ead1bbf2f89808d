"""The asynchronous client: the same calls with `await`, many at once, cancelled at will."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing

import anyio
import pytest

import tms
import tms.aio
from tests.client.faulty_server import FaultyServer
from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX, in_time
from tms.client.remote import http

pytestmark = pytest.mark.anyio


@pytest.fixture
async def topic(url: str, namespace: str) -> AsyncIterator[tms.aio.AsyncTopic]:
    async with await tms.aio.connect(url, namespace) as client:
        topic = client.topic("orders")
        await topic.create(ttl=60, owner="shop")
        yield topic


async def test_every_verb(url: str, namespace: str) -> None:
    async with await tms.aio.connect(url, namespace) as client:
        topic = client.topic("orders")
        assert repr(topic) == f"AsyncTopic({namespace}:orders)"
        await topic.create(ttl=60)
        await topic.replace_properties(ttl=61, owner="shop")
        assert await client.topics() == ["orders"]
        assert await topic.properties() == {"generation": "1", "owner": "shop", "ttl": "61"}
        ids = list(await topic.publish([b"one", b"two"]))
        assert [m.id async for m in topic.poll()] == ids
        async with client.transaction() as tx:
            await topic.store(b"three", tx.write_pointer)
            published = await topic.publish([], tx.write_pointer)
            assert published is not None

            assert [m.payload async for m in topic.poll()] == [b"one", b"two", b"three"]

            await topic.rollback(published)
            await tx.abort()
        await topic.delete()
        with pytest.raises(tms.TopicNotFound):
            await topic.publish(b"x")


async def test_what_goes_well_is_not_logged(
    topic: tms.aio.AsyncTopic, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await topic.publish(b"x")
    async with aclosing(topic.follow()) as messages:
        await anext(messages)
    async with aclosing(topic.poll(wait_s=0.01)) as none:
        assert [message.payload async for message in none] == [b"x"]

    assert caplog.records == []


async def test_many_publish_at_once(topic: tms.aio.AsyncTopic) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(topic.publish, b"%d" % number)

    published = [message.payload async for message in topic.poll()]
    assert sorted(published, key=int) == [b"%d" % number for number in range(100)]


async def test_a_wait_is_ended_by_a_publish(topic: tms.aio.AsyncTopic) -> None:
    messages: list[tms.Message] = []

    async def poll() -> None:
        messages.extend([message async for message in topic.poll(wait_s=60)])

    with anyio.fail_after(50):  # before the poll ends by itself, which would hide a lost wake-up
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(poll)
            assert [message async for message in topic.poll()] == []
            await topic.publish(b"woken")

    assert [message.payload for message in messages] == [b"woken"]


async def test_a_poll_can_be_left_and_a_follow_cancelled(topic: tms.aio.AsyncTopic) -> None:
    await topic.publish([b"x" * 1000] * 5000)
    async with aclosing(topic.poll()) as messages:
        async for _ in messages:
            break
    with anyio.move_on_after(0.2) as scope:
        async for _ in topic.follow():
            pass

    assert scope.cancelled_caught
    assert len([message async for message in topic.poll(limit=10)]) == 10


async def test_a_follow_of_a_closed_client_ends(url: str, namespace: str) -> None:
    client = await tms.aio.connect(url, namespace)
    topic = client.topic("orders")
    await topic.create()
    await topic.publish(b"one")
    messages = topic.follow()
    await anext(messages)
    await client.close()
    await client.close()

    with pytest.raises((tms.TmsError, RuntimeError)):
        async with in_time():
            await anext(messages)


async def test_calls_do_not_wait_behind_follows(
    server: ServerProcess, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds however many follows wait for messages, or for their consumers."""
    monkeypatch.setattr(http, "CALLS_MAX", 2)
    given = [anyio.Event() for _ in range(5)]

    async with await tms.aio.connect(server.url, namespace, timeout_s=WAIT_S_MAX) as client:
        topic = client.topic("orders")
        await topic.create()

        async def follow(has_given: anyio.Event) -> None:
            async for _ in topic.follow():
                has_given.set()

        async with anyio.create_task_group() as tasks:
            for has_given in given:
                tasks.start_soon(follow, has_given)
            for _ in range(10):
                await topic.publish(b"to all")
            for has_given in given:
                await has_given.wait()
            tasks.cancel_scope.cancel()


async def test_who_waits_too_long_for_other_calls_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "CALLS_MAX", 1)
    with FaultyServer(None, None) as server:
        async with await tms.aio.connect(server.url, timeout_s=0.3, retry_for_s=0) as client:
            told = await asyncio.gather(client.topics(), client.topics(), return_exceptions=True)

    assert sorted(type(each).__name__ for each in told) == ["AnswerLost", "ServerUnreachable"]
    assert "requests to it were in progress all the time" in "".join(map(str, told))
