"""Cleanup in its own thread, with real time and other work: nothing readable is lost.

Producers publish, commit, invalidate and abandon transactions, and delete topics and create them
again. The store is closed and opened, and passes follow each other without a pause. The test takes
twenty seconds times the scale.
"""

import asyncio
import random
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests import scale
from tests.scale import scaled
from tests.waiting import until
from tms.cli.inspected import parts
from tms.core.errors import TopicNotFound, TransactionNotInProgress
from tms.core.limits import Limits
from tms.core.services.transactions import StartRequest
from tms.core.values.inspection import CHECKED, ROWS_MAX, PartwiseInspection
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Reading, isolation_of
from tms.core.values.topic import TopicId
from tms.server.node import OpenServices, open_services
from tms.server.stores import inspect
from tms.settings import Settings

pytestmark = pytest.mark.slow

SECONDS = float(scaled(20, least=4))
EPISODE_S = 4.0
TTL_S = 2
MARGIN_S = 0.5
"""This close to the end of its time to live, a message may be there or not."""
TOPICS = [TopicId("ns", f"t{number}") for number in range(4)]
LIMITS = Limits(
    cleanup_period_s=0.02,
    cleanup_grace_s=1,
    cleanup_slice_rows=50,
    transaction_lifetime_s_max=2,
    transaction_timeout_s_default=1,
    transaction_timeout_s_max=2,
    transaction_long_timeout_s=2,
)
SETTINGS = Settings(sync=False, leveldb_write_buffer_bytes=256 * 1024)
"""LevelDB's log grows to the size of its write buffer before anything is merged."""
BYTES = 300


@dataclass
class Ledger:
    """The acknowledged messages of a topic's generation: when each was sent and acknowledged."""

    plain: dict[bytes, tuple[float, float]] = field(default_factory=dict)
    committed: dict[bytes, tuple[float, float]] = field(default_factory=dict)
    dead: set[bytes] = field(default_factory=set)


class Run:
    def __init__(self, folder: Path, seed: int) -> None:
        self.store = f"leveldb:{folder}"
        self.chance = random.Random(seed)
        self.ledgers = {topic_id: Ledger() for topic_id in TOPICS}
        self.locks: dict[TopicId, asyncio.Lock] = {}
        self.count = 0
        self.bytes = 0
        """About what was published."""

    def payloads(self) -> list[bytes]:
        self.count += 1
        number = b"%d " % self.count
        count = self.chance.choice((1, 5, 40))
        self.bytes += count * BYTES
        return [number + self.chance.randbytes(BYTES) for _ in range(count)]

    async def publish(self, services: OpenServices, topic_id: TopicId) -> None:
        payloads, ledger = self.payloads(), self.ledgers[topic_id]
        begun_s = time.time()
        await services.messaging.publish(topic_id, payloads)
        ledger.plain |= dict.fromkeys(payloads, (begun_s, time.time()))

    async def transact(self, services: OpenServices, topic_id: TopicId) -> None:
        payloads, ledger = self.payloads(), self.ledgers[topic_id]
        try:
            await self.try_to_transact(services, topic_id, payloads)
        except TransactionNotInProgress:  # it timed out: the machine is busy
            ledger.dead |= set(payloads)

    async def try_to_transact(
        self, services: OpenServices, topic_id: TopicId, payloads: list[bytes]
    ) -> None:
        messaging, transactions = services.messaging, services.transactions
        ledger, begun_s = self.ledgers[topic_id], time.time()
        pointer = (await transactions.start(StartRequest())).transaction_id
        outcome = self.chance.choice(("commit", "invalidate", "abandon"))
        if outcome != "commit":
            ledger.dead |= set(payloads)
        if self.chance.random() < 0.5:
            await messaging.store(topic_id, payloads, pointer)
            await messaging.publish(topic_id, [], pointer)
        else:
            await messaging.publish(topic_id, payloads, pointer)
        if outcome == "commit":
            await transactions.commit(pointer)
            ledger.committed |= dict.fromkeys(payloads, (begun_s, time.time()))
        elif outcome == "invalidate":
            await transactions.invalidate(pointer)

    async def recreate(self, services: OpenServices, topic_id: TopicId) -> None:
        await services.messaging.delete_topic(topic_id)
        self.ledgers[topic_id] = Ledger()
        await services.messaging.create_topic(topic_id, {"ttl": TTL_S})

    async def check(self, services: OpenServices, topic_id: TopicId) -> None:
        ledger = self.ledgers[topic_id]
        asked_s = time.time()
        plain = await self.seen(services, topic_id, committed=False)
        committed = await self.seen(services, topic_id, committed=True)
        now = time.time()
        both = [*ledger.plain.items(), *ledger.committed.items()]
        young = {p for p, (begun_s, _) in both if begun_s > now - TTL_S + MARGIN_S}
        assert young <= plain
        assert not committed & ledger.dead
        for part in (ledger.plain, ledger.committed):
            for payload in [p for p, (_, done_s) in part.items() if done_s < asked_s - 2 * TTL_S]:
                del part[payload]
                assert payload not in plain

    async def seen(
        self, services: OpenServices, topic_id: TopicId, *, committed: bool
    ) -> set[bytes]:
        found = services.messaging.poll(
            topic_id,
            Reading(FIRST_ID, limit=1_000_000, view=isolation_of(committed=committed)),
        )
        return {message.payload async for block in found for message in block}

    async def work(self, services: OpenServices, until: float) -> None:
        acts = [self.publish] * 400 + [self.transact] * 300 + [self.check] * 50 + [self.recreate]
        while time.monotonic() < until:
            topic_id = self.chance.choice(TOPICS)
            # A message published while its topic is deleted may survive or not, so use a lock.
            async with self.locks[topic_id]:
                await self.chance.choice(acts)(services, topic_id)

    async def episode(self) -> None:
        """Open the store, work, and close it."""
        services = await open_services(self.store, LIMITS, settings=SETTINGS)
        for topic_id in TOPICS:
            try:
                await services.messaging.topic(topic_id)
            except TopicNotFound:
                await services.messaging.create_topic(topic_id, {"ttl": TTL_S})
        self.locks = {topic_id: asyncio.Lock() for topic_id in TOPICS}
        try:
            await self.work_and_look(services)
        finally:
            await services.close()

    async def work_and_look(self, services: OpenServices) -> None:
        until = time.monotonic() + EPISODE_S
        await asyncio.gather(*(self.work(services, until) for _ in range(3)))
        assert services.cleanup is not None
        state = await services.cleanup.state()
        assert (state.failed_passes, state.last_failure) == (0, None)
        assert state.dropped_rows > 0
        assert state.inverted_rows > 0
        assert services.inspection is not None
        assert await problems(services.inspection) == []


async def problems(inspection: PartwiseInspection) -> list[str]:
    found: list[str] = []
    for checked in CHECKED:
        check = partial(inspection.problems, checked, limit=ROWS_MAX, is_cleaned=False)
        async for part in parts(check):
            found += part.problems
    return found


async def wait_until_empty(store: str) -> None:
    """Run cleanup alone until only the last row of each topic remains.

    These rows stay, because ids continue after them.
    """
    services = await open_services(store, LIMITS, settings=SETTINGS)
    inspection = services.inspection
    assert inspection is not None

    async def is_empty() -> bool:
        left = await rows(inspection, "message"), await rows(inspection, "payload")
        return left[0] <= len(TOPICS) and not left[1]

    try:
        await until(is_empty, "cleanup leaves no rows that nobody can read")
    finally:
        await services.close()


async def rows(inspection: PartwiseInspection, table: str) -> int:
    return (await inspection.size(table, after=None, limit=ROWS_MAX)).rows


def test_everything_at_once(tmp_path: Path) -> None:
    run = Run(tmp_path, scale.seed())
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        asyncio.run(run.episode())
        inspection = inspect(run.store)
        assert asyncio.run(problems(inspection)) == []
        inspection.close()
    size = sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
    assert size <= run.bytes / 2
    asyncio.run(wait_until_empty(run.store))
