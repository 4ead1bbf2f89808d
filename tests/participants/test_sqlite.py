"""SQLite rows and messages: both or neither, wherever the program is killed."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import tms
from tests.client.participant import Noting
from tests.participants.crashing import POINTS, crash
from tests.participants.recovering import recovered
from tests.servers.server_process import ServerProcess
from tms.client.groups.database_recovery import Recovered
from tms.sqlite import SqliteParticipant


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT UNIQUE)")
        connection.commit()
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=0.2)) as connection:
        yield connection


@pytest.fixture
def part(connection: sqlite3.Connection) -> Iterator[SqliteParticipant]:
    with closing(SqliteParticipant(connection)) as part:
        yield part


def rows(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM orders ORDER BY id")]


def messages(client: tms.Client) -> list[str]:
    return [message.payload.decode() for message in client.topic("orders").poll(committed=True)]


def insert(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("INSERT INTO orders (name) VALUES (?)", (name,))


def test_rows_and_messages_are_committed_together(
    client: tms.Client, connection: sqlite3.Connection, part: SqliteParticipant, path: Path
) -> None:
    for name in ("one", "two"):
        with client.transaction(participants=[part]) as tx:
            insert(connection, name)
            client.topic("orders").publish(name.encode(), tx)
            tx.checkpoint()
            assert name not in rows(path)

    assert rows(path) == messages(client) == ["one", "two"]
    assert part.recover(client.transactions) == Recovered()
    # Outside of a transaction the connection works as before.
    insert(connection, "three")
    connection.rollback()
    assert rows(path) == ["one", "two"]


def test_an_error_in_the_body_undoes_both(
    client: tms.Client, connection: sqlite3.Connection, part: SqliteParticipant, path: Path
) -> None:
    with pytest.raises(LookupError), client.transaction(participants=[part]) as tx:  # noqa: PT012
        insert(connection, "one")
        client.topic("orders").publish(b"one", tx)
        raise LookupError

    assert rows(path) == messages(client) == []
    assert client.transactions.info(tx.transaction_id).status == "aborted"
    assert part.recover(client.transactions) == Recovered()


@pytest.mark.parametrize("verb", ["changes", "persist"])
def test_another_participant_that_fails_undoes_both(
    client: tms.Client, part: SqliteParticipant, path: Path, verb: str
) -> None:
    connection = part._connection
    tx = client.transaction(participants=[part, Noting(fails_at={verb})])
    with pytest.raises(LookupError), tx:  # noqa: PT012
        insert(connection, "one")
        client.topic("orders").publish(b"one", tx)

    assert rows(path) == messages(client) == []
    assert client.transactions.info(tx.transaction_id).status == "aborted"
    with client.transaction(participants=[part]):
        insert(connection, "one")
    assert rows(path) == ["one"]


def test_a_commit_that_is_refused_undoes_both(
    client: tms.Client, connection: sqlite3.Connection, part: SqliteParticipant, path: Path
) -> None:
    topic = client.topic("orders")
    topic.publish(b"first")
    billing = topic.subscription("billing")
    billing.create()
    runs = 0

    def work(tx: tms.TransactionContext) -> None:
        nonlocal runs
        runs += 1
        message = next(billing.poll(tx=tx))
        insert(connection, message.payload.decode())
        billing.advance(message, tx)
        if runs == 1:  # another consumer moves the position that this one is about to move
            other = topic.subscription("billing")
            other.advance(next(other.poll()))
            topic.publish(b"second")

    client.run_in_transaction(work, participants=[part])

    assert (runs, rows(path)) == (2, ["second"])


@pytest.mark.parametrize(
    "point",
    [pytest.param(each, marks=[pytest.mark.slow] * (each != "decided")) for each in POINTS],
)
def test_a_crash_leaves_both_or_neither(
    server: ServerProcess,
    client: tms.Client,
    part: SqliteParticipant,
    path: Path,
    point: str,
) -> None:
    crash(server.url, client.namespace, "sqlite", str(path), point)
    is_left = point in ("persisted", "committed")
    if is_left:
        with (
            pytest.raises(RuntimeError, match="run recover first"),
            client.transaction(participants=[part]),
        ):
            pass
    found = recovered(part, client)

    both = [point] if point in ("committed", "decided", "done") else []
    assert rows(path) == messages(client) == both
    assert len(found.committed) == (point == "committed")
    assert len(found.rolled_back) == (point == "persisted")
    assert part.recover(client.transactions) == Recovered()


@pytest.mark.slow
def test_what_another_program_changed_since_is_not_overwritten(
    server: ServerProcess, client: tms.Client, part: SqliteParticipant, path: Path
) -> None:
    crash(server.url, client.namespace, "sqlite", str(path), "committed")
    with closing(sqlite3.connect(path)) as connection:
        insert(connection, "mine")  # takes the id of the missing row
        connection.commit()
    found = part.recover(client.transactions)
    assert len(found.conflicting) == 1
    assert rows(path) == ["mine"]

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM orders")
        connection.commit()
    assert len(part.recover(client.transactions).committed) == 1
    assert rows(path) == ["committed"]


def test_a_transaction_whose_end_is_not_known_is_settled_later(
    client: tms.Client,
    connection: sqlite3.Connection,
    part: SqliteParticipant,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remote = type(client._client._services.transactions)
    commit = remote.commit

    async def carried_out_without_an_answer(*arguments: object) -> None:
        await commit(*arguments)  # type: ignore[arg-type]
        raise tms.OutcomeUnknown

    async def away(*arguments: object) -> None:
        raise tms.ServerUnreachable

    with monkeypatch.context() as broken:
        broken.setattr(remote, "commit", carried_out_without_an_answer)
        broken.setattr(remote, "info", away)
        broken.setattr(client._client, "_commit_for_s", 0.1)
        with pytest.raises(tms.OutcomeUnknown), client.transaction(participants=[part]) as tx:  # noqa: PT012
            insert(connection, "one")
            client.topic("orders").publish(b"one", tx)
    assert rows(path) == []
    with (
        pytest.raises(RuntimeError, match="run recover first"),
        client.transaction(participants=[part]),
    ):
        pass

    assert part.recover(client.transactions).committed == [tx.transaction_id]
    assert rows(path) == messages(client) == ["one"]
    assert part.recover(client.transactions) == Recovered()


def test_a_commit_within_the_transaction_is_an_error(
    client: tms.Client, connection: sqlite3.Connection, part: SqliteParticipant, path: Path
) -> None:
    tx = client.transaction(participants=[part])
    with pytest.raises(RuntimeError, match="committed or rolled back within"), tx:  # noqa: PT012
        insert(connection, "one")
        client.topic("orders").publish(b"one", tx)
        connection.commit()
        insert(connection, "two")

    assert messages(client) == []
    assert rows(path) == ["one"]  # the program committed this row itself
    assert client.transactions.info(tx.transaction_id).status in ("aborted", "invalid")


def test_what_cannot_take_part_is_refused(
    client: tms.Client, connection: sqlite3.Connection, part: SqliteParticipant, path: Path
) -> None:
    with closing(sqlite3.connect(":memory:")) as memory, pytest.raises(ValueError, match="memory"):
        SqliteParticipant(memory)

    insert(connection, "own")
    with pytest.raises(RuntimeError, match="already"), client.transaction(participants=[part]):
        pass
    connection.commit()  # the refusal left the program's own row alone
    assert rows(path) == ["own"]

    with pytest.raises(RuntimeError, match="schema"), client.transaction(participants=[part]):
        connection.execute("CREATE TABLE more (id)")
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with (
            pytest.raises(sqlite3.OperationalError, match="locked"),
            client.transaction(participants=[part]),
        ):
            pass
    connection.execute("CREATE VIRTUAL TABLE words USING fts5(word)")
    with pytest.raises(ValueError, match="virtual"), client.transaction(participants=[part]):
        pass


def test_a_foreign_key_that_leads_nowhere_is_noticed_before_the_commit(
    client: tms.Client, connection: sqlite3.Connection, part: SqliteParticipant, path: Path
) -> None:
    connection.execute(
        """CREATE TABLE lines (
            orders INTEGER REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)"""
    )
    connection.execute("PRAGMA foreign_keys = ON")
    tx = client.transaction(participants=[part])
    with pytest.raises(sqlite3.IntegrityError), tx:  # noqa: PT012
        connection.execute("INSERT INTO lines VALUES (5)")
        client.topic("orders").publish(b"one", tx)
    assert messages(client) == []


@pytest.mark.parametrize("since", ["before", "within"])
def test_a_connection_with_an_attached_database_is_refused(
    client: tms.Client, part: SqliteParticipant, tmp_path: Path, since: str
) -> None:
    """A crash after the commit would lose its rows, because the journal has only those of main."""
    connection, other = part._connection, tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as made:
        made.execute("CREATE TABLE bills (name TEXT)")
    if since == "before":
        connection.execute("ATTACH ? AS other", (str(other),))
    tx = client.transaction(participants=[part])
    with pytest.raises(RuntimeError, match=r"the database other .*detach it"), tx:  # noqa: PT012
        if since == "within":
            connection.execute("ATTACH ? AS other", (str(other),))
        connection.execute("INSERT INTO other.bills VALUES ('tea')")
        client.topic("orders").publish(b"tea", tx)

    assert connection.execute("SELECT * FROM other.bills").fetchall() == []
    assert list(client.topic("orders").poll(committed=True)) == []
    connection.execute("DETACH other")
    with client.transaction(participants=[part]):
        connection.execute("INSERT INTO orders (name) VALUES ('tea')")
