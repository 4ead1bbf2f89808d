"""Workers that bill orders exactly once: the row, the published bill and the ack are one commit.

Start a server with scripts/run and a PostgreSQL with max_prepared_transactions above zero, then:
DATABASE="dbname=postgres" python examples/group_postgresql.py
"""

import asyncio
import os
import threading
import time
import uuid

import psycopg

import tms
import tms.aio
from tms.postgresql import AsyncPostgresqlParticipant, PostgresqlParticipant

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")
DATABASE = os.environ.get("DATABASE", "dbname=postgres")
ORDERS = 6
INSERT = "INSERT INTO example_bills (name) VALUES (%s)"
_here = threading.local()


def connection() -> psycopg.Connection[tuple[str]]:
    """Return the current thread's connection."""
    if not hasattr(_here, "connection"):
        _here.connection = psycopg.connect(DATABASE)
    found: psycopg.Connection[tuple[str]] = _here.connection
    return found


def recover(client: tms.Client, name: str) -> None:
    """End transactions that a crash left prepared, as a worker does by itself."""
    with psycopg.connect(DATABASE) as rows:
        part = PostgresqlParticipant(rows, name)
        while part.recover(client.transactions).in_progress:
            time.sleep(1)  # the transaction of the program that died has not timed out


def work_in_threads(client: tms.Client, orders: str, bills: str) -> None:
    """Bill orders in two threads; every third attempt fails at first."""
    billing, billed = client.topic(orders).group("billing"), client.topic(bills)
    done = threading.Semaphore(0)

    @billing.worker(
        concurrency=2,
        transaction=True,
        participants=lambda: [PostgresqlParticipant(connection(), "example")],
    )
    def bill(message: tms.GroupMessage, tx: tms.TransactionContext) -> None:
        connection().execute(INSERT, (message.payload.decode(),))
        if message.attempt == 1 and message.payload.endswith(b"3"):
            raise tms.Retry(delay_s=0)  # its row is rolled back
        billed.publish(b"bill of " + message.payload, tx)
        done.release()

    def stop() -> None:
        for _ in range(ORDERS):
            done.acquire()
        bill.stop()

    threading.Thread(target=stop).start()
    bill.run()


async def work_in_asyncio(orders: str, bills: str) -> None:
    """Bill orders in an asyncio loop, with an asyncio connection."""
    async with (
        await tms.aio.connect(URL) as client,
        await psycopg.AsyncConnection.connect(DATABASE) as rows,
    ):
        billing, billed = client.topic(orders).group("billing"), client.topic(bills)
        part = AsyncPostgresqlParticipant(rows, "example-asyncio")
        left = ORDERS
        async for message in billing.take():
            async with message, client.transaction(participants=[part]) as tx:
                await rows.execute(INSERT, (message.payload.decode(),))
                await billed.publish(b"bill of " + message.payload, tx)
                await message.ack(tx)
            left -= 1
            if not left:
                break


def show(client: tms.Client, orders: str, bills: str) -> None:
    """Show that each order is billed exactly once."""
    with psycopg.connect(DATABASE) as rows:
        found = rows.execute("SELECT name FROM example_bills ORDER BY name").fetchall()
        rows.execute("DELETE FROM example_bills")
    published = [bill.payload.decode() for bill in client.topic(bills).poll(committed=True)]
    state = client.topic(orders).group("billing").show().state
    print("rows: ", [name for (name,) in found])
    print("bills:", sorted(published))
    print("left: ", state.unread + state.open)


def main() -> None:
    """Run the example on topics of its own, and delete them."""
    with psycopg.connect(DATABASE) as rows:
        rows.execute("CREATE TABLE IF NOT EXISTS example_bills (name TEXT)")
    with tms.connect(URL) as client:
        for work in ("threads", "asyncio"):
            orders, bills = (f"example-{name}-{uuid.uuid4().hex}" for name in ("orders", "bills"))
            client.topic(orders).create()
            client.topic(bills).create()
            try:
                client.topic(orders).group("billing").create()
                client.topic(orders).publish([b"order %d" % n for n in range(1, ORDERS + 1)])
                if work == "threads":
                    work_in_threads(client, orders, bills)
                else:
                    recover(client, "example-asyncio")
                    asyncio.run(work_in_asyncio(orders, bills))
                show(client, orders, bills)
            finally:
                client.topic(orders).delete()
                client.topic(bills).delete()


if __name__ == "__main__":
    main()
