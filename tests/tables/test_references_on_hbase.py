"""How many calls to a simulated HBase references to stored payloads cost."""

from collections.abc import AsyncIterator

import pytest

from tests.simulation.gateway import Mode, Rows
from tests.simulation.leaders import Leader
from tests.simulation.leaders_world import START_MS
from tms.core.errors import OutcomeUnknown
from tms.core.services.transactions import StartRequest
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Reading
from tms.core.values.topic import TopicId

TOPIC = TopicId("default", "t")
REFERENCES = 400


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
async def leader(rows: Rows) -> AsyncIterator[Leader]:
    leader = Leader(rows, None, START_MS)
    await leader.open()
    await leader.services.messaging.create_topic(TOPIC)
    yield leader
    await leader.end()


async def refer(leader: Leader, payload: bytes) -> int:
    """Store a message, publish it by reference, and return the write pointer."""
    transaction = await leader.services.transactions.start(StartRequest())
    pointer = transaction.write_pointer
    await leader.services.messaging.store(TOPIC, [payload], pointer)
    await leader.services.messaging.publish(TOPIC, [], pointer)
    return pointer


async def polled(leader: Leader) -> tuple[list[bytes], int]:
    """Return the payloads of a poll, and its number of scans."""
    before = leader.gateway.scans
    page = await leader.services.messaging.page(TOPIC, Reading(FIRST_ID, limit=1_000))
    payloads = [message.payload for block in page.blocks for message in block]
    return payloads, leader.gateway.scans - before


@pytest.mark.anyio
async def test_the_references_of_a_page_are_read_by_one_scan_and_then_from_memory(
    leader: Leader,
) -> None:
    payloads = [b"%d" % number for number in range(REFERENCES)]
    for payload in payloads:
        await refer(leader, payload)
    assert await polled(leader) == (payloads, 1)
    assert await polled(leader) == (payloads, 0)

    pointer = await refer(leader, b"young")
    assert await polled(leader) == ([*payloads, b"young"], 1)
    await leader.services.messaging.store(TOPIC, [b"younger"], pointer)
    assert await polled(leader) == ([*payloads, b"young", b"younger"], 1)
    assert await polled(leader) == ([*payloads, b"young", b"younger"], 0)


@pytest.mark.anyio
async def test_what_a_failed_write_adds_later_is_given(rows: Rows, leader: Leader) -> None:
    pointer = await refer(leader, b"a")
    leader.gateway.mode = Mode.HELD
    with pytest.raises(OutcomeUnknown):
        await leader.services.messaging.store(TOPIC, [b"late"], pointer)
    # Each poll needs one scan of the messages and one of the run.
    assert await polled(leader) == ([b"a"], 2)
    assert await polled(leader) == ([b"a"], 2)

    [call] = leader.gateway.late
    rows.carry_out(call)

    assert await polled(leader) == ([b"a", b"late"], 2)


@pytest.mark.anyio
async def test_lags_read_references_together_and_then_from_memory(leader: Leader) -> None:
    services = leader.services
    await services.subscriptions.create_subscription(TOPIC, "s")
    await services.groups.create_group(TOPIC, "g")
    for _ in range(REFERENCES):
        await refer(leader, b"x")

    async def lags() -> tuple[list[int], int]:
        before = leader.gateway.scans
        await services.refresh_lags()
        return sorted(each.messages for each in services.lags()), leader.gateway.scans - before

    for scans_max in (10, 4):
        counted, scans = await lags()
        assert counted == [REFERENCES, REFERENCES]
        assert scans <= scans_max
    pointer = await refer(leader, b"y")
    await services.messaging.store(TOPIC, [b"z"], pointer)
    assert (await lags())[0] == [REFERENCES + 2, REFERENCES + 2]


@pytest.mark.anyio
async def test_lags_leave_in_memory_what_polls_have_read(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = leader.services
    for each in range(20):
        await refer(leader, b"%d" % each)
    read, _ = await polled(leader)
    budget = leader.services.engine.states.loaded(TOPIC).cache.runs._budget  # type: ignore[union-attr]
    budget._bytes_max = budget._bytes
    other = TopicId("default", "u")
    await services.messaging.create_topic(other)
    await services.subscriptions.create_subscription(other, "s")
    for _ in range(20):
        transaction = await services.transactions.start(StartRequest())
        await services.messaging.store(other, [b"x"], transaction.write_pointer)
        await services.messaging.publish(other, [], transaction.write_pointer)
    await services.refresh_lags()
    assert [each.messages for each in services.lags()] == [20]
    assert await polled(leader) == (read, 0)
