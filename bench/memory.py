"""Memory of the server while 32 clients poll one whole large topic at the same time.

LevelDB maps its files, and mapped pages that were read count as resident (RSS) until the kernel
reclaims them; the process's own memory is the anonymous part (RssAnon).
"""

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

from bench.rounds import Effort
from bench.servers import Server, tms_server
from bench.table import Table, mebibytes, rate
from bench.topics import Topic, create, fill
from tms.wire.avro_bodies import AVRO
from tms.wire.bodies import PollRequest

_CLIENTS = 32
_PAYLOAD_BYTES = 1_000
_CHUNK_BYTES = 1024 * 1024
_SAMPLE_EVERY_S = 0.02
_STALLED_S = 3.0
_COLUMNS = ("32 clients at once", "anonymous", "RSS", "MB/s to clients", "seconds")


class Peak:
    """The most memory that a server has had since this was created."""

    def __init__(self, server: Server) -> None:
        """Sample every few ms, in a thread, until `end`."""
        self._server = server
        self._stop = Event()
        self.found = server.memory()
        self._thread = Thread(target=self._sample)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stop.wait(_SAMPLE_EVERY_S):
            now = self._server.memory()
            self.found = {name: max(now[name], self.found[name]) for name in now}

    def end(self) -> dict[str, int]:
        """Stop sampling, and return the peak in bytes, by kind of memory."""
        self._stop.set()
        self._thread.join()
        return self.found


def _request(topic: Topic, limit: int) -> bytes:
    body = AVRO.encode_poll(PollRequest(limit=limit))
    head = (
        f"POST {topic.path}/poll HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: avro/binary\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _connect(topic: Topic, limit: int) -> socket.socket:
    address = urlsplit(topic.url)
    connection = socket.create_connection((address.hostname or "", address.port or 0))
    connection.sendall(_request(topic, limit))
    return connection


def _read_whole(topic: Topic, limit: int) -> int:
    """Poll all messages and return the bytes of the answer."""
    buffer = bytearray(_CHUNK_BYTES)
    total = 0
    first = last = b""
    with _connect(topic, limit) as connection:
        while count := connection.recv_into(buffer):
            first = first or bytes(buffer[:count])
            total += count
            last = (last + bytes(buffer[max(0, count - 5) : count]))[-5:]
    if last != b"0\r\n\r\n":
        raise RuntimeError(f"the answer was cut off: {first[:500]!r} ... {last!r}")
    return total


def _stall(topic: Topic, limit: int) -> int:
    """Request all messages and read none of them."""
    with _connect(topic, limit):
        time.sleep(_STALLED_S)
    return 0


def _measure(table: Table, figure: str, server: Server, client: Callable[[], int]) -> int:
    peak = Peak(server)
    started = time.perf_counter()
    with ThreadPoolExecutor(_CLIENTS) as pool:
        total = sum(pool.map(lambda _: client(), range(_CLIENTS)))
    seconds = time.perf_counter() - started
    most = peak.end()
    speed = rate(total / seconds / 1e6) if total else "-"
    sizes = (mebibytes(most["RssAnon"]), mebibytes(most["VmRSS"]))
    table.row(figure, *sizes, speed, f"{seconds:.1f}")
    return total


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure memory and print it."""
    table = Table("Memory of the server", _COLUMNS)
    messages = effort.whole_topic_bytes // _PAYLOAD_BYTES
    with tms_server(folder / "memory", "--poll-messages-max", "10000000") as server:
        memory = server.memory()
        table.row("started", mebibytes(memory["RssAnon"]), mebibytes(memory["VmRSS"]), "-", "-")
        topic = create(server.url, run_name)[0]
        fill([topic], messages, _PAYLOAD_BYTES)
        memory = server.memory()
        size = f"{effort.whole_topic_bytes / 1e9:g} GB"
        sizes = (mebibytes(memory["RssAnon"]), mebibytes(memory["VmRSS"]))
        table.row(f"a topic of {size} was published", *sizes, "-", "-")
        _measure(table, "clients that read nothing", server, lambda: _stall(topic, messages))
        figure = f"each polls the {size} whole"
        total = _measure(table, figure, server, lambda: _read_whole(topic, messages))
        if total < _CLIENTS * effort.whole_topic_bytes:
            raise RuntimeError(f"clients were given {total} bytes, less than there are")
