"""A client on a store in this process leaves it closed, wherever it is cancelled or fails."""

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

import tms.aio
from tables.leveldb import LevelDBStore
from tests.waiting import WAIT_S_MAX, turns
from tms.client.threads.bridge import Bridge
from tms.transactions.service import TransactionService

pytestmark = pytest.mark.anyio


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"leveldb:{tmp_path / 'data'}"


async def use(url: str, then: Callable[[], object]) -> None:
    async with await tms.aio.connect(url) as client:
        await client.topics()
        then()
        await asyncio.Event().wait()


async def check_closed(url: str) -> None:
    async with await tms.aio.connect(url) as client:
        assert await client.topics() == []


class Paused:
    """A method of the store that waits in its thread until it may continue."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        method: Callable[[LevelDBStore], object] = getattr(LevelDBStore, name)

        def paused(store: LevelDBStore) -> object:
            self.begun.set()
            self.may_go_on.wait(WAIT_S_MAX)
            return method(store)

        monkeypatch.setattr(LevelDBStore, name, paused)

    async def wait(self) -> None:
        await asyncio.to_thread(self.begun.wait, 30)


async def test_by_a_scope_within_its_context(url: str) -> None:
    with anyio.CancelScope() as scope:
        await use(url, scope.cancel)

    assert scope.cancelled_caught
    await check_closed(url)


async def test_by_a_scope_while_it_opens(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paused = Paused(monkeypatch, "_open")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tms.aio.connect, url)
        await paused.wait()
        tasks.cancel_scope.cancel()
        paused.may_go_on.set()

    await check_closed(url)


@pytest.mark.parametrize("method", ["_open", "close"])
async def test_as_a_task(url: str, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    paused = Paused(monkeypatch, method)
    inside = asyncio.Event()
    task = asyncio.create_task(use(url, inside.set))
    if method == "close":
        await inside.wait()
        task.cancel()
    await paused.wait()
    for _ in range(2):
        task.cancel()
        await turns()
    assert not task.done()
    paused.may_go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    await check_closed(url)


async def test_what_fails_as_it_closes_leaves_the_rest_closed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: object) -> None:
        raise tms.StoreCorrupt(table="transaction")

    with monkeypatch.context() as patched:
        patched.setattr(TransactionService, "close", fail)
        client = await tms.aio.connect(url)
        with pytest.raises(tms.StoreCorrupt):
            await client.close()

    await check_closed(url)


def test_by_an_interrupt_while_it_opens(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paused = Paused(monkeypatch, "_open")

    def interrupt() -> None:
        paused.begun.wait(WAIT_S_MAX)
        os.kill(os.getpid(), signal.SIGINT)
        paused.may_go_on.set()

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        tms.connect(url)
    interrupting.join()

    asyncio.run(check_closed(url))


def test_by_an_interrupt_when_it_is_open(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(bridge: Bridge, function: Callable[[], Awaitable[object]]) -> None:
        made(bridge, function)
        raise KeyboardInterrupt

    made = Bridge.call
    with monkeypatch.context() as patched:
        patched.setattr(Bridge, "call", call)
        with pytest.raises(KeyboardInterrupt):
            tms.connect(url)

    asyncio.run(check_closed(url))
