"""Streams, and raw publishes, through a server that follows, and while the leader changes."""

import asyncio

import pytest

from tests.api.cluster.standing_by import Second
from tests.api.rest import TOPIC, Live
from tests.api.stream_reader import StreamReader
from tests.cluster.hands import LEASE_S, Hands
from tests.waiting import until
from tms.cluster.lease import Lease
from tms.core.runtime.shares import Shares

pytestmark = pytest.mark.anyio

TEXT = {"content-type": "text/plain", "tms-header-Shop": "Berlin"}


@pytest.fixture
async def reader(second: Second, leader: Live) -> StreamReader:
    await leader.create()
    port = second.http.base_url.port
    assert port is not None
    return StreamReader(port)


async def publish(second: Second, *texts: str) -> list[str]:
    """Publish each text as the body of a request to the second server; return the ids."""
    ids: list[str] = []
    for text in texts:
        answer = await second.http.post(f"{TOPIC}/messages?key=k", content=text, headers=TEXT)
        assert answer.status_code == 200, answer.text
        ids += answer.json()["ids"]
    return ids


async def test_a_follower_passes_events_and_raw_publishes_on(
    second: Second, leader: Live, reader: StreamReader
) -> None:
    reading = asyncio.create_task(reader.read(until=3))
    await leader.until(lambda: leader.waiters() == 1)
    ids = await publish(second, "a", "b", "c")
    head = await reading
    assert (b"tms-forwarded-by" in head, b"content-type: text/event-stream" in head) == (True, True)
    assert [(each["id"], each["payload"], each["key"]) for each in reader.messages] == [
        (message_id, text, "k") for message_id, text in zip(ids, "abc", strict=True)
    ]
    assert reader.messages[0]["headers"] == {"content-type": "text/plain", "Shop": "Berlin"}
    await leader.until(lambda: leader.waiters() == 0)


async def test_streams_leave_room_for_other_requests(
    second: Second, leader: Live, reader: StreamReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shares in (second.forwarder._shares, second.forwarder._endless):
        monkeypatch.setattr(shares, "_shares", Shares(3))
    reading = [asyncio.create_task(StreamReader(reader.port).read(until=2)) for _ in range(2)]
    await leader.until(lambda: leader.waiters() == 2)
    await publish(second, "a", "b")
    await asyncio.gather(*reading)
    await until(lambda: not second.forwarder._endless._shares.used)


async def test_a_stream_continues_at_the_next_leader(
    second: Second, leader: Live, reader: StreamReader
) -> None:
    ids = await publish(second, "a")
    reading = asyncio.create_task(reader.read())
    await until(lambda: len(reader.messages) == 1)

    lease = Lease(1, LEASE_S, Hands(), sent_s=0.0)
    second.routing.lead(0, leader.services, lambda: lease.left_s)  # its store, as after a takeover
    second.routing.set_leader(0, None, "")
    await reading
    ids += await publish(second, "b")
    head = await reader.read(until=2)
    assert b"tms-forwarded-by" not in head

    reading = asyncio.create_task(reader.read())
    await leader.until(lambda: leader.waiters() == 1)
    await second.routing.leave(0, leader.services.stop_waiting)
    second.routing.set_leader(0, f"http://127.0.0.1:{leader.port}", "")
    await reading
    ids += await publish(second, "c")
    head = await reader.read()
    assert b"tms-forwarded-by" in head
    assert reader.ids == ids
