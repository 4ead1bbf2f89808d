"""Publish to two topics in one transaction, which is rolled back if something fails.

Start a server with scripts/run, then: python examples/transactional_publish.py
"""

import os
import uuid
from collections.abc import Callable

import tms

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")


def transfer(
    client: tms.Client,
    paid: tms.Topic,
    shipped: tms.Topic,
    order: bytes,
    check: Callable[[], None],
) -> None:
    """Publish an order to both topics; readers of committed messages see both or none."""
    try:
        with client.transaction() as tx:
            paid.publish(order, tx)
            shipped.publish(order, tx)
            check()
    except RuntimeError as error:
        print(f"{order.decode()}: {error}; rolled back")


def committed(topic: tms.Topic) -> list[str]:
    """Return the committed messages."""
    return [message.payload.decode() for message in topic.poll(committed=True)]


def main() -> None:
    """Run the example on two topics of its own, and delete them."""

    def out_of_stock() -> None:
        raise RuntimeError("out of stock")

    with tms.connect(URL) as client:
        names = [f"example-{kind}-{uuid.uuid4().hex}" for kind in ("paid", "shipped")]
        paid, shipped = (client.topic(name) for name in names)
        paid.create()
        shipped.create()
        try:
            transfer(client, paid, shipped, b"order 1", lambda: None)
            transfer(client, paid, shipped, b"order 2", out_of_stock)
            print("committed: ", committed(paid), committed(shipped))
            print("everything:", [m.payload.decode() for m in paid.poll()])
        finally:
            paid.delete()
            shipped.delete()


if __name__ == "__main__":
    main()
