"""A caller's own deadline for its calls: what happens when it passes, and whose calls it bounds."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

import tms
import tms.aio
from tests.client.faulty_server import FaultyServer, answer, refusal
from tests.servers.server_process import ServerProcess
from tests.waiting import turns
from tms.core.runtime.deadlines import deadline, seconds_left, without_deadline

SOON_S = 1.0
"""Long enough to send a request on a busy machine."""
LONG_S = 3600.0
"""A call that really takes this long hangs the test."""

Call = Callable[[tms.Client], object]

CHANGES: dict[str, Call] = {
    "publish": lambda client: client.topic("t").publish(b"x", timeout_s=SOON_S),
    "publish, as text": lambda client: client.topic("t").publish(b"x", timeout_s="1s"),
    "publish_all": lambda client: client.publish_all({"t": b"x"}, timeout_s=SOON_S),
}
READS: dict[str, Call] = {
    "poll that waits": lambda client: list(client.topic("t").poll(wait_s=60, timeout_s=SOON_S)),
    "take_once": lambda client: client.topic("t").group("g").take_once(5, 60, timeout_s=SOON_S),
}
WITHIN: dict[str, Call] = {
    "topics": lambda client: client.topics(),
    "follow": lambda client: next(client.topic("t").follow()),
    "poll": lambda client: list(client.topic("t").poll()),
    "open": lambda client: client.topic("t").group("g").open(),
}


@pytest.fixture
def silent() -> Iterator[FaultyServer]:
    """A server that answers health checks, and nothing else."""
    with FaultyServer(*[None] * 9) as server:
        yield server


@pytest.fixture
def patient(silent: FaultyServer) -> Iterator[tms.Client]:
    with tms.connect(silent.url, timeout_s=LONG_S, retry_for_s=LONG_S) as client:
        yield client


@pytest.mark.parametrize("call", CHANGES.values(), ids=CHANGES)
def test_what_was_sent_and_changes_something_may_have_been_done(
    patient: tms.Client, silent: FaultyServer, call: Call
) -> None:
    with pytest.raises(tms.OutcomeUnknown, match="no answer before the deadline") as unknown:
        call(patient)
    assert type(unknown.value) is tms.OutcomeUnknown
    assert unknown.value.detail["url"] == silent.url
    assert len(silent.requests) == 1


@pytest.mark.parametrize("call", READS.values(), ids=READS)
def test_what_only_reads_is_an_answer_that_was_lost(patient: tms.Client, call: Call) -> None:
    with pytest.raises(tms.AnswerLost):
        call(patient)


@pytest.mark.parametrize("call", WITHIN.values(), ids=WITHIN)
def test_all_calls_of_a_block_have_its_time(patient: tms.Client, call: Call) -> None:
    with tms.deadline(SOON_S), pytest.raises(tms.AnswerLost):
        call(patient)


@pytest.mark.parametrize("call", [*CHANGES.values(), *WITHIN.values()], ids=[*CHANGES, *WITHIN])
def test_nothing_is_sent_after_the_deadline(
    patient: tms.Client, silent: FaultyServer, call: Call
) -> None:
    with tms.deadline(0), pytest.raises(tms.Unavailable, match="nothing was sent"):
        call(patient)
    assert silent.requests == []


@pytest.mark.parametrize("call", CHANGES.values(), ids=CHANGES)
def test_what_the_server_refuses_is_repeated_no_longer_than_that(call: Call) -> None:
    """The server asks for a retry after the deadline, so its refusal is raised at once."""
    with (
        FaultyServer(refusal(503, "queue_full", "60")) as server,
        tms.connect(server.url, retry_for_s=LONG_S) as client,
        pytest.raises(tms.QueueFull),
    ):
        call(client)


def test_what_may_have_been_done_is_not_reported_as_undone() -> None:
    """The first attempt may have been carried out; the others certainly were not."""
    with (
        FaultyServer(b"") as server,
        tms.connect(server.url, retry_for_s=SOON_S) as client,
        pytest.raises(tms.OutcomeUnknown) as unknown,
    ):
        client.publish_all({"t": b"x"}, owner="shop", sequence=1)
    assert type(unknown.value) is tms.OutcomeUnknown
    assert len(server.requests) == 1


@pytest.mark.parametrize("call", CHANGES.values(), ids=CHANGES)
def test_a_server_that_is_away_was_sent_nothing(call: Call, free_port: int) -> None:
    with (
        tms.connect(f"http://127.0.0.1:{free_port}", retry_for_s=LONG_S) as client,
        pytest.raises(tms.ServerUnreachable),
    ):
        call(client)


def test_a_part_of_an_answer_is_not_an_answer() -> None:
    """The server sends a part and holds the rest back, which may last as long as an answer may."""

    class Holding(FaultyServer):
        def _end(self, connection: socket.socket, said: bytes) -> None:
            connection.sendall(said)

    half = answer(200, b"[", announced=9)
    with (
        Holding(half) as server,
        tms.connect(server.url, timeout_s=LONG_S) as client,
        tms.deadline(SOON_S),
        pytest.raises(tms.AnswerLost),
    ):
        client.topics()


def test_the_earlier_end_counts() -> None:
    assert seconds_left() == float("inf")
    with deadline("1h"), deadline(None):
        assert 0 < seconds_left() <= 3600
        with deadline(60):
            assert seconds_left() <= 60
            with deadline(7200):
                assert seconds_left() <= 60
            assert without_deadline().run(seconds_left) == float("inf")
        assert seconds_left() > 60
    assert seconds_left() == float("inf")


def test_it_is_the_threads_own(server: ServerProcess, namespace: str) -> None:
    """The client's event loop serves all threads, but the deadline is one thread's."""
    with tms.connect(server.url, namespace) as client, ExitStack() as stack:
        client.topic("t").create()
        stack.enter_context(tms.deadline(0))
        other = threading.Thread(target=client.topic("t").publish, args=(b"x",))
        other.start()
        other.join()
        with pytest.raises(tms.ServerUnreachable):
            client.topics()
        stack.close()
        assert [each.payload for each in client.topic("t").poll()] == [b"x"]


@pytest.mark.anyio
async def test_it_is_the_tasks_own(server: ServerProcess, namespace: str) -> None:
    async with tms.aio.connect(server.url, namespace) as client:
        topic = client.topic("t")
        await topic.create()

        async def hurried() -> None:
            with tms.deadline(0), pytest.raises(tms.ServerUnreachable):
                await topic.publish(b"x")

        await asyncio.gather(hurried(), topic.publish(b"y"), hurried())
        assert [each.payload async for each in topic.poll()] == [b"y"]


@pytest.mark.anyio
async def test_acks_of_others_do_not_share_it(server: ServerProcess, namespace: str) -> None:
    """The acks share one request, which the first caller starts."""
    async with tms.aio.connect(server.url, namespace) as client:
        topic = client.topic("t")
        await topic.create()
        await topic.publish([b"1", b"2"])
        await topic.group("g").create()
        one, other = await topic.group("g").take_once(2, 20)

        async def hurried() -> None:
            with tms.deadline(0), pytest.raises(tms.ServerUnreachable):
                await one.ack()

        await asyncio.gather(hurried(), other.ack())
        assert [each.id for each in await topic.group("g").open()] == [one.id]
        await one.ack()


@pytest.mark.anyio
async def test_what_begins_within_continues_after_it(server: ServerProcess, namespace: str) -> None:
    """A member's takes and extensions serve more than the first caller."""
    async with tms.aio.connect(server.url, namespace) as client:
        topic = client.topic("t")
        await topic.create()
        await topic.group("g").create()
        await topic.publish(b"1")
        messages = topic.group("g").take()
        with tms.deadline(60):
            assert (await anext(messages)).payload == b"1"
        with tms.deadline(0):
            await turns()
        await topic.publish(b"2")
        assert (await anext(messages)).payload == b"2"


def test_a_transaction_whose_time_is_over_is_rolled_back(
    server: ServerProcess, namespace: str
) -> None:
    """Otherwise the transaction would hold up readers of committed messages until it times out."""
    stack = ExitStack()
    with tms.connect(server.url, namespace) as client:
        topic = client.topic("t")
        topic.create()
        tx = client.transaction(timeout_s=3600)

        def work() -> None:
            with tx:
                topic.publish(b"x", tx)
                stack.enter_context(tms.deadline(0))
                topic.publish(b"y", tx)

        with pytest.raises(tms.ServerUnreachable):
            work()
        stack.close()
        assert tx.suppressed == ()
        topic.publish(b"z")
        assert [each.payload for each in topic.poll(committed=True)] == [b"z"]


def test_a_store_in_this_process_has_none() -> None:
    with tms.connect("memory:") as client, tms.deadline(0):
        client.topic("t").create()
        client.topic("t").publish(b"x", timeout_s=0)
        assert len(list(client.topic("t").poll(timeout_s=0))) == 1
