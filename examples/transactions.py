"""Take orders from a topic, store them in SQLite and bill them: each once, whatever fails.

Start a server with scripts/run, then: python examples/transactions.py

The row, the bill and the position in the topic belong to one transaction: all are kept, or none.
"""

import os
import sqlite3
import tempfile
import uuid
from contextlib import closing
from pathlib import Path

import tms
from tms.sqlite import SqliteParticipant

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")


def main() -> None:
    """Run the example on two topics and a database of its own, and delete them."""
    with tms.connect(URL) as client, tempfile.TemporaryDirectory() as folder:
        names = [f"example-{kind}-{uuid.uuid4().hex}" for kind in ("orders", "bills")]
        orders, bills = (client.topic(name) for name in names)
        orders.create()
        bills.create()
        try:
            with closing(sqlite3.connect(Path(folder) / "shop.db")) as shop:
                bill_all(client, orders, bills, shop)
        finally:
            orders.delete()
            bills.delete()


def bill_all(
    client: tms.Client, orders: tms.Topic, bills: tms.Topic, shop: sqlite3.Connection
) -> None:
    """Publish three orders, and bill them, although the first attempt at the second one fails."""
    shop.execute("CREATE TABLE billed (item TEXT)")
    part = SqliteParticipant(shop)
    part.recover(client.transactions)  # transactions that a crash of an earlier run left prepared
    billing = orders.subscription("billing")
    billing.create()
    fails_at = {b"jam"}

    # If the outcome is unknown, publishing them again does not duplicate them.
    publications = {orders.name: [b"bread", b"jam", b"tea"]}
    for _ in range(2):
        done = client.publish_all(publications, owner=orders.name, sequence=1)
        print("published before" if done.is_duplicate else "published")

    def bill_next(tx: tms.TransactionContext) -> bool:
        order = next(billing.poll(limit=1, tx=tx), None)
        if order is None:
            return False
        shop.execute("INSERT INTO billed VALUES (?)", (order.payload.decode(),))
        bills.publish(b"a bill for " + order.payload, tx)
        billing.advance(order, tx)
        if order.payload in fails_at:
            fails_at.remove(order.payload)
            raise RuntimeError(f"the printer is jammed at {order.payload.decode()}")
        return True

    goes_on = True
    while goes_on:
        try:
            goes_on = client.run_in_transaction(bill_next, participants=[part])
        except RuntimeError as error:
            print(error)
    print("rows: ", [item for (item,) in shop.execute("SELECT item FROM billed")])
    print("bills:", [bill.payload.decode() for bill in bills.poll(committed=True)])
    part.close()


if __name__ == "__main__":
    main()
