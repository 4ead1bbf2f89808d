"""The carriers of commits: a new one only joins a list, and has the guarantees of the others.

The third carrier of these tests keeps counters in rows of the Metadata table. It needs no change to
the first two, which carry positions, and publications of stored messages.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from tables.store import METADATA
from tables.store_tables import StoreTables
from tests.faults.moody_store import MoodyStore
from tests.manual_clock import ManualClock
from tests.transactions.reading import NOW_MS, SHORT, A, B, everything, polled, recovered
from tests.waiting import turns
from tms.core.errors import (
    InvalidRequest,
    OutcomeUnknown,
    PublicationRefused,
    StoreUnavailable,
    SubscriptionMoved,
    TmsError,
    TransactionConflict,
)
from tms.core.limits import Limits
from tms.core.services.commits import Carried, Carrier, CommitRequest, Stored
from tms.core.services.transactions import TransactionStatus
from tms.core.values.batch import Batch
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.subscriptions import Advance
from tms.messaging.write_requests import Writing
from tms.server import shard
from tms.server.node import OpenServices, services_on
from tms.transactions import journal

pytestmark = pytest.mark.anyio

FIRST = bytes(19) + b"\x01"


@dataclass(frozen=True, slots=True)
class CountingRequest(CommitRequest):
    """A request that also adds to counters."""

    counts: Mapping[str, int] = field(default_factory=dict)


class Counts(Carried):
    """Additions to counters that a commit carries."""

    size_bytes = 100

    def __init__(self, counters: "Counters", added: Mapping[str, int]) -> None:
        self._counters = counters
        self._added = added
        self.pointers: Collection[int] = ()

    def on_queued(self) -> None:
        self._counters.held += 1

    def check(self, write_pointers: Collection[int]) -> None:
        if self._counters.is_stale:
            raise StoreUnavailable(reason="the counters are read again")
        self.pointers = write_pointers
        if any(self._counters.current.get(name, 0) + by < 0 for name, by in self._added.items()):
            raise InvalidRequest("invalid_body", expected="a counter that does not go below zero")

    def add_rows(self, batch: Batch, now_ms: int) -> None:
        for name, by in self._added.items():
            value = self._counters.current.get(name, 0) + by
            self._counters.current[name] = value
            batch.put(METADATA, row_of(name), b"%d" % value)

    def on_durable(self) -> None:
        self._counters.durable = dict(self._counters.current)
        self._counters.seen.append(tuple(self.pointers))

    def on_failed(self) -> None:
        self._counters.is_stale = True

    def release(self) -> None:
        self._counters.held -= 1


class Counters:
    """The third carrier."""

    def __init__(self) -> None:
        self.current: dict[str, int] = {}
        self.durable: dict[str, int] = {}
        self.seen: list[tuple[int, ...]] = []
        """The pointers of the transactions that counted."""
        self.held = 0
        self.is_stale = False

    def carry(
        self,
        request: CommitRequest,
        caller: Caller,
    ) -> AbstractAsyncContextManager[Counts] | None:
        assert caller is ANYBODY
        is_counting = isinstance(request, CountingRequest) and request.counts
        return self._counts(request.counts) if is_counting else None  # type: ignore[attr-defined]

    @asynccontextmanager
    async def _counts(self, added: Mapping[str, int]) -> AsyncIterator[Counts]:
        self.held += 1
        try:
            await turns()
            yield Counts(self, added)
        finally:
            self.held -= 1

    def read_again(self, store: MoodyStore) -> None:
        self.current = {
            name: int(value)
            for name in self.current
            if (value := store.get(METADATA, row_of(name))) is not None
        }
        self.durable = dict(self.current)
        self.is_stale = False


def row_of(name: str) -> bytes:
    return b"\xffcount:" + name.encode()


@pytest.fixture
def store() -> MoodyStore:
    return MoodyStore()


@pytest.fixture
def counters() -> Counters:
    return Counters()


@pytest.fixture
async def services(
    store: MoodyStore,
    counters: Counters,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[OpenServices]:
    usual = shard.carriers_of

    def carriers_of(writing: Writing, *services: Carrier) -> list[Carrier]:
        return [*usual(writing, *services), counters]

    monkeypatch.setattr(shard, "carriers_of", carriers_of)
    monkeypatch.setattr(journal, "_RECOVER_EVERY_S", 0.01)
    services = await services_on(StoreTables(store), Limits(), clock, CollectorRegistry())
    for topic_id in (A, B):
        await services.messaging.create_topic(topic_id)
    await services.subscriptions.create_subscription(A, "s")
    yield services
    store.settle()
    await services.close()
    assert counters.held == 0, "what a part holds is let go, whatever becomes of the commit"


async def position_of(services: OpenServices) -> tuple[bytes | None, int]:
    found = await services.subscriptions.subscription(A, "s")
    return found.after, found.version


async def everything_in(
    services: OpenServices, counts: Mapping[str, int], *, version: int = NOW_MS * 1000
) -> tuple[int, CountingRequest]:
    """Return a transaction that has published and stored, and a request of all three kinds."""
    tx = await services.transactions.start(SHORT)
    await services.messaging.publish(A, [b"published"], tx.write_pointer)
    await services.messaging.store(B, [b"stored"], tx.write_pointer)
    moves = [Advance(A, "s", FIRST, version)]
    return tx.transaction_id, CountingRequest(moves, [Stored(B, tx.write_pointer)], counts=counts)


async def is_open(services: OpenServices, transaction_id: int) -> bool:
    status = (await services.transactions.info(transaction_id)).status
    return status is TransactionStatus.IN_PROGRESS


async def test_all_is_carried_by_one_write(
    services: OpenServices, counters: Counters, store: MoodyStore
) -> None:
    tx, request = await everything_in(services, {"a": 2})
    flushes = services.messaging.metrics.flush_requests.total
    await services.transactions.commit(tx, request)
    assert services.messaging.metrics.flush_requests.total == flushes + 1
    assert counters.durable == {"a": 2}
    assert counters.seen == [(tx,)]
    assert store.get(METADATA, row_of("a")) == b"2"
    assert await polled(services, A) == [b"published"]
    assert await polled(services, B) == [b"stored"]
    assert await position_of(services) == (FIRST, NOW_MS * 1000 + 1)


async def test_the_third_refuses_all(
    services: OpenServices, counters: Counters, store: MoodyStore
) -> None:
    tx, request = await everything_in(services, {"a": 1, "b": -1})
    with pytest.raises(InvalidRequest):
        await services.transactions.commit(tx, request)
    assert await is_open(services, tx)
    assert (counters.current, counters.seen) == ({}, [])
    assert store.get(METADATA, row_of("a")) is None
    assert await polled(services, A) == await everything(services, B) == []
    assert await position_of(services) == (None, NOW_MS * 1000)
    await services.transactions.commit(tx, CountingRequest(*carried(request), counts={"a": 1}))
    assert counters.durable == {"a": 1}
    assert await polled(services, B) == [b"stored"]


def carried(request: CommitRequest) -> tuple[list[Advance], list[Stored]]:
    return list(request.advances), list(request.publish)


@pytest.mark.parametrize("who", ["the commit", "a position", "what was stored"])
async def test_each_other_refuses_the_third(
    services: OpenServices, counters: Counters, who: str
) -> None:
    error: type[TmsError]
    tx, request = await everything_in(services, {"a": 1})
    advances, publish = carried(request)
    if who == "the commit":
        other = (await services.transactions.start(SHORT)).transaction_id
        await services.transactions.can_commit(tx, [b"key"])
        await services.transactions.can_commit(other, [b"key"])
        await services.transactions.commit(other)
        error = TransactionConflict
    elif who == "a position":
        advances, error = [Advance(A, "s", FIRST, 7)], SubscriptionMoved
    else:
        publish, error = [Stored(B, tx + 1)], PublicationRefused
    with pytest.raises(error):
        await services.transactions.commit(tx, CountingRequest(advances, publish, counts={"a": 1}))
    assert (counters.current, counters.seen) == ({}, [])
    assert await everything(services, B) == []
    assert await position_of(services) == (None, NOW_MS * 1000)


@pytest.mark.parametrize("is_done", [False, True])
async def test_all_have_one_fate_if_the_write_fails(
    services: OpenServices, counters: Counters, store: MoodyStore, *, is_done: bool
) -> None:
    tx, request = await everything_in(services, {"a": 1})
    store.fail_next(is_done=is_done)
    with pytest.raises(OutcomeUnknown):
        await services.transactions.commit(tx, request)
    assert counters.is_stale
    assert counters.durable == {}
    store.settle()
    counters.read_again(store)
    await recovered(services)
    assert await is_open(services, tx) is not is_done
    assert counters.durable == ({"a": 1} if is_done else {})
    assert await polled(services, A) == ([b"published"] if is_done else [])
    assert await polled(services, B) == ([b"stored"] if is_done else [])
    assert await position_of(services) == (
        (FIRST, NOW_MS * 1000 + 1) if is_done else (None, NOW_MS * 1000)
    )
    if not is_done:
        await services.transactions.commit(tx, request)
        assert counters.durable == {"a": 1}
        assert await polled(services, B) == [b"stored"]


async def test_of_two_in_one_flush_the_second_sees_the_first(
    services: OpenServices, counters: Counters
) -> None:
    counters.current = {"a": 1}
    one, two = [(await services.transactions.start(SHORT)).transaction_id for _ in range(2)]
    taken = CountingRequest(counts={"a": -1})
    outcomes = await asyncio.gather(
        *(services.transactions.commit(each, taken) for each in (one, two)),
        return_exceptions=True,
    )
    assert [type(each) for each in outcomes] == [type(None), InvalidRequest]
    assert counters.durable == {"a": 0}


class TestPublishAll:
    """A publish to several topics has carriers like a commit."""

    async def test_it_carries(self, services: OpenServices, counters: Counters) -> None:
        request = CountingRequest([Advance(A, "s", FIRST, NOW_MS * 1000)], (), counts={"a": 1})
        done = await services.messaging.publish_all({A: [b"1"], B: [b"2"]}, request=request)
        assert counters.durable == {"a": 1}
        assert counters.seen == [(done.write_pointer,)]
        assert await position_of(services) == (FIRST, NOW_MS * 1000 + 1)
        assert await polled(services, B) == [b"2"]

    async def test_it_is_refused_whole(self, services: OpenServices, counters: Counters) -> None:
        asked: list[tuple[type[TmsError], CommitRequest]] = [
            (SubscriptionMoved, CountingRequest([Advance(A, "s", FIRST, 7)], (), counts={"a": 1})),
            (
                InvalidRequest,
                CountingRequest([Advance(A, "s", FIRST, NOW_MS * 1000)], (), counts={"a": -1}),
            ),
            (PublicationRefused, CountingRequest((), [Stored(B, 1)], counts={"a": 1})),
        ]
        for error, request in asked:
            with pytest.raises(error):
                await services.messaging.publish_all(
                    {A: [b"1"], B: [b"2"]}, owner="o", sequence=1, request=request
                )
        assert (counters.current, counters.seen) == ({}, [])
        assert await position_of(services) == (None, NOW_MS * 1000)
        assert await everything(services, A) == await everything(services, B) == []
        done = await services.messaging.publish_all({A: [b"1"]}, owner="o", sequence=1)
        assert not done.is_duplicate, "what was refused has not used its sequence"

    async def test_a_repeat_does_nothing(self, services: OpenServices, counters: Counters) -> None:
        """The position has moved by then, but the publish itself moved it."""
        request = CountingRequest([Advance(A, "s", FIRST, NOW_MS * 1000)], (), counts={"a": 1})
        first, again = [
            await services.messaging.publish_all(
                {A: [b"1"]}, owner="o", sequence=1, request=request
            )
            for _ in range(2)
        ]
        assert again.is_duplicate
        assert again.write_pointer == first.write_pointer
        assert counters.durable == {"a": 1}
        assert await position_of(services) == (FIRST, NOW_MS * 1000 + 1)
        assert await everything(services, A) == [b"1"]
