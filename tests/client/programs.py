"""Programs that do not close their clients, run by `test_program_end`, each in its own process.

python programs.py NAME URL…     the clients of the URLs are made before the program begins
"""

import asyncio
import atexit
import multiprocessing
import os
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import tms
from tests.waiting import WAIT_S_MAX
from tms.client.threads import program_end

TOPIC = "orders"
CLIENTS = [tms.connect(url, compress=True) for url in sys.argv[2:]]


def publish(client: tms.Client, payload: bytes) -> None:
    client.topic(TOPIC).publish(payload)


def payloads(client: tms.Client) -> list[bytes]:
    return [message.payload for message in client.topic(TOPIC).poll()]


def created() -> None:
    for client in CLIENTS:
        client.topic(TOPIC).create()
        publish(client, b"one")


def end() -> None:
    created()
    next(CLIENTS[0].topic(TOPIC).poll())  # half read


def fail() -> None:
    created()
    raise LookupError("as programs do")


def threads() -> None:
    """The main thread ends long before other threads have published."""
    created()
    pool = ThreadPoolExecutor(2)

    def work(client: tms.Client) -> None:
        threading.main_thread().join()
        for payload in (b"two", b"x" * 5000):  # one is compressed, in another thread
            publish(client, payload)
        assert len(payloads(client)) == 4
        os.write(1, b"done\n")  # print() writes the newline separately

    for client in CLIENTS:
        followed = client.topic(TOPIC).follow()
        threading.Thread(target=lambda followed=followed: list(followed), daemon=True).start()
        threading.Thread(target=work, args=(client,)).start()
        pool.submit(publish, client, b"pool")


def under_way(*, is_answered: bool = True) -> None:
    """Daemon threads are in the middle of a publish when the program ends."""
    listening = socket.create_server(("127.0.0.1", 0))
    arrived = threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        while b"message" not in connection.recv(65536):
            pass
        arrived.set()
        threading.main_thread().join()
        if is_answered:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        threading.Event().wait()

    def work() -> None:
        publish(client, b"message")
        os.write(1, b"published\n")

    client = tms.connect(f"http://127.0.0.1:{listening.getsockname()[1]}")
    for target in (serve, work):
        threading.Thread(target=target, daemon=True).start()
    assert arrived.wait(WAIT_S_MAX)


def never_answered() -> None:
    program_end.CALLS_S_MAX = 0.3
    under_way(is_answered=False)


def open_transaction() -> None:
    created()
    for client in CLIENTS:
        tx = client.transaction().__enter__()
        client.topic(TOPIC).publish(b"two", tx, buffer=True)


def at_exit() -> None:
    """Functions registered after the import of tms may use clients; no thread can start then."""

    def last() -> None:
        for client in CLIENTS:
            publish(client, b"last")
            print(payloads(client))
        threading.Thread.start = refuse  # type: ignore[method-assign,assignment]

    def refuse(*_: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")  # from 3.12 on

    created()
    atexit.register(last)


def asynchronous() -> None:
    async def use() -> None:
        for url in sys.argv[2:]:
            client = await tms.aio.connect(url)
            open_clients.append(client)
            await client.topic(f"{TOPIC}_2").create()
            await client.topic(f"{TOPIC}_2").publish(b"one")

    open_clients: list[object] = []
    for client in CLIENTS:
        client.close()
    asyncio.run(use())


# Children


def in_child(function: Callable[[], None]) -> None:
    """Fork; let the child end as scripts do, and continue when it has ended."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        function()
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def fork() -> None:
    """Fork while every client is in use, by threads too, and while their locks are held."""
    created()
    half_read = []
    for client in CLIENTS:
        half_read.append(client.topic(TOPIC).poll())
        next(half_read[-1])
        followed = client.topic(TOPIC).follow()
        threading.Thread(target=lambda followed=followed: list(followed), daemon=True).start()
        client._bridge.life.lock.acquire()

    def use() -> None:
        for client, messages in zip(CLIENTS, half_read, strict=True):
            try:
                publish(client, b"child")
                with client.transaction() as tx:
                    print(client.transactions.info(tx.transaction_id).client)
            except RuntimeError as error:
                print(error)
            try:
                next(messages)
            except RuntimeError as error:
                print(error)
        print(os.getpid())

    in_child(use)
    for client in CLIENTS:
        client._bridge.life.lock.release()
        publish(client, b"parent")
        print(payloads(client))


def fork_in_transaction() -> None:
    """Fork a child that ends, and one that continues, within the parent's transaction."""

    def end_it() -> None:
        try:
            client.topic(TOPIC).publish(b"child", tx)
        except RuntimeError as error:
            print(error)
        print(tx.transaction.transaction_id == tx.transaction_id)

    created()
    for client in CLIENTS:
        with client.transaction() as tx:
            client.topic(TOPIC).publish(b"two", tx)
            in_child(end_it)
        print(payloads(client))


def fork_and_end() -> None:
    """Fork; the parent ends at once, the child when its standard input does."""
    created()
    sys.stdout.flush()
    if os.fork() == 0:
        sys.stdin.read()
        print("orphan")


def tell(number: int) -> None:
    for client in CLIENTS:
        try:
            publish(client, b"child %d" % number)
            print("published", flush=True)
        except RuntimeError as error:
            print(error, flush=True)


def children(method: str) -> None:
    created()
    context = multiprocessing.get_context(method)
    for number in range(2):
        child = context.Process(target=tell, args=(number,))  # type: ignore[attr-defined]
        child.start()
        child.join(WAIT_S_MAX)
        assert child.exitcode == 0


def multiprocessing_fork() -> None:
    children("fork")


def multiprocessing_spawn() -> None:
    children("spawn")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
