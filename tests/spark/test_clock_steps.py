"""A stream loses nothing, and gets nothing twice, if the server's wall clock steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tms
from tests.servers.server_process import ServerProcess
from tests.servers.stepping_clock import SteppingClock
from tests.spark.streams import Stream


@contextmanager
def going_on(server: ServerProcess, offset: dict[str, str] | None = None) -> Iterator[Stream]:
    """Start a new stream, or continue one from its checkpoint."""
    stream = Stream({"url": server.url}, subscribe="t")
    try:
        if offset is None:
            stream.start()
        else:
            stream.offset = offset
        yield stream
    finally:
        stream.reader.stop()


def test_what_an_open_transaction_wrote_is_waited_for_over_a_restart(tmp_path: Path) -> None:
    """The server accepts a clock set back under the transaction, to before the pointer's time."""
    flags = ("--clock-hold-s", "0")
    store, clock = f"leveldb:{tmp_path / 'store'}", SteppingClock(tmp_path)
    with ServerProcess(store, *flags, clock=clock) as server, tms.connect(server.url) as client:
        topic = client.topic("t")
        topic.create(ttl=31_536_000)
        with going_on(server) as stream:
            opened = client.transactions.start(tms.StartRequest(timeout_s=600))
            clock.step(-300_000)
            topic.publish(b"1", opened)
            topic.publish(b"2")
            before = stream.take()
        server.kill()
    with ServerProcess(store, *flags, clock=clock) as server, tms.connect(server.url) as client:
        with going_on(server, stream.offset) as stream:
            start, end = stream.plan()
            first = stream.take()
            client.transactions.commit(opened.transaction_id)
            second = stream.take()
            again = stream.read(start, end)
        assert server.stop() == 0
    clock.close()

    assert before == first == again == []
    assert second == [b"1", b"2"]
