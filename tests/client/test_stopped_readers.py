"""A reader that waits for a transaction in progress logs its id and its owner."""

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

import tms
import tms.aio
from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX, until, wait_until
from tms.client.reading import stops
from tms.core.errors import NotPermitted, OwnerBusy, TransactionNotInProgress
from tms.messaging import waiting_reader

SOON_S = 0.05


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the second to a moment, except for a server in a process of its own."""
    monkeypatch.setattr(waiting_reader, "STOPPED_S", SOON_S)
    monkeypatch.setattr(stops, "STOPPED_S", SOON_S)
    monkeypatch.setattr(stops, "LOG_AFTER_S", 0.0)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged about waiting."""
    return [
        record.message
        for record in caplog.records
        if record.name == "tms.client" and record.levelno == logging.WARNING
    ]


@pytest.fixture
def open_one(client: tms.Client, topic: tms.Topic) -> Iterator[tms.TransactionContext]:
    """A transaction in progress with a message, followed by a plain message."""
    with client.transaction(timeout_s=1000) as tx:
        topic.publish(b"in progress", tx)
        topic.publish(b"behind")
        yield tx


@pytest.mark.parametrize("how", ["poll", "follow", "subscription"])
def test_a_reader_that_waits_reports_at_which_transaction_once(
    client: tms.Client,
    topic: tms.Topic,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    tells: list[object] = []
    tell = stops.Stops._log_soon
    monkeypatch.setattr(stops.Stops, "_log_soon", lambda *stop: tells.append(tell(*stop)))
    readers: dict[str, Callable[[], Iterator[Any]]] = {
        "poll": lambda: topic.poll(committed=True, wait_s=20),
        "follow": lambda: topic.follow(committed=True),
        "subscription": lambda: topic.subscription("s").poll(committed=True, wait_s=20),
    }
    topic.subscription("s").create()
    with ThreadPoolExecutor(2) as threads:
        with client.transaction(timeout_s=1000) as tx:
            topic.publish(b"in progress", tx)
            first = [threads.submit(next, readers[how]()) for _ in range(2)]
            wait_until(lambda: len(tells) == 2 and told(caplog))
            client.transactions.info(tx.transaction_id)
            [line] = told(caplog)
            assert f"stopped at transaction {tx.transaction_id} of client " in line
            assert f"Waiting in {topic.namespace}:orders" in line
            assert f":{os.getpid()}, " in line
            assert " old, times out in 16 min" in line
        assert [each.result(WAIT_S_MAX).payload for each in first] == [b"in progress"] * 2


@pytest.mark.anyio
async def test_a_follower_for_asyncio_reports_it_too(
    url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with await tms.aio.connect(url, namespace) as client:
        topic = client.topic("orders")
        await topic.create()
        async with client.transaction() as tx:
            await topic.publish(b"in progress", tx)
            first = asyncio.ensure_future(anext(topic.follow(committed=True)))
            await until(lambda: told(caplog))
        assert (await first).payload == b"in progress"
        assert f"transaction {tx.transaction_id} of client " in told(caplog)[0]


def test_polls_that_do_not_wait_report_it_once_they_have_stopped_for_long(
    client: tms.Client,
    topic: tms.Topic,
    open_one: tms.TransactionContext,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    monkeypatch.setattr(stops, "time", SimpleNamespace(monotonic=lambda: now_s))
    client.stops.after_s = WAIT_S_MAX
    assert list(topic.poll(committed=True)) == []
    assert told(caplog) == []
    now_s = WAIT_S_MAX
    assert list(topic.poll(committed=True)) == []
    wait_until(lambda: told(caplog))
    assert list(topic.poll(committed=True)) == []
    [line] = told(caplog)
    assert str(open_one.transaction_id) in line


def test_a_transaction_that_ends_soon_is_not_reported(
    client: tms.Client, topic: tms.Topic, caplog: pytest.LogCaptureFixture
) -> None:
    client.stops.after_s = WAIT_S_MAX
    with ThreadPoolExecutor(1) as threads:
        with client.transaction() as tx:
            topic.publish(b"in progress", tx)
            first = threads.submit(next, topic.follow(committed=True))
            wait_until(lambda: client.stops._since)
        assert first.result(WAIT_S_MAX).payload == b"in progress"
    assert told(caplog) == []


def test_of_what_a_reader_by_a_transaction_never_sees_it_is_explained(
    client: tms.Client, topic: tms.Topic, caplog: pytest.LogCaptureFixture
) -> None:
    with client.transaction() as reader:
        with client.transaction() as other:
            topic.publish(b"after the reader's snapshot", other)
        assert list(topic.poll(tx=reader, wait_s=SOON_S)) == []
        wait_until(lambda: told(caplog))
    [line] = told(caplog)
    assert f"transaction {other.transaction_id}, committed; the reader's own" in line


def test_of_what_nobody_may_look_at_the_id_is_reported(
    client: tms.Client,
    open_one: tms.TransactionContext,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise NotPermitted("transaction_of_another")

    monkeypatch.setattr(client.transactions._transactions, "info", refuse)
    assert list(client.topic("orders").poll(committed=True, wait_s=SOON_S)) == []
    wait_until(lambda: told(caplog))
    assert told(caplog)[0].endswith(
        f"stopped at transaction {open_one.transaction_id}; later messages follow when it has ended"
    )


def test_a_reader_whose_transaction_ends_while_it_waits_gets_an_error(
    client: tms.Client,
    topic: tms.Topic,
    open_one: tms.TransactionContext,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader = client.transactions.start(tms.StartRequest()).transaction_id
    assert open_one.transaction_id < reader

    def abort() -> None:
        wait_until(lambda: told(caplog))
        client.transactions.abort(reader)
        topic.publish(b"it looks again")

    aborting = threading.Thread(target=abort)
    aborting.start()
    with pytest.raises(TransactionNotInProgress):
        list(topic.poll(tx=reader, wait_s=20))
    aborting.join()


DYING = """
import os, sys, tms
client = tms.connect(*sys.argv[1:])
with client.transaction(owner="billing", timeout_s=1000) as tx:
    client.topic("orders").publish(b"in progress", tx)
    os.write(1, b"%d" % tx.transaction_id)
    os._exit(1)
"""


def test_a_producer_that_comes_back_fences_what_it_left_open(
    server: ServerProcess, namespace: str
) -> None:
    """Readers continue at once, not after the timeout, as docs/transactions.md says."""
    with tms.connect(server.url, namespace) as client:
        topic = client.topic("orders")
        topic.create()
        dying = [sys.executable, "-c", DYING, server.url, namespace]
        left = int(
            subprocess.run(dying, check=False, stdout=subprocess.PIPE, timeout=WAIT_S_MAX).stdout
        )
        topic.publish(b"behind it")
        assert list(topic.poll(committed=True)) == []
        with pytest.raises(OwnerBusy), client.transaction(owner="billing"):
            pass

        with ThreadPoolExecutor(1) as threads:
            first = threads.submit(next, topic.follow(committed=True))
            with client.transaction(owner="billing", if_open="fence") as tx:
                assert first.result(WAIT_S_MAX).payload == b"behind it"
                topic.publish(b"after the restart", tx)

        given = [each.payload for each in topic.poll(committed=True)]
        assert given == [b"behind it", b"after the restart"]
        assert client.transactions.info(left).status is tms.TransactionStatus.INVALID
