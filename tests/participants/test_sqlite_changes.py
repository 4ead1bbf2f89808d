"""Recorded changes, applied to a copy, give the same rows, whatever was done."""

import sqlite3
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from tms.sqlite.changes import begin_recording, end_recording, repeat_changes

SCHEMA = r'''
CREATE TABLE plain (a, "b ""quoted""" TEXT, c REAL);
CREATE TABLE keyed (id INTEGER PRIMARY KEY, a UNIQUE, kind AS (typeof(a)));
CREATE TABLE bare (a TEXT, b, PRIMARY KEY (a, b)) WITHOUT ROWID;
CREATE TABLE child (parent REFERENCES keyed (id) ON DELETE CASCADE ON UPDATE CASCADE, a);
CREATE TABLE audit (what, a);
CREATE TRIGGER noted AFTER INSERT ON keyed BEGIN
    INSERT INTO audit VALUES ('new', new.a);
    UPDATE keyed SET a = a || '!' WHERE id = new.id AND typeof(a) = 'text';
END;
'''
TABLES = ("plain", "keyed", "bare", "child", "audit")

values = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.sampled_from(["a\0b", "it's", 'say "x"', 0.1, 1e300, float("inf"), -0.0]),
)
small = st.integers(0, 4)
Step = tuple[str, tuple[object, ...]]


def step(statement: str, *arguments: st.SearchStrategy[object]) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(statement), st.tuples(*arguments))


steps = st.one_of(
    step("INSERT INTO plain VALUES (?, ?, ?)", values, values, values),
    step("INSERT OR REPLACE INTO keyed (id, a) VALUES (?, ?)", small, values),
    step("INSERT INTO keyed (a) VALUES (?) ON CONFLICT DO UPDATE SET a = 'again'", values),
    step("INSERT OR IGNORE INTO bare VALUES (?, ?)", st.text(max_size=2), small),
    step("INSERT OR IGNORE INTO child VALUES (?, ?)", small, values),
    step("UPDATE plain SET a = ?, c = ? WHERE rowid % 2 = ?", values, values, small),
    step("UPDATE OR IGNORE keyed SET id = id + ? WHERE id < ?", small, small),
    step("UPDATE OR REPLACE bare SET b = ?", small),
    step("DELETE FROM keyed WHERE id = ?", small),
    step("DELETE FROM plain WHERE rowid % 3 = ?", small),
    step("SAVEPOINT s"),
    step("ROLLBACK TO s"),
)


def content(connection: sqlite3.Connection) -> list[object]:
    return [
        connection.execute(
            f"SELECT {'' if table == 'bare' else 'rowid, '}* FROM {table} ORDER BY 1, 2"
        ).fetchall()
        for table in TABLES
    ]


def run(connection: sqlite3.Connection, done: list[Step]) -> None:
    for statement, arguments in done:
        try:
            connection.execute(statement, arguments)
        except (sqlite3.IntegrityError, sqlite3.OperationalError):
            continue  # a violated constraint, or an unknown savepoint: nothing is changed


@given(before=st.lists(steps, max_size=6), within=st.lists(steps, max_size=10))
def test_recorded_changes_made_again_give_the_same_rows(
    before: list[Step], within: list[Step]
) -> None:
    with (
        closing(sqlite3.connect(":memory:", isolation_level=None)) as connection,
        closing(sqlite3.connect(":memory:", isolation_level=None)) as copy,
    ):
        connection.executescript(SCHEMA)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA recursive_triggers = ON")
        run(connection, before)
        if connection.in_transaction:
            connection.execute("COMMIT")
        connection.backup(copy)
        connection.execute("BEGIN")
        begin_recording(connection)
        run(connection, within)
        statements = end_recording(connection)
        connection.execute("COMMIT")

        copy.execute("BEGIN")
        assert repeat_changes(copy, statements)
        copy.execute("COMMIT")

        assert content(copy) == content(connection)
        triggers = copy.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        assert triggers.fetchall() == [("noted",)]
