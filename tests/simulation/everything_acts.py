"""The acts of `everything` on a server, and what the model learns from each."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from tests.servers.stepping_clock import SteppingClock
from tests.simulation.everything_model import (
    Difference,
    Entry,
    Fate,
    Publish,
    TopicModel,
    Tx,
)
from tms.client.remote.remote_services import RemoteServices
from tms.core.errors import (
    OutcomeUnknown,
    RequestError,
    SubscriptionNotFound,
    TopicNotFound,
    Unavailable,
)
from tms.core.services.commits import CommitRequest
from tms.core.services.transactions import StartRequest, TransactionStatus
from tms.core.values.filters import Filter, filter_of
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Reading, isolation_of
from tms.core.values.subscriptions import Advance
from tms.core.values.topic import TopicId

NAMESPACE = "default"
NAMES = tuple("abcdef")
POSITIONS = ("p", "q")
TTLS_S = (1, 2, 5, 30)
BOUNDS = {"e": 10, "f": 40}
"""The topics that have a bound, and about how many messages each keeps."""
TIMEOUT_S = 3
OPEN_MAX = 5
LOST = (OutcomeUnknown, Unavailable)
STEPS_MS = (300_000, 93_600_000, 34_560_000_000)

Settle = Callable[[], Awaitable[None]]
T = TypeVar("T")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Killed(Exception):
    """Raised if the server died during a request."""


class Acts:
    """The acts on successive servers, and what is known of their state."""

    def __init__(self, seed: int, clock: SteppingClock) -> None:
        self.chance = random.Random(seed)
        self.clock = clock
        self.greatest_ms = 0
        """The greatest time of any id; a later id must have a time that the clock has reached."""
        self.topics = {name: TopicModel(name, bound=BOUNDS.get(name)) for name in NAMES}
        self.open: list[Tx] = []
        self.settle: list[Settle] = []
        """The requests in progress, whose outcome must be asked for after a kill."""
        self.counts: Counter[str] = Counter()
        self.number = 0
        """The number of the latest payload."""

    async def set_the_clock(self) -> None:
        """Set the server's clock far ahead, or right again; the server believes neither step."""
        if self.clock.wall_ms:
            self.clock.step(-self.clock.wall_ms)
        else:
            self.clock.step(self.chance.choice(STEPS_MS))
            self.greatest_ms = max(self.greatest_ms, now_ms() + self.clock.wall_ms + STEPS_MS[0])

    def ask(self, services: RemoteServices) -> None:
        """Send requests to these from now on."""
        self.messaging, self.transactions = services.messaging, services.transactions
        self.subscriptions = services.subscriptions

    def id_of(self, topic: TopicModel) -> TopicId:
        return TopicId(NAMESPACE, topic.name)

    def payloads(self, count: int | None = None) -> list[bytes]:
        count = count or self.chance.choice((1, 1, 3, 20))
        self.number += count
        size = self.chance.choice((1, 10, 300))
        return [b"%d " % (self.number - n) + bytes(size) for n in range(count)]

    async def asked(self, work: Awaitable[T], *settle: Settle) -> T:
        """Return the answer to a request. After a kill, `settle` finds out the outcome later."""
        try:
            return await work
        except LOST as error:
            self.settle += settle
            raise Killed(str(error)) from error

    def existing(self) -> TopicModel | None:
        return self.chance.choice([t for t in self.topics.values() if t.exists] or [None])

    async def change_topic(self) -> None:
        topic = self.topics[self.chance.choice(NAMES)]
        topic_id, ttl_s = self.id_of(topic), self.chance.choice(TTLS_S)
        began = now_ms()
        look = partial(self.topic_known, topic, began)
        if not topic.exists:
            self.settle.append(look)
            properties = {"ttl": ttl_s, **self.bound_of(topic)}
            await self.asked(self.messaging.create_topic(topic_id, properties))
            await look()
            self.settle.remove(look)
        elif self.chance.random() < 0.3:
            await self.asked(self.messaging.delete_topic(topic_id), look)
            topic.deleted()
        else:
            properties = {"ttl": ttl_s, "n": self.number, **self.bound_of(topic)}
            await self.asked(self.messaging.update_topic(topic_id, properties), look)
            topic.changed(ttl_s, (began, now_ms()))

    def bound_of(self, topic: TopicModel) -> dict[str, int]:
        return {} if topic.bound is None else {"retention_messages": topic.bound}

    async def topic_known(self, topic: TopicModel, began: int) -> None:
        """Find out which change of a topic was done."""
        try:
            found = await self.asked(self.messaging.topic(self.id_of(topic)))
        except TopicNotFound:
            topic.deleted()
            return
        if topic.exists and found.generation == topic.generation:
            topic.changed(found.ttl_s, (began, now_ms()))
        else:
            topic.created(found.generation, found.ttl_s)

    async def publish(self, topic: TopicModel | None = None, tx: Tx | None = None) -> None:
        topic = topic or self.existing()
        if topic is None:
            return
        payloads, one = self.payloads(), Publish(is_sure=False, tx=tx)
        began, generation = now_ms(), topic.generation
        entries = [Entry(payload, one, (began, began)) for payload in payloads]
        pointer = None if tx is None else tx.id
        topic_id = self.id_of(topic)
        try:
            if pointer is not None and self.stores(tx, topic):
                await self.asked(self.messaging.store(topic_id, payloads, pointer))
                payloads = []
            published = await self.messaging.publish(topic_id, payloads, pointer)
        except RequestError as error:
            if tx is None or now_ms() < tx.open_until_ms:
                raise Difference(f"{topic.name}: a publish was refused: {error}") from error
            self.open.remove(tx)
            return
        except LOST as error:
            self.added(topic, entries, began)
            raise Killed from error
        one.is_sure = True
        self.added(topic, entries, began)
        if tx is not None and published.rollback_range is not None:
            tx.ranges.append((topic.name, generation, published.rollback_range))

    def stores(self, tx: Tx | None, topic: TopicModel) -> bool:
        """Whether a transaction stores first; only once, as a reference publishes all of it."""
        where = topic.name, topic.generation
        if tx is None or where in tx.stored_in or self.chance.random() < 0.7:
            return False
        tx.stored_in.add(where)
        return True

    def added(self, topic: TopicModel, entries: list[Entry], began: int) -> None:
        for entry in entries:
            # After a clock that was ahead, the ids of a topic or a transaction stay ahead.
            entry.written = (began, max(now_ms(), self.greatest_ms))
        topic.entries += entries

    async def publish_to_many(self) -> None:
        """Publish to two topics, by one request or by concurrent requests."""
        topics = [topic for topic in self.topics.values() if topic.exists]
        topics = self.chance.sample(topics, min(len(topics), 3))
        if self.chance.random() < 0.5:
            done = await asyncio.gather(*map(self.publish, topics), return_exceptions=True)
            for failure in done:
                if isinstance(failure, BaseException):
                    raise failure
        elif topics:
            tx = Tx(None, 2**62, Fate.UNKNOWN)
            payloads = {topic.name: self.payloads(2) for topic in topics[:2]}
            began = now_ms()
            try:
                work = {TopicId(NAMESPACE, name): each for name, each in payloads.items()}
                await self.messaging.publish_all(work)
                tx.fate = Fate.COMMITTED
            except LOST as error:
                raise Killed from error
            finally:
                one = Publish(is_sure=tx.fate is Fate.COMMITTED, tx=tx)
                for name, each in payloads.items():
                    entries = [Entry(payload, one, (began, began)) for payload in each]
                    self.added(self.topics[name], entries, began)

    async def start(self) -> None:
        if len(self.open) >= OPEN_MAX:
            return
        began = now_ms()
        started = await self.asked(self.transactions.start(StartRequest(timeout_s=TIMEOUT_S)))
        self.open.append(Tx(started.transaction_id, began + TIMEOUT_S * 1000))

    async def publish_in_one(self) -> None:
        if self.open:
            await self.publish(tx=self.chance.choice(self.open))

    async def end(self) -> None:
        if not self.open:
            return
        tx = self.chance.choice(self.open)
        self.open.remove(tx)
        assert tx.id is not None
        way = self.chance.choice((self.commit, self.commit, self.abort, self.invalidate))
        try:
            await way(tx)
        except RequestError as error:
            if now_ms() < tx.open_until_ms and way != self.abort:
                raise Difference(f"{tx.id}: its end was refused: {error}") from error
            tx.fate = Fate.DEAD
        except LOST as error:
            tx.open_until_ms = 0  # it has ended, or will in its time
            raise Killed from error
        else:
            tx.fate = Fate.COMMITTED if way == self.commit else Fate.DEAD

    async def invalidate(self, tx: Tx) -> None:
        """Invalidate a transaction, and leave its messages to cleanup."""
        assert tx.id is not None
        await self.transactions.invalidate(tx.id)

    async def commit(self, tx: Tx) -> None:
        """Commit, and move a position with it."""
        assert tx.id is not None
        advances = []
        topic = self.existing()
        if topic is not None and topic.positions and self.chance.random() < 0.7:
            name = self.chance.choice(list(topic.positions))
            _, version = topic.positions[name]
            after = self.chance.randbytes(5).hex().encode() * 2
            advances = [Advance(self.id_of(topic), name, after, version)]
        try:
            await self.transactions.commit(tx.id, CommitRequest(advances))
        except LOST:
            tx.fate = Fate.UNKNOWN
            self.settle.append(partial(self.ended, tx, advances))
            raise
        self.moved(advances)

    def moved(self, advances: list[Advance]) -> None:
        for advance in advances:
            topic = self.topics[advance.topic_id.name]
            topic.positions[advance.name] = (advance.after, advance.expected_version + 1)
            topic.last_version = max(topic.last_version, advance.expected_version + 1)

    async def ended(self, tx: Tx, advances: list[Advance]) -> None:
        """Find out whether a commit was done; the position that it moves must agree."""
        assert tx.id is not None
        with suppress(RequestError):
            info = await self.asked(self.transactions.info(tx.id))
            if info.status is TransactionStatus.COMMITTED:
                tx.fate = Fate.COMMITTED
                self.moved(advances)
            else:
                tx.fate, tx.open_until_ms = Fate.OPEN, 0

    async def abort(self, tx: Tx) -> None:
        """Abort, after rolling back all of it or nothing."""
        assert tx.id is not None
        if self.chance.random() < 0.7:
            for name, generation, published in tx.ranges:
                if self.topics[name].exists and self.topics[name].generation == generation:
                    await self.messaging.rollback(TopicId(NAMESPACE, name), published)
        await self.transactions.abort(tx.id)

    async def change_position(self) -> None:
        topic = self.existing()
        if topic is None:
            return
        name, topic_id = self.chance.choice(POSITIONS), self.id_of(topic)
        look = partial(self.position_known, topic, name)
        if name not in topic.positions:
            self.settle.append(look)
            await self.asked(self.subscriptions.create_subscription(topic_id, name))
            await look()
            self.settle.remove(look)
        elif self.chance.random() < 0.3:
            await self.asked(self.subscriptions.delete_subscription(topic_id, name), look)
            del topic.positions[name]
        else:
            await self.check_position(topic, name)

    async def position_known(self, topic: TopicModel, name: str) -> None:
        """Find out whether a position exists that was being created or deleted."""
        was = topic.positions.get(name)
        try:
            found = await self.asked(self.subscriptions.subscription(self.id_of(topic), name))
        except (SubscriptionNotFound, TopicNotFound):
            topic.positions.pop(name, None)
            return
        topic.positions[name] = (found.after, found.version)
        if was is None and found.version <= topic.last_version:
            raise Difference(f"{topic.name}: {name} has the version {found.version} again")
        if was is not None and was != topic.positions[name]:
            raise Difference(f"{topic.name}: {name} is {found}, not {was}")
        topic.last_version = max(topic.last_version, found.version)

    async def check_position(self, topic: TopicModel, name: str) -> None:
        found = await self.asked(self.subscriptions.subscription(self.id_of(topic), name))
        if (found.after, found.version) != topic.positions[name]:
            raise Difference(f"{topic.name}: {name} is {found}, not {topic.positions[name]}")

    async def check_everything(self) -> None:
        """Find out the outcome of requests in progress; compare all topics and positions."""
        while self.settle:
            look = self.settle.pop(0)
            try:
                await look()
            except Killed:
                self.settle.insert(0, look)
                raise
        for topic in self.topics.values():
            if topic.exists:
                await self.check(topic)
                for name in list(topic.positions):
                    await self.check_position(topic, name)

    def filter_of_poll(self) -> Filter | None:
        """Return at times a filter, which all messages match, because none has a key."""
        return filter_of("not key exists") if self.counts["polls"] // 2 % 2 else None

    async def check(self, topic: TopicModel | None = None) -> None:
        """Compare the messages that readers of a topic get."""
        topic = topic or self.existing()
        if topic is None:
            return
        for committed in (False, True):
            began = now_ms()
            try:
                view = isolation_of(committed=committed)
                reading = Reading(FIRST_ID, 100_000, view, filter=self.filter_of_poll())
                polled = self.messaging.poll(self.id_of(topic), reading)
                given = [(m.id, m.payload) async for block in polled for m in block]
            except LOST as error:
                raise Killed from error
            compare = topic.check_committed if committed else topic.check_all
            compare(given, (began, now_ms()))
            self.counts["polls"] += 1
            self.counts["messages"] += len(given)
