"""Workers as people write them, run by `test_group_programs`, each in its own process.

python group_programs.py NAME URL NAMESPACE     works on the group `billing` of the topic `orders`
"""

import asyncio
import os
import sys
from itertools import islice

import tms
import tms.aio

URL, NAMESPACE = sys.argv[2:]


def say(line: str) -> None:
    """Write a whole line at once: print() writes the newline separately, and threads interleave."""
    os.write(1, f"{line}\n".encode())


def forget_to_close() -> None:
    """Take ten messages ahead, settle one of them, and end without closing."""
    group = tms.connect(URL, NAMESPACE).topic("orders").group("billing")
    for message in islice(group.take(), 1):
        message.ack()


def fork() -> None:
    """Take in the parent and in the child; each acknowledges its own messages."""
    client = tms.connect(URL, NAMESPACE)
    group = client.topic("orders").group("billing")
    loop = group.take(prefetch=1)
    mine = next(loop)
    child = os.fork()
    if not child:
        for settle in (mine.ack, lambda: client.publish_all({"bills": b"0"}, acks=[mine])):
            try:
                settle()
            except RuntimeError:
                print("not the child's", flush=True)
        with next(group.take(prefetch=1)) as message:
            print("child", message.payload.decode(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    mine.ack()
    print("parent", mine.payload.decode(), flush=True)


def work() -> None:
    """Work until SIGTERM; the work on each message lasts until standard input ends."""
    client = tms.connect(URL, NAMESPACE)
    group = client.topic("orders").group("billing")
    bills = client.topic("bills")

    @group.worker(concurrency=2, transaction=True, lease_s=2)
    def bill(message: tms.GroupMessage, tx: tms.TransactionContext) -> None:
        say("begun " + message.payload.decode())
        os.read(0, 1)
        bills.publish(message.payload, tx)

    bill.run()
    say("ended")


def work_in_asyncio() -> None:
    """Do the same in asyncio: work until SIGTERM."""

    async def main() -> None:
        async with await tms.aio.connect(URL, NAMESPACE) as client:
            group = client.topic("orders").group("billing")
            bills = client.topic("bills")

            @group.worker(concurrency=2, transaction=True)
            async def bill(
                message: tms.aio.AsyncGroupMessage, tx: tms.aio.AsyncTransactionContext
            ) -> None:
                say("begun " + message.payload.decode())
                await asyncio.to_thread(os.read, 0, 1)
                await bills.publish(message.payload, tx)

            await bill.run()
            say("ended")

    asyncio.run(main())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
