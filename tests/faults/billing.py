"""A worker that bills orders: each gets a row, a bill and an ack, in one transaction.

    python -m tests.faults.billing URL NAMESPACE DATABASE

It rejects some orders, rolls some of its work back and does it again, and runs until it is killed
or stopped. After SIGUSR1 the process pauses as soon as it has prepared a row and is about to
commit.
"""

import os
import random
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, Popen

from tests.servers.server_process import ROOT, environment

ORDERS, BILLS, GROUP, DATABASE_NAME = "orders", "bills", "billing", "shop"
DEAD = f"{ORDERS}--dead"
STAND_STILL = signal.SIGUSR1
CONCURRENCY = 4
REJECTED_EACH = 13
IN_VAIN = 0.05
"""The share of the work that is rolled back and done again."""


def is_rejected(name: str) -> bool:
    """Whether an order becomes a dead letter."""
    return int(name) % REJECTED_EACH == 0


def start_worker(url: str, namespace: str, database: str, log: Path) -> Popen[bytes]:
    """Start a worker in a process of its own; its errors are appended to `log`."""
    with log.open("ab") as errors:
        return Popen(
            [sys.executable, "-m", "tests.faults.billing", url, namespace, database],
            env=environment(),
            cwd=ROOT,
            stdin=DEVNULL,
            stderr=errors,
        )


def main() -> None:
    import psycopg  # noqa: PLC0415  for the process alone

    import tms  # noqa: PLC0415
    from tms.postgresql import PostgresqlParticipant  # noqa: PLC0415

    url, namespace, database = sys.argv[1:]
    of_thread = threading.local()
    stops: list[None] = []
    signal.signal(STAND_STILL, lambda *_: stops.append(None))

    class Stopping(PostgresqlParticipant):
        def persist(self) -> None:
            super().persist()
            with suppress(IndexError):
                stops.pop()  # only one thread does this: if two did, the process would pause twice
                os.kill(os.getpid(), signal.SIGSTOP)

    def connection() -> psycopg.Connection:
        if not hasattr(of_thread, "connection"):
            of_thread.connection = psycopg.connect(database)
        found: psycopg.Connection = of_thread.connection
        return found

    with tms.connect(url, namespace) as client:
        bills = client.topic(BILLS)
        group = client.topic(ORDERS).group(GROUP)

        @group.worker(
            concurrency=CONCURRENCY,
            transaction=True,
            participants=lambda: [Stopping(connection(), DATABASE_NAME)],
        )
        def bill(message: tms.GroupMessage, tx: tms.TransactionContext) -> None:
            name = message.payload.decode()
            connection().execute("INSERT INTO billed (name) VALUES (%s)", (name,))
            bills.publish(tms.Message(message.payload, key=message.key), tx)
            if is_rejected(name):
                raise tms.Reject("no such customer")
            if random.random() < IN_VAIN:
                raise tms.Retry(delay_s=0)

        bill.run()


if __name__ == "__main__":
    main()
