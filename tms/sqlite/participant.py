"""The participant; `tms.sqlite` describes its guarantees."""

import sqlite3
from contextlib import closing
from enum import Enum
from pathlib import Path

from tms.client.groups.database_recovery import KnownOutcomes, PartEnd, Recovered, end_prepared
from tms.core.values.transaction import Transaction
from tms.sqlite.changes import (
    begin_recording,
    check_recordable,
    end_recording,
    repeat_changes,
)
from tms.sqlite.journal import PreparedRows, make_marks, mark

_SYNCHRONOUS_FULL = 2


class _Stage(Enum):
    IDLE = "idle"
    OPEN = "open"
    ENDING = "ending"
    PREPARED = "prepared"


class SqliteParticipant:
    """One connection's part in a transaction. Use the connection as usual in the meantime.

    But do not commit or roll back, nor use `with connection`: that ends the transaction with an
    error, and what was committed remains. With `tms.aio`, other threads than the loop's call
    participants: open the connection with `check_same_thread=False`.
    """

    def __init__(self, connection: sqlite3.Connection, name: str = "sqlite") -> None:
        """Take part with `connection`. Raises `ValueError` if the database is in memory."""
        self.name = name
        self._connection = connection
        file = next(
            row[2] for row in connection.execute("PRAGMA database_list") if row[1] == "main"
        )
        if not file:
            raise ValueError("the database is in memory: it would be lost in a crash")
        self._path = Path(file)
        self._journal = PreparedRows(self._path)
        self._stage = _Stage.IDLE
        self._has_begun = False
        """Whether the last start left something to roll back."""
        self._has_savepoint = False
        self._transaction_id = 0
        self._schema_version = 0
        self._recursive_triggers = self._pragma("recursive_triggers")

    def close(self) -> None:
        """Close the journal; the connection stays open."""
        self._journal.close()

    def start(self, tx: Transaction) -> None:
        """Begin, and keep other writers out until the end.

        Raises `RuntimeError` if the connection is in a transaction or has attached databases, or if
        `recover` must be run first; `ValueError` for a database that cannot take part;
        `sqlite3.OperationalError` if another program writes for longer than the connection's
        timeout.
        """
        connection = self._connection
        self._has_begun = False
        if self._stage is _Stage.PREPARED:
            raise RuntimeError("run recover first: it is not known how the last transaction ended")
        if connection.in_transaction:
            raise RuntimeError("the connection is in a transaction already")
        self._check_attached()
        if self._pragma("main.synchronous") < _SYNCHRONOUS_FULL:
            connection.execute("PRAGMA main.synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        self._has_begun, self._stage = True, _Stage.OPEN
        self._transaction_id = tx.transaction_id
        check_recordable(connection)
        make_marks(connection)
        if entries := self._journal.left(connection):
            raise RuntimeError(f"run recover first: transaction {entries[0]} was left by a crash")
        self._recursive_triggers = self._pragma("recursive_triggers")
        connection.execute("PRAGMA recursive_triggers = ON")
        begin_recording(connection)
        self._schema_version = self._pragma("main.schema_version")
        # After a commit of the connection it no longer exists.
        connection.execute("SAVEPOINT tms")
        self._has_savepoint = True

    def update(self, tx: Transaction) -> None:
        """Do nothing: for the database it is one transaction."""

    def changes(self) -> tuple[bytes, ...]:
        """Return nothing: SQLite has one writer at a time."""
        self._stage = _Stage.ENDING
        return ()

    def persist(self) -> None:
        """Write the changes to the journal, unless it is for a checkpoint.

        Raises `RuntimeError` if the connection was committed or rolled back in the meantime, the
        schema was changed, or a database was attached, and `sqlite3.IntegrityError` if a foreign
        key refers to nothing.
        """
        if self._stage is not _Stage.ENDING:
            return
        connection = self._connection
        self._end_savepoint()
        if self._pragma("main.schema_version") != self._schema_version:
            raise RuntimeError("the schema was changed within the transaction")
        self._check_attached()
        statements = end_recording(connection)
        if (
            self._pragma("foreign_keys")
            and connection.execute("PRAGMA foreign_key_check").fetchone()
        ):
            # The database checks a deferred one only at the commit, which is too late.
            raise sqlite3.IntegrityError("FOREIGN KEY constraint failed")
        if statements:
            mark(connection, self._transaction_id)
            self._journal.put(self._transaction_id, statements)
        self._stage = _Stage.PREPARED

    def post_commit(self) -> None:
        """Commit. If this fails, `recover` makes the changes later."""
        try:
            self._connection.commit()
        except sqlite3.Error:
            self._connection.rollback()
            raise
        finally:
            self._end()
        self._journal.remove(self._transaction_id)

    def rollback(self) -> None:
        """Roll back. Raises `RuntimeError` if the connection was committed in the meantime."""
        if self._has_begun:
            self._undo()

    def _undo(self) -> None:
        was_prepared = self._stage is _Stage.PREPARED
        try:
            if self._has_savepoint:
                self._end_savepoint()
        finally:
            self._connection.rollback()
            self._end()
        if was_prepared:
            self._journal.remove(self._transaction_id)

    def recover(self, outcomes: KnownOutcomes) -> Recovered:
        """Commit or roll back what crashes left in the journal, and return the outcomes.

        `outcomes` is `client.transactions`. Run it when a program starts, before any other write,
        and again while a transaction is in progress. Raises `sqlite3.OperationalError` if another
        program writes for long.
        """
        if self._stage is _Stage.PREPARED:
            return self._end_own(outcomes)
        # The recorded changes already include the effects of foreign keys and triggers.
        with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            make_marks(connection)
            entries = self._journal.left(connection)
            connection.execute("COMMIT")

            def commit(transaction_id: int) -> PartEnd:
                connection.execute("BEGIN IMMEDIATE")
                if transaction_id not in self._journal.left(connection):
                    connection.execute("ROLLBACK")  # another program was faster
                    return PartEnd.YES
                if not repeat_changes(connection, self._journal.get(transaction_id)):
                    connection.execute("ROLLBACK")
                    return PartEnd.CONFLICTS
                mark(connection, transaction_id)
                connection.execute("COMMIT")
                return self._forget(transaction_id)

            return end_prepared(outcomes, entries, commit=commit, roll_back=self._forget)

    def _forget(self, transaction_id: int) -> PartEnd:
        self._journal.remove(transaction_id)
        return PartEnd.YES

    def _end_own(self, outcomes: KnownOutcomes) -> Recovered:
        """Commit or roll back the transaction whose end this participant does not know."""

        def commit(_: int) -> PartEnd:
            self.post_commit()
            return PartEnd.YES

        def roll_back(_: int) -> PartEnd:
            self._undo()
            return PartEnd.YES

        return end_prepared(outcomes, [self._transaction_id], commit=commit, roll_back=roll_back)

    def _check_attached(self) -> None:
        """Raise `RuntimeError` if the connection has databases that are not recorded."""
        for _, name, file in self._connection.execute("PRAGMA database_list").fetchall():
            if name not in ("main", "temp"):
                raise RuntimeError(
                    f"the database {name} ({file or 'in memory'}) is attached, and its rows could "
                    "not be repaired after a crash: detach it, or use another connection for it"
                )

    def _end_savepoint(self) -> None:
        self._has_savepoint = False
        try:
            self._connection.execute("RELEASE tms")
        except sqlite3.OperationalError:
            raise RuntimeError(
                "the connection was committed or rolled back within the transaction"
            ) from None

    def _end(self) -> None:
        self._stage = _Stage.IDLE
        self._has_begun = False
        self._connection.execute(f"PRAGMA recursive_triggers = {self._recursive_triggers}")

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])
