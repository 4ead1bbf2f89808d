"""Publish to two topics in one transaction, and take both back when something fails.

Start a server with scripts/run, then: python examples/transactional_publish.py

This release has no transaction manager: the program chooses its write pointer (a time in
milliseconds x 1,000,000) and says itself, in the reader's `Transaction`, what is committed.
"""

import os
import time
import uuid
from collections.abc import Callable

import tms

URL = os.environ.get("TMS_URL", "http://127.0.0.1:11015")


def transfer(paid: tms.Topic, shipped: tms.Topic, order: bytes, check: Callable[[], None]) -> bool:
    """Publish an order to both topics, or to none that a transactional reader sees."""
    pointer = time.time_ns()
    written: list[tuple[tms.Topic, tms.RollbackRange]] = []
    try:
        for topic in (paid, shipped):
            published = topic.publish(order, tx=pointer)
            assert published is not None  # a transactional publish always answers with its range
            written.append((topic, published))
        check()
    except RuntimeError as error:
        print(f"{order.decode()}: {error}; rolled back")
        for topic, published in written:
            topic.rollback(published)
        return False
    return True


def committed(topic: tms.Topic) -> list[str]:
    """Return what a reader sees to whom all that was begun until now is committed."""
    now = time.time_ns()
    reader = tms.Transaction(read_pointer=now, transaction_id=now + 1, write_pointer=now + 1)
    return [message.payload.decode() for message in topic.poll(tx=reader)]


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
            transfer(paid, shipped, b"order 1", lambda: None)
            transfer(paid, shipped, b"order 2", out_of_stock)
            print("with a transaction:   ", committed(paid), committed(shipped))
            print("without a transaction:", [m.payload.decode() for m in paid.poll()])
        finally:
            paid.delete()
            shipped.delete()


if __name__ == "__main__":
    main()
