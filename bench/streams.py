"""Streams of one topic that wait: the memory of each, and how long a message takes to the last one.

The reader is a program of its own, which only reads what its sockets have.
"""

import multiprocessing
import re
import selectors
import socket
import time
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from bench.rounds import Effort
from bench.servers import tms_server
from bench.table import Table
from bench.topics import Topic, create, fill

_STREAMS = 1_000
_MESSAGES = 30
_BUFFER_BYTES = 64 * 1024
_COLUMNS = ("1,000 streams of one topic", "bytes each", "to the last, p50", "CPU of the server")
_MESSAGE = re.compile(rb"data: ")


def _read(url: str, path: str, results: Connection) -> None:
    """Open all streams, and send the time at which the last one has each message."""
    address = urlsplit(url)
    selector = selectors.DefaultSelector()
    request = f"GET {path}/stream?start=end HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    for _ in range(_STREAMS):
        connection = socket.create_connection((address.hostname or "", address.port or 0))
        connection.sendall(request)
        connection.recv(_BUFFER_BYTES)
        selector.register(connection, selectors.EVENT_READ)
    results.send(None)
    received = 0
    while received < _STREAMS * _MESSAGES:
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket)
            received += len(_MESSAGE.findall(key.fileobj.recv(_BUFFER_BYTES)))
        if received and received % _STREAMS == 0:
            results.send(time.monotonic())


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:
    """Measure streams and print their figures."""
    del effort, peer
    table = Table("Streams", _COLUMNS)
    with tms_server(folder / "streams") as server:
        topic: Topic = create(server.url, f"{run_name}-streams")[0]
        fill([topic], 1)
        before = server.memory()["RssAnon"]
        own, theirs = multiprocessing.Pipe()
        reader = multiprocessing.Process(target=_read, args=(server.url, topic.path, theirs))
        reader.start()
        try:
            own.recv()
            each = (server.memory()["RssAnon"] - before) // _STREAMS
            cpu_s, delays = server.cpu_s(), []
            for _ in range(_MESSAGES):
                start = time.monotonic()
                fill([topic], 1)
                delays.append(own.recv() - start)
            cpu_s = server.cpu_s() - cpu_s
            reader.join()
        finally:
            reader.kill()
        p50 = f"{median(delays) * 1000:.1f} ms"
        table.row("one message", f"{each:,}", p50, f"{cpu_s * 1000 / _MESSAGES:.1f} ms a message")
