"""Records the rows that a connection changes, as statements that repeat the changes.

While changes are recorded, temporary triggers write a statement for each inserted, updated or
deleted row, with all values in it. So a statement always has the same effect: it changes one row,
or none if the row has changed since. The statements are part of the transaction, so a rollback to a
savepoint removes those after it.
"""

# Names are quoted here, and values are SQL literals.
# ruff: noqa: S608

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

MARKS = "tms_transactions"
"""The database's table whose changes are not recorded."""

_ROWID_NAMES = ("rowid", "_rowid_", "oid")


class _Table(NamedTuple):
    name: str
    columns: list[str]
    """All columns that can be set, including the row id if there is one."""


def check_recordable(connection: sqlite3.Connection) -> None:
    """Raise `ValueError` if changes of the database could escape recording."""
    if connection.execute("PRAGMA main.encoding").fetchone()[0] != "UTF-8":
        raise ValueError("the database is not in UTF-8")
    virtual = connection.execute(
        "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL%'"
    ).fetchone()
    if virtual:
        raise ValueError(f"{virtual[0]} is a virtual table, whose changes cannot be recorded")


def begin_recording(connection: sqlite3.Connection) -> None:
    """Record the changes of all tables from now on."""
    connection.execute("CREATE TEMP TABLE tms_changes (n INTEGER PRIMARY KEY, statement TEXT)")
    for number, table in enumerate(_tables(connection)):
        for verb in ("INSERT", "UPDATE", "DELETE"):
            connection.execute(
                f"CREATE TEMP TRIGGER tms_{verb}_{number} AFTER {verb} "
                f"ON main.{_quoted(table.name)} BEGIN "
                f"INSERT INTO tms_changes (statement) VALUES ({_statement(verb, table)}); END"
            )


def end_recording(connection: sqlite3.Connection) -> list[str]:
    """Return the statements in order, and stop recording."""
    rows = connection.execute("SELECT statement FROM temp.tms_changes ORDER BY n").fetchall()
    triggers = connection.execute(
        "SELECT name FROM temp.sqlite_schema WHERE type = 'trigger' AND name GLOB 'tms_*'"
    ).fetchall()
    for (name,) in triggers:
        connection.execute(f"DROP TRIGGER temp.{_quoted(name)}")
    connection.execute("DROP TABLE temp.tms_changes")
    return [statement for (statement,) in rows]


def repeat_changes(connection: sqlite3.Connection, statements: list[str]) -> bool:
    """Repeat the changes in the open transaction; return whether all rows were as before.

    Foreign keys must not be enforced. Triggers are disabled in the meantime, because their effects
    are recorded.
    """
    triggers = connection.execute(
        "SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger'"
    ).fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER main.{_quoted(name)}")
    try:
        if any(connection.execute(statement).rowcount != 1 for statement in statements):
            return False
    except sqlite3.IntegrityError:
        return False
    for _, sql in triggers:
        connection.execute(sql)
    return True


def _tables(connection: sqlite3.Connection) -> Iterator[_Table]:
    tables = connection.execute("PRAGMA main.table_list").fetchall()
    for schema, name, kind, _, has_no_rowid, _ in tables:
        if schema != "main" or kind != "table" or name == MARKS or name.startswith("sqlite_"):
            continue
        described = connection.execute(f"PRAGMA main.table_xinfo({_quoted(name)})").fetchall()
        columns = [str(row[1]) for row in described if row[6] == 0]  # without generated columns
        taken = {column.lower() for column in columns}
        free = [rowid for rowid in _ROWID_NAMES if rowid not in taken]
        yield _Table(name, columns if has_no_rowid or not free else [free[0], *columns])


def _statement(verb: str, table: _Table) -> str:
    """Return the SQL expression of the statement for a changed row."""
    columns = [_quoted(column) for column in table.columns]
    name = _quoted(table.name)
    old = [_text(f"{column} IS ") + f" || {_value('old', column)}" for column in columns]
    where = _text(" WHERE ") + " || " + f" || {_text(' AND ')} || ".join(old)
    if verb == "DELETE":
        return f"{_text(f'DELETE FROM main.{name}')} || {where}"
    comma = f" || {_text(', ')} || "
    if verb == "INSERT":
        head = _text(f"INSERT INTO main.{name} ({', '.join(columns)}) VALUES (")
        values = comma.join(_value("new", column) for column in columns)
        return f"{head} || {values} || ')'"
    new = comma.join(_text(f"{column} = ") + f" || {_value('new', column)}" for column in columns)
    return f"{_text(f'UPDATE main.{name} SET ')} || {new} || {where}"


def _value(row: str, column: str) -> str:
    """Return the SQL expression of a value as a literal.

    `quote` would cut text at a zero byte, and write an infinite number in a form that cannot be
    read.
    """
    value = f"{row}.{column}"
    return (
        f"CASE WHEN typeof({value}) = 'text' "
        f"THEN 'CAST(X''' || hex(CAST({value} AS BLOB)) || ''' AS TEXT)' "
        f"WHEN {value} = 9e999 THEN '9e999' WHEN {value} = -9e999 THEN '-9e999' "
        f"ELSE quote({value}) END"
    )


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
