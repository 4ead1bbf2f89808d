"""A program that is killed at a point of a transaction, as `kill -9` does.

    python crashing.py URL NAMESPACE sqlite|postgresql DATABASE POINT

It inserts a row and publishes a message of the name POINT in one transaction.
"""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.servers.server_process import ROOT, environment
from tests.waiting import WAIT_S_MAX

POINTS = ("persisting", "persisted", "committed", "decided", "done")
"""Before and after the participant persists, after each of the two commits, and at the end."""


def crash(url: str, namespace: str, kind: str, database: str, point: str) -> None:
    """Run the program until it is killed at `point`."""
    arguments = [url, namespace, kind, database, point]
    done = subprocess.run(
        [sys.executable, "-m", "tests.participants.crashing", *arguments],
        env=environment(),
        cwd=ROOT,
        check=False,
        timeout=WAIT_S_MAX,
    )
    assert done.returncode == -signal.SIGKILL


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _deadly(participant: Any, point: str) -> Any:
    """Return the participant, whose methods end the process at `point`."""

    def wrapped(verb: str, *, first: bool) -> Callable[[], object]:
        inner = getattr(participant, verb)

        def run() -> object:
            if first:
                _die()
            result = inner()
            _die()
            return result

        return run

    match point:
        case "persisting" | "persisted":
            participant.persist = wrapped("persist", first=point == "persisting")
        case "committed":
            participant.post_commit = wrapped("post_commit", first=True)
        case "decided":
            # At this point SQLite must still clear its journal; PostgreSQL has nothing more to do.
            if hasattr(participant, "_journal"):
                participant._journal.remove = lambda _: _die()
            else:
                participant.post_commit = wrapped("post_commit", first=False)
    return participant


def main() -> None:
    import tms  # noqa: PLC0415  for the process alone

    url, namespace, kind, database, point = sys.argv[1:]
    connection: Any
    part: Any
    if kind == "sqlite":
        from tms.sqlite import SqliteParticipant  # noqa: PLC0415

        connection = sqlite3.connect(database)
        part = SqliteParticipant(connection)
        insert = "INSERT INTO orders (name) VALUES (?)"
    else:
        import psycopg  # noqa: PLC0415

        from tms.postgresql import PostgresqlParticipant  # noqa: PLC0415

        connection = psycopg.connect(database)
        part = PostgresqlParticipant(connection, "test")
        insert = "INSERT INTO orders (name) VALUES (%s)"
    with (
        tms.connect(url, namespace) as client,
        client.transaction(participants=[_deadly(part, point)]) as tx,
    ):
        connection.execute(insert, (point,))
        client.topic("orders").publish(point.encode(), tx)
    _die()


if __name__ == "__main__":
    main()
