"""PostgreSQL rows and messages: both or neither, wherever the program is killed."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest

import tms
from tests.client.participant import Noting
from tests.participants.crashing import POINTS, crash
from tests.participants.postgresql_server import PostgresqlServer, find_programs
from tests.participants.recovering import recovered
from tests.servers.server_process import ServerProcess
from tms.client.groups.database_recovery import Recovered
from tms.postgresql import PostgresqlParticipant

PROGRAMS = find_programs()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROGRAMS is None, reason="PostgreSQL is not installed: apt-get install postgresql"
    ),
]

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresqlServer]:
    assert PROGRAMS is not None
    with PostgresqlServer(PROGRAMS) as postgresql:
        yield postgresql


@pytest.fixture
def connection(postgresql: PostgresqlServer) -> Iterator[Connection]:
    with closing(psycopg.connect(postgresql.url)) as connection:
        connection.execute("DROP TABLE IF EXISTS orders")
        connection.execute("CREATE TABLE orders (id SERIAL, name TEXT UNIQUE DEFERRABLE)")
        connection.commit()
        yield connection


@pytest.fixture
def part(connection: Connection) -> PostgresqlParticipant:
    return PostgresqlParticipant(connection, "test")


def rows(postgresql: PostgresqlServer) -> list[str]:
    with closing(psycopg.connect(postgresql.url)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM orders ORDER BY id")]


def prepared(postgresql: PostgresqlServer) -> list[str]:
    with closing(psycopg.connect(postgresql.url)) as connection:
        return [gid for (gid,) in connection.execute("SELECT gid FROM pg_prepared_xacts")]


def messages(client: tms.Client) -> list[str]:
    return [message.payload.decode() for message in client.topic("orders").poll(committed=True)]


def insert(connection: Connection, name: str) -> None:
    connection.execute("INSERT INTO orders (name) VALUES (%s)", (name,))


def test_rows_and_messages_are_committed_together(
    client: tms.Client,
    connection: Connection,
    part: PostgresqlParticipant,
    postgresql: PostgresqlServer,
) -> None:
    for name in ("one", "two"):
        with client.transaction(participants=[part]) as tx:
            insert(connection, name)
            client.topic("orders").publish(name.encode(), tx)
            tx.checkpoint()
            assert name not in rows(postgresql)

    assert rows(postgresql) == messages(client) == ["one", "two"]
    assert not connection.autocommit
    assert part.recover(client.transactions) == Recovered()


@pytest.mark.parametrize("verb", ["body", "changes", "persist"])
def test_what_fails_undoes_both(
    client: tms.Client, part: PostgresqlParticipant, postgresql: PostgresqlServer, verb: str
) -> None:
    tx = client.transaction(participants=[part, Noting(fails_at={verb})])
    with pytest.raises(LookupError), tx:  # noqa: PT012
        insert(part._connection, "one")
        client.topic("orders").publish(b"one", tx)
        if verb == "body":
            raise LookupError

    assert rows(postgresql) == messages(client) == prepared(postgresql) == []
    assert client.transactions.info(tx.transaction_id).status == "aborted"
    with client.transaction(participants=[part]):
        insert(part._connection, "two")
    assert rows(postgresql) == ["two"]


def test_a_constraint_that_is_checked_at_the_end_undoes_both(
    client: tms.Client,
    connection: Connection,
    part: PostgresqlParticipant,
    postgresql: PostgresqlServer,
) -> None:
    tx = client.transaction(participants=[part])
    with pytest.raises(psycopg.errors.UniqueViolation), tx:  # noqa: PT012
        connection.execute("SET CONSTRAINTS ALL DEFERRED")
        insert(connection, "one")
        insert(connection, "one")
        client.topic("orders").publish(b"one", tx)

    assert rows(postgresql) == messages(client) == prepared(postgresql) == []
    assert client.transactions.info(tx.transaction_id).status == "aborted"


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_leaves_both_or_neither(
    server: ServerProcess,
    client: tms.Client,
    part: PostgresqlParticipant,
    postgresql: PostgresqlServer,
    point: str,
) -> None:
    crash(server.url, client.namespace, "postgresql", postgresql.url, point)
    found = recovered(part, client)

    both = [point] if point in ("committed", "decided", "done") else []
    assert rows(postgresql) == messages(client) == both
    assert prepared(postgresql) == []
    assert len(found.committed) == (point == "committed")
    assert len(found.rolled_back) == (point == "persisted")
    assert part.recover(client.transactions) == Recovered()


def test_a_connection_that_breaks_behind_the_commit_is_recovered_from(
    client: tms.Client,
    connection: Connection,
    part: PostgresqlParticipant,
    postgresql: PostgresqlServer,
) -> None:
    class Breaking(Noting):
        def persist(self) -> None:
            _break(postgresql, connection)

    with client.transaction(participants=[part, Breaking()]) as tx:
        insert(connection, "one")
        client.topic("orders").publish(b"one", tx)

    assert tx.is_committed
    assert [type(error) for error in tx.suppressed] == [psycopg.errors.AdminShutdown]
    assert messages(client) == ["one"]
    with closing(psycopg.connect(postgresql.url)) as another:
        found = PostgresqlParticipant(another, "test").recover(client.transactions)
    assert found.committed == [tx.transaction_id]
    assert rows(postgresql) == ["one"]


@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_connection_that_breaks_before_the_commit_is_recovered_from(
    client: tms.Client,
    connection: Connection,
    part: PostgresqlParticipant,
    postgresql: PostgresqlServer,
    *,
    is_prepared: bool,
) -> None:
    class Breaking(Noting):
        def persist(self) -> None:
            _break(postgresql, connection)
            raise LookupError

    participants: list[tms.TransactionAware] = [part, Breaking()]
    if not is_prepared:
        participants.reverse()
    tx = client.transaction(participants=participants)
    with pytest.raises(LookupError), tx:  # noqa: PT012
        insert(connection, "one")
        client.topic("orders").publish(b"one", tx)

    with closing(psycopg.connect(postgresql.url)) as another:
        found = PostgresqlParticipant(another, "test").recover(client.transactions)
    assert len(found.rolled_back) == is_prepared
    assert rows(postgresql) == messages(client) == prepared(postgresql) == []


def _break(postgresql: PostgresqlServer, connection: Connection) -> None:
    with closing(psycopg.connect(postgresql.url)) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))


@pytest.mark.parametrize("since", ["before", "within"])
def test_a_connection_in_pipeline_mode_is_refused(
    client: tms.Client,
    connection: Connection,
    part: PostgresqlParticipant,
    postgresql: PostgresqlServer,
    since: str,
) -> None:
    """The answer to PREPARE is not awaited: a deferred constraint would fail unseen."""
    tx = client.transaction(participants=[part])
    with ExitStack() as stack:
        if since == "before":
            stack.enter_context(connection.pipeline())
        with pytest.raises(RuntimeError, match="pipeline mode"), tx:  # noqa: PT012
            stack.enter_context(connection.pipeline())
            connection.execute("SET CONSTRAINTS ALL DEFERRED")
            insert(connection, "one")
            insert(connection, "one")
            client.topic("orders").publish(b"one", tx)

    assert rows(postgresql) == messages(client) == prepared(postgresql) == []
    assert client.transactions.info(tx.transaction_id).status == "aborted"
    with client.transaction(participants=[part]):
        insert(connection, "two")
    assert rows(postgresql) == ["two"]


def test_who_joins_does_not_undo_rows_that_the_first_has_prepared(
    server: ServerProcess, client: tms.Client, postgresql: PostgresqlServer, connection: Connection
) -> None:
    first = PostgresqlParticipant(connection, "test")
    refused: list[BaseException] = []

    class AnotherJoins(Noting):
        def persist(self) -> None:
            """Join after the first participant has prepared."""
            with (
                tms.connect(server.url, client.namespace) as other_client,
                closing(psycopg.connect(postgresql.url)) as other,
            ):
                part = PostgresqlParticipant(other, "test")
                joined = other_client.transaction(
                    owner="job", sequence=1, if_open="join", participants=[part]
                )
                try:
                    with joined:
                        insert(other, "of the second")
                except RuntimeError as error:
                    refused.append(error)
            assert len(prepared(postgresql)) == 1

    tx = client.transaction(owner="job", sequence=1, participants=[first, AnotherJoins()])
    with pytest.raises(tms.TransactionNotInProgress), tx:  # noqa: PT012  the second has aborted it
        insert(connection, "of the first")
        client.topic("orders").publish(b"one", tx)

    assert "another program has joined" in str(refused[0])
    assert rows(postgresql) == messages(client) == prepared(postgresql) == []


def test_many_may_recover_at_once(
    client: tms.Client, connection: Connection, postgresql: PostgresqlServer
) -> None:
    class Dies(PostgresqlParticipant):
        def post_commit(self) -> None:
            """Do not get there."""

    part = Dies(connection, "test")
    for number in range(8):
        with client.transaction(participants=[part]):
            insert(connection, str(number))
    assert len(prepared(postgresql)) == 8
    all_at_once = threading.Barrier(8)

    def recover(_: int) -> Recovered:
        with closing(psycopg.connect(postgresql.url)) as own:
            all_at_once.wait()
            return PostgresqlParticipant(own, "test").recover(client.transactions)

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(recover, range(8)))

    assert prepared(postgresql) == []
    assert sorted(rows(postgresql)) == [str(number) for number in range(8)]
    assert all(one.conflicting == one.not_permitted == [] for one in found)


def test_one_prepared_by_another_role_stops_none_behind_it(
    client: tms.Client, connection: Connection, postgresql: PostgresqlServer
) -> None:
    class Dies(PostgresqlParticipant):
        def post_commit(self) -> None:
            """Do not get there."""

    with client.transaction(participants=[Dies(connection, "test")]) as of_another_role:
        insert(connection, "of another role")
    connection.execute("CREATE ROLE clerk LOGIN")
    connection.execute("GRANT ALL ON orders, orders_id_seq TO clerk")
    connection.commit()
    try:
        with closing(psycopg.connect(f"{postgresql.url} user=clerk")) as clerks:
            part = Dies(clerks, "test")
            with client.transaction(participants=[part]) as own:
                insert(clerks, "own")
            found = part.recover(client.transactions)
            assert found == Recovered(
                committed=[own.transaction_id], not_permitted=[of_another_role.transaction_id]
            )
            assert rows(postgresql) == ["own"]
        found = PostgresqlParticipant(connection, "test").recover(client.transactions)
        assert found == Recovered(committed=[of_another_role.transaction_id])
    finally:
        connection.rollback()
        connection.execute("DROP OWNED BY clerk")
        connection.execute("DROP ROLE clerk")
        connection.commit()


def test_what_is_anothers_or_forgotten_is_left(
    client: tms.Client,
    connection: Connection,
    part: PostgresqlParticipant,
    postgresql: PostgresqlServer,
) -> None:
    gids = ["tms:test:5", "tms:testing:5", "other"]
    for gid in gids:
        insert(connection, gid)
        connection.execute(f"PREPARE TRANSACTION '{gid}'")
    try:
        assert part.recover(client.transactions) == Recovered(unknown=[5])
        assert sorted(prepared(postgresql)) == sorted(gids)
    finally:
        connection.autocommit = True
        for gid in gids:
            connection.execute(f"ROLLBACK PREPARED '{gid}'")


def test_a_commit_within_the_transaction_is_an_error(
    client: tms.Client,
    connection: Connection,
    part: PostgresqlParticipant,
    postgresql: PostgresqlServer,
) -> None:
    tx = client.transaction(participants=[part])
    with pytest.raises(RuntimeError, match="committed or rolled back within"), tx:  # noqa: PT012
        insert(connection, "one")
        client.topic("orders").publish(b"one", tx)
        connection.commit()
        insert(connection, "two")

    assert messages(client) == []
    assert rows(postgresql) == ["one"]  # the program committed this row itself


def test_what_cannot_take_part_is_refused(
    client: tms.Client,
    connection: Connection,
    part: PostgresqlParticipant,
    postgresql: PostgresqlServer,
) -> None:
    with pytest.raises(ValueError, match="a name must have"):
        PostgresqlParticipant(connection, "a:b")
    insert(connection, "own")
    with pytest.raises(RuntimeError, match="already"), client.transaction(participants=[part]):
        pass
    connection.commit()  # the refusal left the program's own row alone
    assert rows(postgresql) == ["own"]


def test_a_server_that_prepares_nothing_is_refused(client: tms.Client) -> None:
    assert PROGRAMS is not None
    with (
        PostgresqlServer(PROGRAMS, prepared_max=0) as postgresql,
        closing(psycopg.connect(postgresql.url)) as connection,
    ):
        part = PostgresqlParticipant(connection, "test")
        with pytest.raises(RuntimeError, match="max_prepared_transactions"):
            part.recover(client.transactions)  # as the program starts
        tx = client.transaction(participants=[part])
        with pytest.raises(RuntimeError, match="max_prepared_transactions"), tx:
            pass
        assert client.transactions.info(tx.transaction_id).status == "aborted"
