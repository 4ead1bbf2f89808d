"""A program's process forgets what the program creates with the client and ends."""

import asyncio
import gc
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

import pytest

import tms
import tms.aio
from tests.client.taking import running
from tests.objects_in_memory import count_by_type
from tests.scale import scaled
from tests.servers.server_process import ServerProcess
from tests.waiting import wait_until

N = scaled(60, 10)
CYCLES: dict[str, Callable[[tms.Client, int], None]] = {}


def cycle(function: Callable[[tms.Client, int], None]) -> Callable[[tms.Client, int], None]:
    CYCLES[function.__name__] = function
    return function


@cycle
def closed_client(client: tms.Client, number: int) -> None:
    del number
    with tms.connect(SERVER.url, client.namespace) as other:
        other.topic("kept").publish(b"x")


@cycle
def asynchronous_client(client: tms.Client, number: int) -> None:
    del number

    async def publish() -> None:
        async with await tms.aio.connect(SERVER.url, client.namespace) as other:
            await other.topic("kept").publish(b"x")

    asyncio.run(publish())


@cycle
def half_read_poll(client: tms.Client, number: int) -> None:
    del number
    assert len(list(islice(client.topic("kept").poll(), 2))) == 2


@cycle
def left_follower(client: tms.Client, number: int) -> None:
    del number
    following = client.topic("kept").follow()
    next(following)


@cycle
def broken_off_loop(client: tms.Client, number: int) -> None:
    client.topic("kept").publish([b"%d" % number, b"is given back"])
    for message in client.topic("kept").group("workers").take(prefetch=2):
        message.ack()
        break


@cycle
def worker(client: tms.Client, number: int) -> None:
    client.topic("kept").publish(b"%d" % number)
    done = threading.Event()

    @client.topic("kept").group("workers").worker(concurrency=2)
    def work(message: tms.GroupMessage) -> None:
        del message
        done.set()

    with running(work):
        wait_until(done.is_set)


@cycle
def raised_transaction(client: tms.Client, number: int) -> None:
    del number
    with suppress(ZeroDivisionError), client.transaction() as tx:
        client.topic("kept").publish(b"never", tx=tx)
        raise ZeroDivisionError


@cycle
def committed_transaction(client: tms.Client, number: int) -> None:
    topic = client.topic(f"t{number}")
    topic.create()
    with client.transaction() as tx:
        topic.publish(b"x", tx=tx)
    topic.delete()


@cycle
def refused_calls(client: tms.Client, number: int) -> None:
    with pytest.raises(tms.TopicNotFound):
        list(client.topic(f"missing{number}").poll())


@cycle
def threads(client: tms.Client, number: int) -> None:
    del number
    thread = threading.Thread(target=client.topic("kept").publish, args=(b"x",))
    thread.start()
    thread.join()


@cycle
def fork(client: tms.Client, number: int) -> None:
    del client, number
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


BOUNDED = {
    "Transaction": "those decoded last, up to a number of bytes (tms.wire.transaction_codec)",
    "tuple": "the same, with their bytes",
    "SplitResult": "the last 128 addresses that urllib split",
}
"""Objects that are kept up to a bound that a test does not reach."""
SERVER: ServerProcess


@pytest.fixture(scope="module", autouse=True)
def _server() -> Iterator[None]:
    global SERVER
    with ServerProcess("memory:") as SERVER:
        yield


def census() -> Counter[str]:
    """Return the objects by their type."""
    gc.collect()
    return count_by_type()


@pytest.mark.parametrize("name", sorted(CYCLES))
def test_twice_as_much_leaves_no_more_objects(name: str) -> None:
    with tms.connect(SERVER.url, name) as client:
        client.topic("kept").create()
        client.topic("kept").group("workers").create(retry_s=0)
        client.topic("kept").publish([b"1", b"2", b"3"])
        for number in range(10 + N):
            CYCLES[name](client, number)
        before = census()
        for number in range(10 + N, 10 + 2 * N):
            CYCLES[name](client, number)

        # Tasks that a cycle left to the client's loop end soon.
        wait_until(lambda: not more_than(before), "objects are as many as before")


def more_than(before: Counter[str]) -> set[str]:
    more = {kind for kind, count in (census() - before).items() if count > N // 3}
    return more - BOUNDED.keys()
