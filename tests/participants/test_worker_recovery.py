"""A worker ends the transactions that a dead program left prepared, then works on their rows."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

import tms
import tms.aio
from tests.client.taking import running
from tests.participants.postgresql_server import PostgresqlServer, find_programs
from tests.servers.server_process import ServerProcess
from tests.waiting import in_time, until, wait_until
from tms.postgresql import AsyncPostgresqlParticipant, PostgresqlParticipant

PROGRAMS = find_programs()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROGRAMS is None, reason="PostgreSQL is not installed: apt-get install postgresql"
    ),
]

INSERT = "INSERT INTO bills VALUES (%s)"


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresqlServer]:
    assert PROGRAMS is not None
    with PostgresqlServer(PROGRAMS) as postgresql:
        yield postgresql


@pytest.fixture(autouse=True)
def _table(postgresql: PostgresqlServer) -> None:
    with closing(psycopg.connect(postgresql.url, autocommit=True)) as rows:
        rows.execute("DROP TABLE IF EXISTS bills")
        rows.execute("CREATE TABLE bills (name TEXT PRIMARY KEY)")


def prepared(postgresql: PostgresqlServer) -> list[str]:
    with closing(psycopg.connect(postgresql.url)) as rows:
        found = rows.execute("SELECT gid FROM pg_prepared_xacts").fetchall()
    return [gid for (gid,) in found]


def bills(postgresql: PostgresqlServer) -> list[str]:
    with closing(psycopg.connect(postgresql.url)) as rows:
        return [name for (name,) in rows.execute("SELECT name FROM bills ORDER BY name")]


def die_prepared(
    client: tms.Client, postgresql: PostgresqlServer, *, then: str = "", timeout_s: int = 3
) -> None:
    """Leave order 1 like a worker that died after its PREPARE; `then` ends its transaction."""
    transaction = client.transactions.start(tms.StartRequest(timeout_s=timeout_s))
    with closing(psycopg.connect(postgresql.url)) as rows:
        rows.execute(INSERT, ("order 1",))
        rows.execute(f"PREPARE TRANSACTION 'tms:shop:{transaction.transaction_id}'")
    if then == "commit":
        client.transactions.commit(transaction.transaction_id)


class Connections:
    """One connection for each thread."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._here = threading.local()
        self._all: list[Any] = []

    def here(self) -> Any:
        if not hasattr(self._here, "connection"):
            self._here.connection = psycopg.connect(self._url)
            self._all.append(self._here.connection)
        return self._here.connection

    def participants(self) -> list[PostgresqlParticipant]:
        return [PostgresqlParticipant(self.here(), "shop")]

    def close(self) -> None:
        for each in self._all:
            each.close()


@pytest.fixture
def connections(postgresql: PostgresqlServer) -> Iterator[Connections]:
    with closing(Connections(postgresql.url)) as connections:
        yield connections


@pytest.fixture
def group(client: tms.Client) -> tms.TopicGroup:
    group = client.topic("orders").group("billing")
    group.create(retry_s=1)
    return group


def is_done(group: tms.TopicGroup) -> bool:
    state = group.show().state
    return state.open == state.unread == 0


def test_a_restart_before_the_transaction_of_the_dead_has_ended(
    client: tms.Client,
    group: tms.TopicGroup,
    postgresql: PostgresqlServer,
    connections: Connections,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its only slot waits for the lock of the prepared row, which only the worker can release."""
    die_prepared(client, postgresql)
    client.topic("orders").publish(b"order 1")

    @group.worker(transaction=True, participants=connections.participants)
    def bill(message: tms.GroupMessage, tx: tms.TransactionContext) -> None:
        connections.here().execute(INSERT, (message.payload.decode(),))

    with running(bill):
        wait_until(lambda: is_done(group))
    assert bills(postgresql) == ["order 1"]
    assert prepared(postgresql) == []
    assert "its program may have died" in caplog.text
    assert "0 committed, 1 rolled back" in caplog.text


def test_another_worker_that_dies_while_this_one_works(
    client: tms.Client,
    group: tms.TopicGroup,
    postgresql: PostgresqlServer,
    connections: Connections,
) -> None:
    begun = threading.Event()
    died = threading.Event()

    @group.worker(transaction=True, participants=connections.participants)
    def bill(message: tms.GroupMessage, tx: tms.TransactionContext) -> None:
        begun.set()
        died.wait()
        connections.here().execute(INSERT, (message.payload.decode(),))

    client.topic("orders").publish(b"order 1")
    with running(bill):
        begun.wait()
        die_prepared(client, postgresql)
        died.set()
        wait_until(lambda: is_done(group))
    assert bills(postgresql) == ["order 1"]


def test_what_was_committed_is_there_when_the_worker_has_started(
    client: tms.Client,
    group: tms.TopicGroup,
    postgresql: PostgresqlServer,
    connections: Connections,
) -> None:
    """Even if there is no message."""
    die_prepared(client, postgresql, then="commit")

    @group.worker(transaction=True, participants=connections.participants)
    def bill(message: tms.GroupMessage, tx: tms.TransactionContext) -> None: ...

    with running(bill):
        wait_until(lambda: bills(postgresql) == ["order 1"])


def test_a_worker_of_asyncio_recovers_too(
    client: tms.Client,
    group: tms.TopicGroup,
    postgresql: PostgresqlServer,
    server: ServerProcess,
    namespace: str,
) -> None:
    die_prepared(client, postgresql)
    client.topic("orders").publish(b"order 1")

    async def main() -> None:
        async with (
            await tms.aio.connect(server.url, namespace) as own,
            await psycopg.AsyncConnection.connect(postgresql.url) as rows,
        ):
            part = AsyncPostgresqlParticipant(rows, "shop")
            billing = own.topic("orders").group("billing")

            @billing.worker(transaction=True, participants=lambda: [part])
            async def bill(
                message: tms.aio.AsyncGroupMessage, tx: tms.aio.AsyncTransactionContext
            ) -> None:
                await rows.execute(INSERT, (message.payload.decode(),))

            working = asyncio.create_task(bill.run())
            await until(lambda: asyncio.to_thread(is_done, group))
            bill.stop()
            async with in_time():
                await working

    asyncio.run(main())
    assert bills(postgresql) == ["order 1"]
    assert prepared(postgresql) == []
