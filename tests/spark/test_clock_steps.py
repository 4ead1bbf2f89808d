"""A stream loses nothing, and is given nothing twice, when the server's wall clock steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tms
from tests.servers.server_process import ServerProcess
from tests.servers.stepping_clock import SteppingClock
from tests.spark.streams import Stream

MINUTE_MS, DAY_MS = 60_000, 86_400_000


@contextmanager
def going_on(server: ServerProcess, offset: dict[str, str] | None = None) -> Iterator[Stream]:
    """A stream that goes on from what its checkpoint has; None: a new one."""
    stream = Stream({"url": server.url}, subscribe="t")
    try:
        if offset is None:
            stream.start()
        else:
            stream.offset = offset
        yield stream
    finally:
        stream.reader.stop()


@pytest.mark.parametrize(("back_ms", "hold_s"), [(5 * MINUTE_MS, "0"), (8 * DAY_MS, "3600")])
def test_what_an_open_transaction_wrote_is_waited_for_over_a_restart(
    tmp_path: Path, back_ms: int, hold_s: str
) -> None:
    """The clock is set back under it, so its messages are of a time before its pointer's."""
    store, clock = f"leveldb:{tmp_path / 'store'}", SteppingClock(tmp_path)
    flags = ("--clock-hold-s", hold_s)
    with ServerProcess(store, *flags, clock=clock) as server, tms.connect(server.url) as client:
        topic = client.topic("t")
        topic.create(ttl=31_536_000)
        with going_on(server) as stream:
            opened = client.transactions.start(tms.StartRequest(timeout_s=600))
            clock.step(-back_ms)
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
