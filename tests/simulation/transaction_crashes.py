"""Clients of a store that dies at any of its writes, and what the store must then contain."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from cleanup.cleaner import Cleaner
from cleanup.loop_calls import LoopServices
from cleanup.topic_rules import TopicRules
from tables.store import Store
from tables.store_tables import StoreTables
from tests.faults.moody_store import MoodyStore
from tests.manual_clock import ManualClock
from tests.waiting import in_time, until
from tms.core.errors import (
    OutcomeUnknown,
    Unavailable,
)
from tms.core.limits import TTL_S_MAX, Limits
from tms.core.services.commits import CommitRequest
from tms.core.services.messaging import RollbackRange
from tms.core.services.transactions import StartRequest, TransactionStatus
from tms.core.values.batch import Batch
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Isolation, Reading
from tms.core.values.subscriptions import Advance
from tms.core.values.topic import TopicId
from tms.server.node import OpenServices, services_on

NOW_MS = 1_800_000_000_000
TOPICS = TopicId("default", "a"), TopicId("default", "b")
CLIENTS = 3
TRANSACTIONS = 4
TIMEOUT_S = 30
LIMITS = Limits(transaction_snapshot_edits=10)
HOUR_MS = 3_600_000
FAR_MS = 400 * 24 * HOUR_MS
STEPS_MS = [sign * ms for sign in (1, -1) for ms in (61_000, 26 * HOUR_MS, FAR_MS)]
STEPS_SHARE = 0.3
"""The share of transactions with a step of the clock between start and publish."""


class DyingStore(MoodyStore):
    """Dies at the n-th write: that write is done or not, and no later one is."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.dies_at: tuple[int, bool] | None = None

    def write(self, batch: Batch) -> None:
        if self.dies_at is not None and self.writes == self.dies_at[0]:
            self.fail_next(is_done=self.dies_at[1])
        self.writes += 1
        super().write(batch)


@dataclass
class Work:
    """The work of one transaction, and which of its requests were answered."""

    name: str
    payloads: dict[TopicId, list[bytes]] = field(default_factory=dict)
    transaction_id: int | None = None
    was_sent: bool = False
    """Its commit."""
    was_committed: bool = False
    """That was answered."""
    was_undone: bool = False
    sequence: int | None = None


@dataclass
class Ledger:
    """All work, and the messages that a committed reader has seen."""

    works: list[Work] = field(default_factory=list)
    seen: dict[TopicId, list[bytes]] = field(default_factory=lambda: {t: [] for t in TOPICS})
    moves: int = 0
    moves_sent: int = 0


async def opened(store: Store, clock: ManualClock, limits: Limits = LIMITS) -> OpenServices:
    return await services_on(StoreTables(store), limits, clock, CollectorRegistry())


async def committed(services: OpenServices, topic_id: TopicId) -> list[bytes]:
    blocks = services.messaging.poll(topic_id, Reading(FIRST_ID, view=Isolation.COMMITTED))
    return [message.payload async for block in blocks for message in block]


class Client:
    """Runs transactions as the seed says, and records the answers."""

    def __init__(
        self, services: OpenServices, ledger: Ledger, clock: ManualClock, name: str, seed: str
    ) -> None:
        self.services = services
        self.clock = clock
        self.ledger = ledger
        self.name = name
        self.random = random.Random(seed)

    async def run(self) -> None:
        kinds: list[Callable[[Work], Awaitable[None]]] = [
            self.commit, self.commit, self.abort, self.invalidate, self.leave, self.at_once,
        ]  # fmt: skip
        for number in range(TRANSACTIONS):
            work = Work(f"{self.name}-{number}")
            self.ledger.works.append(work)
            await self.random.choice(kinds)(work)
            for topic_id in TOPICS:
                found = await committed(self.services, topic_id)
                before = self.ledger.seen[topic_id]
                if len(found) > len(before):
                    assert found[: len(before)] == before
                    self.ledger.seen[topic_id] = found

    def payloads_of(self, work: Work) -> dict[TopicId, list[bytes]]:
        return {
            topic_id: [
                f"{work.name}/{topic_id.name}/{number}".encode()
                for number in range(self.random.randint(1, 3))
            ]
            for topic_id in TOPICS
        }

    async def publish(self, work: Work) -> list[tuple[TopicId, RollbackRange]]:
        """Start, and publish to all topics: directly, by reference, or after a checkpoint."""
        tx = await self.services.transactions.start(StartRequest(client=self.name))
        work.transaction_id = tx.transaction_id
        work.payloads = self.payloads_of(work)
        if self.random.random() < STEPS_SHARE:
            self.clock.step(self.random.choice(STEPS_MS))
        ranges = []
        for topic_id, payloads in work.payloads.items():
            pointer = tx.write_pointer
            how = self.random.choice(("direct", "stored", "checkpoint"))
            if how == "checkpoint":
                tx = await self.services.transactions.checkpoint(tx.transaction_id)
                pointer = tx.write_pointer
            if how == "stored":
                await self.services.messaging.store(topic_id, payloads, pointer)
            direct = [] if how == "stored" else payloads
            found = await self.services.messaging.publish(topic_id, direct, pointer)
            assert found.rollback_range is not None
            ranges.append((topic_id, found.rollback_range))
        return ranges

    async def commit(self, work: Work) -> None:
        await self.publish(work)
        assert work.transaction_id is not None
        await self.services.transactions.can_commit(work.transaction_id, [work.name.encode()])
        advances = []
        if self.random.random() < 0.5:
            position = await self.services.subscriptions.subscription(TOPICS[0], self.name)
            advances = [Advance(TOPICS[0], self.name, b"\x01" * 20, position.version)]
            self.ledger.moves_sent += 1
        work.was_sent = True
        await self.services.transactions.commit(work.transaction_id, CommitRequest(advances))
        work.was_committed = True
        self.ledger.moves += len(advances)

    async def abort(self, work: Work) -> None:
        ranges = await self.publish(work)
        assert work.transaction_id is not None
        for topic_id, published in ranges:
            await self.services.messaging.rollback(topic_id, published)
        await self.services.transactions.abort(work.transaction_id)
        work.was_undone = True

    async def invalidate(self, work: Work) -> None:
        await self.publish(work)
        assert work.transaction_id is not None
        await self.services.transactions.invalidate(work.transaction_id)
        work.was_undone = True

    async def leave(self, work: Work) -> None:
        await self.publish(work)

    async def at_once(self, work: Work) -> None:
        work.payloads = self.payloads_of(work)
        work.sequence = len(self.ledger.works)
        work.was_sent = True
        await self.services.messaging.publish_all(
            work.payloads, owner=work.name, sequence=work.sequence
        )
        work.was_committed = True


async def run_clients(
    services: OpenServices, ledger: Ledger, clock: ManualClock, seed: int
) -> None:
    """Run the clients until they are done or the server is dead."""

    async def run(client: Client) -> None:
        with suppress(Unavailable, OutcomeUnknown):
            await client.run()

    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            client = Client(services, ledger, clock, f"c{number}", f"{seed}-{number}")
            group.create_task(run(client))


async def prepared(store: Store, clock: ManualClock, limits: Limits = LIMITS) -> OpenServices:
    services = await opened(store, clock, limits)
    for topic_id in TOPICS:
        await services.messaging.create_topic(topic_id, {"ttl": TTL_S_MAX})
    for number in range(CLIENTS):
        await services.subscriptions.create_subscription(TOPICS[0], f"c{number}")
    return services


async def writes_of(seed: int) -> int:
    """Return how many durable writes the workload makes."""
    store, clock = DyingStore(), ManualClock(NOW_MS)
    services = await prepared(store, clock)
    before = store.writes
    await run_clients(services, Ledger(), clock, seed)
    await services.close()
    return store.writes - before


async def check(services: OpenServices, ledger: Ledger, clock: ManualClock) -> None:
    """Compare what a reader sees after all timeouts with the answers that clients got."""
    clock.advance((TIMEOUT_S + 1) * 1000)

    async def have_ended() -> bool:
        return not await services.transactions.in_progress()

    await until(have_ended)
    shown = {topic_id: await committed(services, topic_id) for topic_id in TOPICS}
    for topic_id, payloads in shown.items():
        assert payloads[: len(ledger.seen[topic_id])] == ledger.seen[topic_id]
        assert max(Counter(payloads).values(), default=1) == 1
    for work in ledger.works:
        is_there = await _is_there_whole(work, shown)
        assert is_there or not work.was_committed
        assert not is_there or (work.was_sent and not work.was_undone)
        if work.transaction_id is not None and work.was_sent:
            info = await services.transactions.info(work.transaction_id)
            assert (info.status is TransactionStatus.COMMITTED) == is_there
        if work.sequence is not None:
            again = await services.messaging.publish_all(
                work.payloads, owner=work.name, sequence=work.sequence
            )
            assert again.is_duplicate == is_there
    positions = await services.subscriptions.subscriptions(TOPICS[0])
    first_versions = [NOW_MS * 1000 + number for number in range(CLIENTS)]
    moves = sum(position.version for position in positions) - sum(first_versions)
    assert ledger.moves <= moves <= ledger.moves_sent


async def check_cleaned(services: OpenServices, store: Store, clock: ManualClock) -> None:
    """Check that committed messages stay when cleanup forgets which transactions were invalid."""
    before = {topic_id: await committed(services, topic_id) for topic_id in TOPICS}
    transactions = services.own_transactions
    assert transactions is not None
    asked = LoopServices(asyncio.get_running_loop(), services.messaging, transactions)
    trusted, limits = services.engine.clock, services.engine.limits
    cleaner = Cleaner(
        store, asked, limits, trusted, rules=TopicRules(store, asked, limits, trusted)
    )
    behind_ms = max(0, NOW_MS + clock.steady_ms() - clock.now_ms())
    for by_ms in (0, 51 * HOUR_MS, behind_ms + 120 * HOUR_MS):
        clock.advance(by_ms)
        async with in_time():
            await asyncio.to_thread(list, cleaner.steps(is_on_demand=True))
    assert not (await transactions.invalid_list()).since, "it has forgotten all of them"
    # Write a snapshot now, so that none remains that lists the invalid transactions.
    reader = await transactions.start(StartRequest())
    await transactions.commit(reader.transaction_id)
    assert {topic_id: await committed(services, topic_id) for topic_id in TOPICS} == before


async def _is_there_whole(work: Work, shown: dict[TopicId, list[bytes]]) -> bool:
    """Return whether the work is visible; it must be so in all topics and in order, or in none."""
    found = []
    for topic_id, payloads in work.payloads.items():
        mine = [p for p in shown[topic_id] if p.startswith(f"{work.name}/".encode())]
        assert mine in ([], payloads)
        found.append(bool(mine))
    assert len(set(found)) <= 1
    return bool(found) and found[0]
