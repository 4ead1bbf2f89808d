"""The log of schemas under faults, and how registries read it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

import tms.registry.log.schema_log
from tests.registry.registries import TOPIC, Registries, fixed
from tests.waiting import turns, until
from tms.core.errors import NoLeader, OutcomeUnknown, StoreCorrupt
from tms.core.services.messaging import Messaging
from tms.core.values.caller import REGISTRY, Caller
from tms.core.values.frame import bodies_of
from tms.core.values.message import Message, MessageBlock
from tms.registry.log.schema_log import WayToLog
from tms.registry.registration import Registered

pytestmark = pytest.mark.anyio

PART = Caller(part=REGISTRY)
DAY_MS = 24 * 3600 * 1000


class Watched:
    """A messaging interface that counts its calls, and waits or fails on request."""

    def __init__(self, messaging: Messaging) -> None:
        self._messaging = messaging
        self.polls = 0
        self.failure: Exception | None = None
        self.flows = asyncio.Event()
        self.flows.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._messaging, name)

    async def poll(self, *asked: Any, **more: Any) -> AsyncIterator[MessageBlock]:
        self.polls += 1
        if self.failure is not None:
            raise self.failure
        await self.flows.wait()
        async for block in self._messaging.poll(*asked, **more):
            yield block


def watched(registries: Registries) -> Any:
    return Watched(registries.services.messaging)


async def test_readers_wait_together_for_one_reading(registries: Registries) -> None:
    await registries.make().register("s", fixed(1))
    messaging = watched(registries)
    called = registries.make(messaging=messaging)
    await called.subjects()
    messaging.flows.clear()
    messaging.polls = 0

    asked = asyncio.gather(*(called.subjects() for _ in range(100)))
    await until(lambda: messaging.polls)
    messaging.flows.set()
    answers = await asked

    assert answers == [["s"]] * 100
    assert messaging.polls == 1


async def test_who_comes_during_a_reading_waits_for_the_next(registries: Registries) -> None:
    messaging = watched(registries)
    called = registries.make(messaging=messaging)
    await registries.make().register("s", fixed(1))
    await called.subjects()
    messaging.flows.clear()
    messaging.polls = 0
    first = asyncio.create_task(called.subjects())
    await until(lambda: messaging.polls)
    await registries.make().register("t", fixed(1))
    second = asyncio.create_task(called.subjects())
    await turns()
    messaging.flows.set()

    assert await second == ["s", "t"]
    await first


async def test_ids_and_versions_come_from_memory(registries: Registries) -> None:
    messaging = watched(registries)
    called = registries.make(messaging=messaging)
    await called.register("s", fixed(1))
    messaging.polls = 0

    assert await called.text_of(1) == fixed(1)
    assert messaging.polls == 0
    assert await called.text_of(2) == 40403
    assert messaging.polls == 1
    await registries.make().register("t", fixed(2))
    assert await called.text_of(2) == fixed(2)


async def test_memory_that_is_too_old_is_read_again(registries: Registries) -> None:
    """A tombstone may have been written and expired in the meantime."""
    called, other = registries.make(), registries.make()
    await called.register("s", fixed(1))
    await other.delete("s", permanent=False)
    await other.delete("s", permanent=True)
    cleanup = registries.services.cleanup
    assert cleanup is not None
    registries.clock.advance(DAY_MS + 1)
    assert await cleanup.run_pass(10.0)
    assert [message.is_tombstone for message in await registries.log()] == [False]

    assert await called.text_of(1) == fixed(1)
    assert await called.subjects(deleted=True) == []
    assert await called.text_of(1) == 40403


async def test_a_topic_that_was_made_again_is_read_again(registries: Registries) -> None:
    called = registries.make()
    await called.register("s", fixed(1))
    await registries.services.messaging.delete_topic(TOPIC, caller=PART)
    assert await called.subjects() == []
    assert await called.id_of("t", fixed(2)) == 1
    other = registries.make()
    await registries.services.messaging.delete_topic(TOPIC, caller=PART)
    assert await other.id_of("u", fixed(3)) == 1
    registries.clock.advance(61_000)  # the topic itself is looked up once a minute

    registered = await called.register("t", fixed(2))
    assert isinstance(registered, Registered)
    assert registered.id == 2
    assert await called.subjects() == ["t", "u"]


async def test_what_is_not_a_record_is_passed_over(
    registries: Registries, caplog: pytest.LogCaptureFixture
) -> None:
    called = registries.make()
    await called.register("s", fixed(1))
    body = Message(b"nonsense", b"nonsense").body()
    await registries.services.messaging.publish(TOPIC, bodies_of([body]), caller=PART)

    with caplog.at_level(logging.ERROR, "tms.registry.log.schema_log"):
        assert await called.id_of("t", fixed(2)) == 2
    assert "not a valid record" in caplog.text


async def test_the_log_is_waited_for_and_then_given_up(
    registries: Registries, monkeypatch: pytest.MonkeyPatch
) -> None:
    messaging = watched(registries)
    called = registries.make(messaging=messaging)
    await called.register("s", fixed(1))
    messaging.failure = NoLeader()

    with monkeypatch.context() as patched:
        patched.setattr(tms.registry.log.schema_log, "REACHED_S_MAX", 0.2)
        assert await called.subjects() == 50002
    assert await called.text_of(1) == fixed(1)
    messaging.failure = StoreCorrupt()
    assert await called.subjects() == 50001
    messaging.failure = None
    assert await called.subjects() == ["s"]


class Silent:
    """A messaging interface that can leave publishes unanswered."""

    def __init__(self, messaging: Messaging) -> None:
        self._messaging = messaging
        self.is_silent = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._messaging, name)

    async def publish(self, *asked: Any, **more: Any) -> Any:
        published = await self._messaging.publish(*asked, **more)
        if self.is_silent:
            raise OutcomeUnknown
        return published


async def test_a_write_without_an_answer_is_looked_for(registries: Registries) -> None:
    messaging: Any = Silent(registries.services.messaging)
    called = registries.make(messaging=messaging)

    assert await called.id_of("s", fixed(1)) == 1
    assert await called.delete("s", permanent=False) == [1]
    assert await called.delete("s", permanent=True) == [1]
    assert len(await registries.log()) == 5


async def test_who_gives_a_write_up_is_somebody_else_then(
    registries: Registries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome of this write is not mistaken for the success of another."""
    called = registries.make("A")
    await called.subjects()
    monkeypatch.setattr(tms.registry.log.schema_log, "REACHED_S_MAX", 0.2)

    async def never(*asked: Any, **more: Any) -> Any:
        await asyncio.Event().wait()

    lost: Any = watched(registries)
    lost.publish = never
    called.registry.log._way.attach(lost)
    assert await called.register("s", fixed(1)) == 50002
    assert called.registry.log._node != "A"


async def test_nobody_else_writes_the_topic(registries: Registries) -> None:
    await registries.make().register("s", fixed(1))
    topic = await registries.services.messaging.topic(TOPIC)
    assert topic.is_compact
    assert topic.ttl_s == 2**31 - 1


async def test_an_error_of_a_way_that_was_left_means_nothing(registries: Registries) -> None:
    """A client closed in the meantime raises `RuntimeError`; the log is reached another way."""
    way = WayToLog()

    class Left:
        def __init__(self) -> None:
            self.asked: list[str] = []

        def __getattr__(self, name: str) -> Any:
            self.asked.append(name)
            way.attach(registries.services.messaging)
            raise RuntimeError("the connections are closed")

    for act in ("read", "write"):
        called = registries.make()
        called.registry.log._way = way
        if act == "write":
            await called.registry.log.read_to_end()
        left = Left()
        way.attach(cast("Any", left))
        assert await called.id_of(act, fixed(1)) == 1
        assert left.asked
