"""The journal beside a database: decided changes, durable until they are made.

A mark in the database, in the same transaction as the rows, says that a transaction's changes were
made. So the journal may be cleared later, or not at all after a crash.
"""

import sqlite3
from pathlib import Path

import msgspec

SUFFIX = "-tms"


class PreparedRows:
    """The changes of prepared transactions, by id."""

    def __init__(self, database: Path) -> None:
        """Open the database's journal in a file; create it if there is none."""
        # Any thread that ends a transaction writes here, one at a time.
        self._file = sqlite3.connect(
            f"{database}{SUFFIX}", isolation_level=None, check_same_thread=False
        )
        self._file.execute("PRAGMA synchronous = EXTRA")
        self._file.execute(
            "CREATE TABLE IF NOT EXISTS prepared (transaction_id INTEGER PRIMARY KEY, changes BLOB)"
        )

    def put(self, transaction_id: int, statements: list[str]) -> None:
        """Store changes; durable on return."""
        row = (transaction_id, msgspec.json.encode(statements))
        self._file.execute("INSERT INTO prepared VALUES (?, ?)", row)

    def get(self, transaction_id: int) -> list[str]:
        """Return the changes of a transaction."""
        [(changes,)] = self._file.execute(
            "SELECT changes FROM prepared WHERE transaction_id = ?", (transaction_id,)
        )
        return msgspec.json.decode(changes, type=list[str])

    def remove(self, transaction_id: int) -> None:
        """Forget a transaction, if it exists."""
        self._file.execute("DELETE FROM prepared WHERE transaction_id = ?", (transaction_id,))

    def left(self, connection: sqlite3.Connection) -> list[int]:
        """Return the transactions whose changes are not in the database.

        The connection holds the database's write lock, so nobody else is about to make them.
        Transactions whose changes are in the database are forgotten.
        """
        rows = self._file.execute("SELECT transaction_id FROM prepared ORDER BY 1").fetchall()
        marks = connection.execute("SELECT transaction_id FROM main.tms_transactions").fetchall()
        made = {transaction_id for (transaction_id,) in marks}
        for (transaction_id,) in rows:
            if transaction_id in made:
                self.remove(transaction_id)
        return [transaction_id for (transaction_id,) in rows if transaction_id not in made]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def make_marks(connection: sqlite3.Connection) -> None:
    """Create the table of marks in the database, if there is none."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS main.tms_transactions (transaction_id INTEGER PRIMARY KEY)"
    )


def mark(connection: sqlite3.Connection, transaction_id: int) -> None:
    """Mark a transaction's changes as made, and drop the marks of others."""
    connection.execute("DELETE FROM main.tms_transactions")
    connection.execute("INSERT INTO main.tms_transactions VALUES (?)", (transaction_id,))
