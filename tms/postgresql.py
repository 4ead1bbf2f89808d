"""PostgreSQL rows and messages together: a participant of a transaction, without an outbox.

    part = PostgresqlParticipant(connection, "shop")
    part.recover(client.transactions)          # when the program starts; a worker does it itself
    with client.transaction(participants=[part]) as tx:
        connection.execute("INSERT INTO orders …")
        topic.publish(b"…", tx)

It is a two-phase commit with TMS as the coordinator. The rows are prepared (`PREPARE TRANSACTION`)
before TMS commits, and TMS's durable commit is the decision: if it happened, both rows and messages
are kept, otherwise neither. After a crash or a lost connection:

| it happens | rows | messages |
| --- | --- | --- |
| before the rows are prepared | rolled back by PostgreSQL | never seen: it times out |
| after that, before TMS has committed | prepared; `recover` rolls back | never seen: it times out |
| after TMS has committed | prepared; `recover` commits | seen |
| after the rows are committed | there | seen |

A crash of PostgreSQL or TMS does not change this: both keep their part on disk.

Limits: For a moment, or after a crash until `recover`, a reader may see the messages before the
rows, but never the rows without the messages. Prepared rows hold their locks until they are
decided. `recover` must run before TMS forgets the transaction, after 200,000 later ones: a
forgotten one is reported as `unknown` and left for a person to decide, never guessed.

If several programs join one transaction, only the first that prepares can have rows in it.
Another's commit raises `RuntimeError`, and does not affect the rows of the first.

Needs the package's extra `postgresql`, and PostgreSQL's setting `max_prepared_transactions` above
zero. A session that has used temporary tables in the transaction cannot prepare it, and neither can
a connection in pipeline mode, because it does not wait for answers.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import closing
from time import monotonic, sleep
from typing import Any, LiteralString, NamedTuple, TypeVar

from psycopg import AsyncConnection, Connection, errors
from psycopg.pq import PipelineStatus
from psycopg.pq import TransactionStatus as Status
from psycopg.sql import SQL, Composed, Literal

from tms.client.groups.database_recovery import (
    KnownOutcomes,
    PartEnd,
    Recover,
    Recovered,
    end_prepared,
)
from tms.core.values.transaction import Transaction

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)
_PREPARED = "PREPARE TRANSACTION"
BUSY_S_MAX = 10.0
"""How long to wait for a prepared transaction that another session is ending."""
_BUSY_LOOK_S = 0.05

Result = TypeVar("Result")


class PostgresqlParticipant:
    """One connection's part in a transaction. Use the connection as usual in the meantime.

    But do not commit or roll back: that ends the transaction with an error.
    """

    def __init__(self, connection: Connection[Any], name: str) -> None:
        """Take part with `connection`, which must not be in autocommit mode.

        `name` is part of the names under which transactions are prepared (`tms:NAME:ID`). It must
        differ between all TMS stores and databases that use the same PostgreSQL server: `recover`
        ends every transaction under its name. Raises `ValueError`.
        """
        if not _NAME.fullmatch(name):
            raise ValueError("a name must have 1 to 100 letters, digits, _, - or dots")
        self.name = name
        self._connection = connection
        self._transaction_id = 0
        self._has_begun = False
        self._is_ending = False
        self._may_be_prepared = False

    def start(self, tx: Transaction) -> None:
        """Begin. Raises `RuntimeError` if PostgreSQL or the connection cannot take part."""
        connection = self._connection
        self._has_begun = False
        self._check_waits_for_answers()
        if connection.autocommit or connection.info.transaction_status is not Status.IDLE:
            raise RuntimeError("the connection is in autocommit mode, or already in a transaction")
        self._transaction_id = tx.transaction_id
        self._has_begun, self._is_ending, self._may_be_prepared = True, False, False
        self._check_server_prepares()
        # After a commit of the connection it no longer exists.
        connection.execute("SAVEPOINT tms")

    def update(self, tx: Transaction) -> None:
        """Do nothing: for the database it is one transaction."""

    def changes(self) -> tuple[bytes, ...]:
        """Return nothing: PostgreSQL detects conflicts itself."""
        self._is_ending = True
        return ()

    def persist(self) -> None:
        """Prepare the rows, unless it is for a checkpoint.

        Raises `RuntimeError` if the connection was committed or rolled back in the meantime, is in
        pipeline mode, or if another program has prepared its rows of the same transaction; and
        PostgreSQL's errors, such as a violated deferred constraint.
        """
        if not self._is_ending:
            return
        self._check_waits_for_answers()
        try:
            self._connection.execute("RELEASE SAVEPOINT tms")
        except errors.InvalidSavepointSpecification:
            raise RuntimeError(
                "the connection was committed or rolled back within the transaction"
            ) from None
        self._prepare()

    def _prepare(self) -> None:
        gid = Literal(self._gid(self._transaction_id))
        self._may_be_prepared = True
        try:
            done = self._connection.execute(SQL("PREPARE TRANSACTION {}").format(gid))
        except errors.DuplicateObject:
            self._may_be_prepared = False  # those rows belong to another program
            raise RuntimeError(
                "another program has joined the transaction and prepared its rows"
            ) from None
        except errors.Error as error:
            if error.sqlstate is not None:  # PostgreSQL has said that it prepared nothing
                self._may_be_prepared = False
            raise
        if done.statusmessage != _PREPARED:
            self._may_be_prepared = False
            raise RuntimeError(f"PostgreSQL did not prepare the rows: {done.statusmessage}")

    def post_commit(self) -> None:
        """Commit the prepared rows. If this fails, `recover` does so later."""
        self._decide("COMMIT", self._transaction_id)

    def rollback(self) -> None:
        """Roll back the rows, prepared or not."""
        if not self._has_begun:
            return
        if not self._may_be_prepared and self._connection.closed:
            return  # PostgreSQL rolls back what was not prepared
        self._connection.rollback()
        if self._may_be_prepared:
            self._decide("ROLLBACK", self._transaction_id)

    def recover(self, outcomes: KnownOutcomes) -> Recovered:
        """Commit or roll back what crashes and lost connections left prepared.

        Return the outcomes. `outcomes` is `client.transactions`. Run it when a program starts, and
        again while a transaction is in progress. Any number of programs may run it at once. The
        connection must be idle. Raises `RuntimeError` if PostgreSQL or the connection cannot take
        part, and `psycopg.errors.ObjectNotInPrerequisiteState` if another session takes longer than
        10 s to end one of them.
        """
        self._check_waits_for_answers()
        self._connection.rollback()
        try:
            self._check_server_prepares()
        finally:
            self._connection.rollback()
        prefix = self._gid("")
        query = """SELECT gid FROM pg_prepared_xacts
            WHERE database = current_database() AND starts_with(gid, %s)"""
        rows = self._connection.execute(query, (prefix,)).fetchall()
        self._connection.rollback()
        found = (str(row[0]).removeprefix(prefix) for row in rows)
        ids = sorted(int(text) for text in found if text.isdigit())

        return end_prepared(
            outcomes,
            ids,
            commit=lambda transaction_id: self._try("COMMIT", transaction_id),
            roll_back=lambda transaction_id: self._try("ROLLBACK", transaction_id),
        )

    def recovery(self) -> Recover:
        """Return a function like `recover` that uses a connection of its own, made like this one.

        A group's worker runs it, so this connection may be in use at that time.
        """
        info = self._connection.info
        parameters: dict[str, Any] = {"connect_timeout": "10", **info.get_parameters()}
        if info.password:
            parameters["password"] = info.password

        def recover(outcomes: KnownOutcomes) -> Recovered:
            with closing(Connection.connect(**parameters)) as connection:
                return PostgresqlParticipant(connection, self.name).recover(outcomes)

        return recover

    def _try(self, verb: LiteralString, transaction_id: int) -> PartEnd:
        try:
            self._decide(verb, transaction_id)
        except errors.InsufficientPrivilege:
            return PartEnd.NOT_PERMITTED
        return PartEnd.YES

    def _gid(self, transaction_id: int | str) -> str:
        return f"tms:{self.name}:{transaction_id}"

    def _check_waits_for_answers(self) -> None:
        if self._connection.pgconn.pipeline_status != PipelineStatus.OFF:
            raise RuntimeError(
                "the connection is in pipeline mode: leave it before the transaction"
            )

    def _check_server_prepares(self) -> None:
        setting = self._connection.execute("SHOW max_prepared_transactions").fetchone()
        if setting is None or int(setting[0]) == 0:
            raise RuntimeError("set max_prepared_transactions in postgresql.conf, and restart it")

    def _decide(self, verb: LiteralString, transaction_id: int) -> None:
        """End a prepared transaction, if no other session did and it was prepared at all."""
        statement = SQL(f"{verb} PREPARED {{}}").format(Literal(self._gid(transaction_id)))
        give_up_at = monotonic() + BUSY_S_MAX
        self._connection.autocommit = True  # it cannot be run within a transaction
        try:
            while not self._is_decided(statement, is_last=monotonic() >= give_up_at):
                sleep(_BUSY_LOOK_S)
        finally:
            if not self._connection.closed:
                self._connection.autocommit = False

    def _is_decided(self, statement: Composed, *, is_last: bool) -> bool:
        """End it, and return whether it has ended; False while another session is ending it."""
        try:
            self._connection.execute(statement)
        except errors.UndefinedObject:
            return True
        except errors.ObjectNotInPrerequisiteState:
            if is_last:
                raise
            return False
        return True


class AsyncPostgresqlParticipant(PostgresqlParticipant):
    """The same for an asyncio connection, in a transaction of `tms.aio`.

    `recover` is for programs with an ordinary connection: run it when the program starts.
    """

    def __init__(self, connection: AsyncConnection[Any], name: str) -> None:
        """Take part with `connection`, in the running event loop. Raises as its base class."""
        as_threads_use_it: Any = _FromThreads(connection, asyncio.get_running_loop())
        super().__init__(as_threads_use_it, name)


class _Answer(NamedTuple):
    """The complete answer to a statement."""

    statusmessage: str | None
    rows: list[Any]

    def fetchone(self) -> Any:
        return self.rows[0] if self.rows else None

    def fetchall(self) -> list[Any]:
        return self.rows


class _FromThreads:
    """An event loop's connection for use in a thread: `tms.aio` calls participants in one."""

    def __init__(self, connection: AsyncConnection[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._connection = connection
        self._loop = loop
        self.info = connection.info
        self.pgconn = connection.pgconn

    @property
    def closed(self) -> bool:
        return self._connection.closed

    @property
    def autocommit(self) -> bool:
        return self._connection.autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self._call(lambda: self._connection.set_autocommit(value))

    def rollback(self) -> None:
        self._call(self._connection.rollback)

    def execute(self, query: Any, parameters: tuple[Any, ...] | None = None) -> _Answer:
        async def execute() -> _Answer:
            cursor = await self._connection.execute(query, parameters)
            rows = [] if cursor.description is None else await cursor.fetchall()
            return _Answer(cursor.statusmessage, rows)

        return self._call(execute)

    def _call(self, function: Callable[[], Awaitable[Result]]) -> Result:
        async def call() -> Result:
            return await function()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()
