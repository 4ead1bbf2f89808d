"""Transactions for asyncio: with `await`, and cancelled at any point."""

import asyncio
import threading
from collections.abc import AsyncIterator

import anyio
import pytest

import tms
import tms.aio
from tests.client.participant import AsyncNoting, Noting
from tests.waiting import in_time, turns

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(url: str, namespace: str) -> AsyncIterator[tms.aio.AsyncClient]:
    async with await tms.aio.connect(url, namespace) as client:
        await client.topic("orders").create()
        yield client


async def committed(client: tms.aio.AsyncClient) -> list[bytes]:
    return [message.payload async for message in client.topic("orders").poll(committed=True)]


async def test_every_verb(client: tms.aio.AsyncClient) -> None:
    topic = client.topic("orders")
    billing = topic.subscription("billing")
    created = await billing.create()
    async with client.transaction() as tx:
        await topic.publish(b"one", tx)
        await topic.publish(b"two", tx, buffer=True)
        await tx.checkpoint()
        await tx.add(Noting())
        first = await anext(billing.poll(tx=tx))
        await billing.advance(first, tx)
    assert await committed(client) == [b"one", b"two"]
    position = await billing.position()
    assert (position.after, position.version) == (first.id, created.version + 1)

    async def work(tx: tms.aio.AsyncTransactionContext) -> int:
        await topic.publish(b"three", tx)
        return tx.transaction_id

    assert await client.run_in_transaction(work) > tx.transaction_id
    published = await client.publish_all({"orders": [b"four"]})
    assert not published.is_duplicate
    assert await committed(client) == [b"one", b"two", b"three", b"four"]
    info = await client.transactions.info(tx.transaction_id)
    assert info.status == "committed"
    assert repr(tx) == f"<AsyncTransactionContext {tx.transaction_id} COMMITTED>"


async def test_plain_participants_do_not_hold_the_loop(client: tms.aio.AsyncClient) -> None:
    threads: list[int] = []

    class Waiting(Noting):
        def persist(self) -> None:
            threads.append(threading.get_ident())

    class Looping(Noting):
        def persist(self) -> None:
            threads.append(threading.get_ident())

    participants: list[tms.TransactionAware] = [Waiting(), AsyncNoting(Looping())]
    async with client.transaction(participants=participants):
        pass

    assert threads[0] != threading.get_ident()
    assert threads[1] == threading.get_ident()


async def test_a_cancelled_body_rolls_back(client: tms.aio.AsyncClient) -> None:
    participant = Noting()
    with anyio.CancelScope() as scope:
        async with client.transaction(participants=[participant]) as tx:
            await client.topic("orders").publish(b"one", tx)
            scope.cancel()
            await asyncio.Event().wait()

    assert scope.cancelled_caught
    assert participant.calls == ["one.start", "one.rollback"]
    assert (await client.transactions.info(tx.transaction_id)).status == "aborted"
    assert await committed(client) == []


class Persisting(Noting):
    """Signals that it has begun to persist, and never finishes."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.begun = asyncio.Event()

    async def persist(self) -> None:  # type: ignore[override]
        self.begun.set()
        await asyncio.Event().wait()


async def test_cancelled_before_the_commit_it_is_rolled_back(client: tms.aio.AsyncClient) -> None:
    participant = Persisting()

    async def work() -> None:
        async with client.transaction(participants=[participant]) as tx:
            await client.topic("orders").publish(b"one", tx)

    task = asyncio.create_task(work())
    await participant.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert participant.calls[-1] == "slow.rollback"
    assert await committed(client) == []


async def test_a_publish_that_was_cancelled_is_in_doubt(
    client: tms.aio.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whether its message was stored, so the transaction must not commit."""
    topic = client.topic("orders")
    messaging = type(topic._messaging)
    publish = messaging.publish

    async def slow_publish(*arguments: object, **named: object) -> object:
        await publish(*arguments, **named)  # type: ignore[arg-type]
        scope.cancel()
        return await asyncio.Event().wait()

    scope = anyio.CancelScope()
    with pytest.raises(tms.OutcomeUnknown):  # noqa: PT012
        async with client.transaction() as tx:
            monkeypatch.setattr(messaging, "publish", slow_publish)
            with scope:
                await topic.publish(b"one", tx)
            monkeypatch.undo()
            await topic.publish(b"two", tx)

    assert await committed(client) == []
    assert (await client.transactions.info(tx.transaction_id)).status == "invalid"


@pytest.mark.parametrize("by", ["task", "scope"])
async def test_cancelled_amid_the_commit_it_is_settled(
    client: tms.aio.AsyncClient, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    participant = Noting()
    begun, goes_on = asyncio.Event(), asyncio.Event()
    commit = client.transactions.commit

    async def slow_commit(*arguments: object) -> None:
        begun.set()
        await goes_on.wait()
        await commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(type(client.transactions), "commit", lambda _, *a: slow_commit(*a))
    scope = anyio.CancelScope()
    contexts: list[tms.aio.AsyncTransactionContext] = []

    async def work() -> None:
        with scope:
            async with client.transaction(participants=[participant]) as tx:
                contexts.append(tx)
                await client.topic("orders").publish(b"one", tx)

    task = asyncio.create_task(work())
    await begun.wait()
    if by == "task":
        task.cancel()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        scope.cancel()
        goes_on.set()
        await task

    assert contexts[0].is_committed
    assert participant.calls[-1] == "one.post_commit"
    assert await committed(client) == [b"one"]


async def test_cancelled_after_the_commit_it_stays(client: tms.aio.AsyncClient) -> None:
    class Late(Noting):
        async def post_commit(self) -> None:  # type: ignore[override]
            task.cancel()
            await turns()

    last = Noting("last")

    async def work() -> None:
        async with client.transaction(participants=[Late(), last]) as tx:
            await client.topic("orders").publish(b"one", tx)

    task = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await task

    assert last.calls[-1] == "last.post_commit"
    assert await committed(client) == [b"one"]


async def test_cancelled_transactions_show_no_traceback(
    client: tms.aio.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    """This holds wherever they are cancelled: before, during or after a publish, or in rollback."""

    async def publish() -> None:
        async with client.transaction() as tx:
            await client.topic("orders").publish(b"one", tx)
            await client.topic("orders").publish(b"two", tx)

    caplog.set_level("INFO")
    for count in range(40):
        task = asyncio.create_task(publish())
        await turns(count)
        task.cancel()
        await turns()
        task.cancel()
        async with in_time():
            await asyncio.wait([task])

    assert [record for record in caplog.records if record.exc_info] == []
