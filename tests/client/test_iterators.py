"""`poll`, `follow` and `take` clean up properly, however a program leaves their iterators.

The underlying generators would not: at the end of its loop asyncio closes them all at once, and
they fail with "asynchronous generator is already running".
"""

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from threading import Barrier
from typing import Any

import pytest

import tms
import tms.aio
from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX, in_time, turns, until, wait_until

COUNT = 30
READS = ("follow", "take")
KINDS = pytest.mark.parametrize("store_kind", ["memory", "server"])
Endless = tms.aio.AsyncMessages[Any]
Scene = Callable[[tms.aio.AsyncClient, Endless], Awaitable[object]]


@pytest.fixture
def _nothing_is_told(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail the test if asyncio logs an error, or the collector warns of one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
        gc.collect()
    assert [each for each in caplog.records if each.name == "asyncio"] == []


def endless(client: tms.aio.AsyncClient, read: str) -> Endless:
    topic = client.topic("t")
    return topic.group("g").take() if read == "take" else getattr(topic, read)()


def is_waiting(messages: Endless) -> bool:
    return messages._reading._waiting is not None


def played(server_url: str, namespace: str, read: str, scene: Scene) -> None:
    """Run a scene in an event loop of its own, with an iterator over a topic of some messages."""

    async def main() -> None:
        client = await tms.aio.connect(server_url, namespace)
        topic = client.topic("t")
        await topic.create()
        await topic.publish([b"%d" % number for number in range(COUNT)])
        await topic.group("g").create()
        await scene(client, endless(client, read))
        await client.close()

    asyncio.run(main(), debug=False)


async def break_in_a_generator(_: tms.aio.AsyncClient, messages: Endless) -> None:
    async def mine() -> AsyncIterator[object]:
        async for message in messages:
            yield message

    async for _message in mine():
        break


async def half_read_at_the_end(_: tms.aio.AsyncClient, messages: Endless) -> None:
    await anext(messages)


async def closed_in_the_middle(client: tms.aio.AsyncClient, messages: Endless) -> None:
    async for _message in messages:
        await client.close()
        break
    with pytest.raises(RuntimeError, match="the client is closed"):
        async for _message in messages:
            pass


async def dropped(client: tms.aio.AsyncClient, messages: Endless) -> None:
    await anext(messages)
    other = endless(client, "follow")
    await anext(other)
    del messages, other
    gc.collect()
    await client.topic("t").publish(b"the loop goes on")


async def dropped_in_another_thread(client: tms.aio.AsyncClient, _: Endless) -> None:
    held = [endless(client, "follow")]
    await anext(held[0])
    await asyncio.to_thread(held.clear)
    await until(lambda: not client._parts.readers._open)


async def closed_twice(_: tms.aio.AsyncClient, messages: Endless) -> None:
    await anext(messages)
    await messages.aclose()
    await messages.aclose()
    assert [each async for each in messages] == []


SCENES = (
    break_in_a_generator,
    half_read_at_the_end,
    closed_in_the_middle,
    dropped,
    dropped_in_another_thread,
    closed_twice,
)


@KINDS
@pytest.mark.usefixtures("_nothing_is_told")
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_the_end_is_silent(url: str, namespace: str, read: str, scene: Scene) -> None:
    played(url, namespace, read, scene)


@pytest.mark.usefixtures("_nothing_is_told")
@pytest.mark.parametrize("read", READS)
def test_a_client_that_is_not_closed_ends_with_its_loop(
    server: ServerProcess, namespace: str, read: str
) -> None:
    """Also if two are half read, one of them waiting in a task."""

    async def scene(client: tms.aio.AsyncClient, messages: Endless) -> None:
        await anext(messages)
        waiting = endless(client, read)
        await anext(waiting)

        async def wait() -> None:
            async for _ in waiting:
                pass

        task = asyncio.create_task(wait())
        await until(lambda: is_waiting(waiting))
        kept.append((client, messages, waiting, task))
        raise LookupError

    kept: list[object] = []
    with pytest.raises(LookupError):
        played(server.url, namespace, read, scene)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # its connections
        kept.clear()
        gc.collect()


@KINDS
@pytest.mark.parametrize("read", READS)
def test_a_wait_that_is_cancelled_loses_nothing(url: str, namespace: str, read: str) -> None:
    async def scene(client: tms.aio.AsyncClient, messages: Endless) -> None:
        given = [(await anext(messages)).payload for _ in range(COUNT)]
        assert given == [b"%d" % number for number in range(COUNT)]
        for number in range(3):
            waiting = asyncio.ensure_future(anext(messages))
            await until(lambda: is_waiting(messages))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await client.topic("t").publish(b"later %d" % number)
            assert (await anext(messages)).payload == b"later %d" % number

    played(url, namespace, read, scene)


@KINDS
@pytest.mark.parametrize("read", [*READS, "poll"])
def test_tasks_share_what_is_read(url: str, namespace: str, read: str) -> None:
    async def scene(_: tms.aio.AsyncClient, messages: Endless) -> None:
        given: list[bytes] = []
        each_got_one = asyncio.Barrier(4)

        async def work() -> None:
            given.append((await anext(messages)).payload)
            await each_got_one.wait()
            async for message in messages:
                given.append(message.payload)
                await turns()

        tasks = [asyncio.create_task(work()) for _ in range(4)]
        await until(lambda: len(given) == COUNT)
        await messages.aclose()
        async with in_time():
            await asyncio.gather(*tasks)
        assert sorted(given, key=int) == [b"%d" % number for number in range(COUNT)]

    played(url, namespace, read, scene)


@KINDS
def test_closing_ends_the_wait_of_another_task(url: str, namespace: str) -> None:
    async def scene(client: tms.aio.AsyncClient, _: Endless) -> None:
        last = [each async for each in client.topic("t").poll()][-1]
        for messages in (
            client.topic("t").follow(after=last),
            client.topic("t").follow(after=last),
        ):
            task = asyncio.ensure_future(anext(messages))
            await until(partial(is_waiting, messages))
            await messages.aclose()
            with pytest.raises(StopAsyncIteration):
                await task
        messages = client.topic("t").follow(after=last)
        task = asyncio.ensure_future(anext(messages))
        await until(lambda: is_waiting(messages))
        await client.close()
        with pytest.raises(RuntimeError, match="the client is closed"):
            await task

    played(url, namespace, "follow", scene)


@KINDS
def test_a_poll_is_gone_on_with_after_a_break(client: tms.Client, topic: tms.Topic) -> None:
    topic.publish([b"1", b"2", b"3"])
    messages = topic.poll()
    for message in messages:
        assert message.payload == b"1"
        break
    assert [message.payload for message in messages] == [b"2", b"3"]
    assert list(messages) == []
    half_read = topic.follow()
    next(half_read)
    half_read.close()
    assert list(half_read) == []
    rest = topic.follow()
    next(rest)
    client.close()
    with pytest.raises(RuntimeError, match="the client is closed"):
        list(rest)


@KINDS
@pytest.mark.parametrize("read", [*READS, "poll"])
def test_threads_share_what_is_read_and_one_closes_it(topic: tms.Topic, read: str) -> None:
    topic.publish([b"%d" % number for number in range(COUNT)])
    group = topic.group("g")
    group.create()
    messages: tms.Messages[Any] = group.take() if read == "take" else getattr(topic, read)()
    given: list[bytes] = []
    each_got_one = Barrier(3, timeout=WAIT_S_MAX)

    def work() -> None:
        given.append(next(messages).payload)
        each_got_one.wait()
        given.extend(each.payload for each in messages)

    with ThreadPoolExecutor(3) as threads, closing(messages):
        ends = [threads.submit(work) for _ in range(3)]
        wait_until(lambda: len(given) == COUNT)
        messages.close()
        for end in ends:
            end.result(WAIT_S_MAX)
    assert sorted(given, key=int) == [b"%d" % number for number in range(COUNT)]


@KINDS
@pytest.mark.filterwarnings("error")
def test_what_is_dropped_half_read_is_closed(client: tms.Client, topic: tms.Topic) -> None:
    topic.publish([b"1", b"2"])

    def mine() -> Iterator[tms.Message]:
        yield from topic.follow()

    for _ in mine():
        break
    wait_until(lambda: not client._bridge.life.half_read)
