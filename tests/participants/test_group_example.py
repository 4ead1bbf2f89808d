"""examples/group_postgresql.py bills each order once, on a real PostgreSQL."""

import asyncio
import os
import subprocess
import sys

import psycopg
import pytest

import tms.aio
from tests.participants.postgresql_server import PostgresqlServer, find_programs
from tests.servers.server_process import ROOT, ServerProcess
from tests.waiting import WAIT_S_MAX
from tms.postgresql import AsyncPostgresqlParticipant

PROGRAMS = find_programs()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROGRAMS is None, reason="PostgreSQL is not installed: apt-get install postgresql"
    ),
]

ORDERS = [f"order {number}" for number in range(1, 7)]


def test_rows_bills_and_acks_agree() -> None:
    assert PROGRAMS is not None
    with PostgresqlServer(PROGRAMS) as postgresql, ServerProcess("memory:") as server:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(ROOT / "examples/group_postgresql.py")],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "TMS_URL": server.url,
                "DATABASE": postgresql.url,
            },
            capture_output=True,
            text=True,
            timeout=WAIT_S_MAX,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    once = (f"rows:  {ORDERS}", f"bills: {[f'bill of {each}' for each in ORDERS]}", "left:  0")
    assert done.stdout.splitlines() == [*once, *once]


def test_a_connection_of_asyncio_takes_part_or_is_rolled_back() -> None:
    async def work(database: str) -> list[str]:
        async with (
            await tms.aio.connect("memory:") as client,
            await psycopg.AsyncConnection.connect(database) as rows,
        ):
            await rows.execute("CREATE TABLE noted (name TEXT)")
            await rows.commit()
            part = AsyncPostgresqlParticipant(rows, "test")
            for name in ("kept", "undone", "kept too"):
                async with client.transaction(participants=[part]) as tx:
                    await rows.execute("INSERT INTO noted VALUES (%s)", (name,))
                    if name == "undone":
                        await tx.abort()
            found = await (await rows.execute("SELECT name FROM noted")).fetchall()
            left = await (await rows.execute("SELECT gid FROM pg_prepared_xacts")).fetchall()
            assert left == []
            return [name for (name,) in found]

    assert PROGRAMS is not None
    with PostgresqlServer(PROGRAMS) as postgresql:
        assert asyncio.run(work(postgresql.url)) == ["kept", "kept too"]
