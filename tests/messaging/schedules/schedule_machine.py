"""Schedules on a whole service, with clock changes, restarts, and a store that dies at a write.

The machine records the messages that were certainly scheduled, cancelled and published. A scheduled
message is published once, never before it is due, unless it was cancelled; a cancelled one is never
published. Calls without an answer may or may not have been carried out.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from prometheus_client import CollectorRegistry

from tables.store_tables import StoreTables
from tests.manual_clock import ManualClock
from tests.messaging.conftest import NOW_MS, TOPIC
from tests.messaging.groups.stores_of_groups import FaultyLevelDB, KeptStore
from tests.store_calls import call_in_loop
from tests.virtual_loop import VirtualLoop
from tests.waiting import passes, turns, until
from tms.core.errors import RequestError, ScheduledNotFound, TmsError
from tms.core.limits import Limits
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Reading
from tms.core.values.schedules import DeliveryTime
from tms.messaging.schedules import timer
from tms.messaging.store_threads import StoreThread
from tms.server.node import OpenServices, services_on

Result = TypeVar("Result")
DIES = st.sampled_from([None, None, None, "before", "after"])
DELAYS_S = st.sampled_from([0, 0, 1, 2, 5, 60])


class Followed:
    """The record of one message."""

    def __init__(self, scheduled_id: str | None, at_ms: int) -> None:
        self.id = scheduled_id
        self.at_ms = at_ms
        self.is_sure = scheduled_id is not None
        self.is_cancelled = False
        self.may_be_cancelled = False
        self.latest_ms = 0
        """The latest time that the server's clock has shown since it was scheduled."""


class ScheduleMachine(RuleBasedStateMachine):
    """Subclasses give the store."""

    is_own: ClassVar[bool] = True
    """Whether the store belongs to this process alone."""
    store: Any

    def open_store(self) -> StoreTables:
        if not hasattr(self, "store"):
            self.store = KeptStore()
            if not self.is_own:
                self.store.is_embedded = False
        return StoreTables(self.store)

    @initialize()
    def begin(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(StoreThread, "call", call_in_loop)
        self.patch.setattr(timer, "_PAGE_ROWS", 2)  # so that a turn has several pages
        self.patch.setattr(timer, "_PAGES", 3)
        self.loop = VirtualLoop()
        self.clock = ManualClock(NOW_MS)
        self.followed: dict[bytes, Followed] = {}
        self.run(self.start())
        self.run(self.services.messaging.create_topic(TOPIC))

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        result = self.loop.run_until_complete(work)
        self.see()
        return result

    def see(self) -> None:
        now_ms = self.services.engine.clock.now_ms()
        for each in self.followed.values():
            each.latest_ms = max(each.latest_ms, now_ms)

    async def start(self) -> None:
        self.services: OpenServices = await services_on(
            self.open_store(), Limits(), self.clock, CollectorRegistry()
        )

    async def have_recovered(self) -> bool:
        try:
            await self.services.messaging.publish(TOPIC, [b"alive"])
        except TmsError:
            return False
        return True

    def under(self, work: Coroutine[Any, Any, Any], dies: str | None) -> None:
        """Run `work`; the store may die before or after the write."""
        self.store.writes_fail = dies is not None
        self.store.writes_happen_all_the_same = dies == "after"
        try:
            self.run(work)
        finally:
            self.store.writes_fail = self.store.writes_happen_all_the_same = False
            if dies is not None:
                self.run(until(self.have_recovered))
        self.check()

    async def schedule(self, delay_s: int, count: int, after_turns: int = 0) -> None:
        await turns(after_turns)
        start = len(self.followed)
        payloads = [b"%d" % number for number in range(start, start + count)]
        now_ms = self.services.engine.clock.now_ms()
        for each in payloads:
            self.followed[each] = Followed(None, now_ms + delay_s * 1000)
        try:
            done = await self.services.schedules.schedule(
                TOPIC, payloads, DeliveryTime(after_s=delay_s)
            )
        except RequestError:
            raise
        except TmsError:
            return
        assert done.at_ms >= now_ms + delay_s * 1000
        for payload, scheduled_id in zip(payloads, done.ids, strict=True):
            self.followed[payload].id = scheduled_id
            self.followed[payload].is_sure = True

    async def cancel(self, payload: bytes, after_turns: int = 0) -> None:
        each = self.followed[payload]
        assert each.id is not None
        await turns(after_turns)
        was_cancelled = each.is_cancelled or each.may_be_cancelled
        try:
            await self.services.schedules.cancel_scheduled(TOPIC, each.id)
        except ScheduledNotFound:
            assert was_cancelled or payload in await self.published()
        except TmsError:
            each.may_be_cancelled = True
        else:
            assert not each.is_cancelled
            each.is_cancelled = True

    async def published(self) -> list[bytes]:
        poll = self.services.messaging.poll(TOPIC, Reading(FIRST_ID, limit=100_000))
        found = [message.payload async for block in poll for message in block]
        return [each for each in found if each != b"alive"]

    def check(self) -> None:
        published = self.run(self.published())
        assert len(published) == len(set(published))
        for payload in published:
            each = self.followed[payload]
            assert not each.is_cancelled
            assert self.is_own is False or each.latest_ms >= each.at_ms

    @rule(delay_s=DELAYS_S, count=st.integers(1, 3), dies=DIES)
    def schedule_some(self, delay_s: int, count: int, dies: str | None) -> None:
        self.under(self.schedule(delay_s, count), dies)

    @precondition(lambda self: any(each.id for each in self.followed.values()))
    @rule(data=st.data(), dies=DIES)
    def cancel_one(self, data: Any, dies: str | None) -> None:
        known = [payload for payload, each in self.followed.items() if each.id]
        self.under(self.cancel(data.draw(st.sampled_from(known))), dies)

    @precondition(lambda self: any(each.id for each in self.followed.values()))
    @rule(data=st.data(), delay_s=DELAYS_S, by_ms=st.sampled_from([0, 1_000, 5_000]), dies=DIES)
    def all_at_once(self, data: Any, delay_s: int, by_ms: int, dies: str | None) -> None:
        """Cancel while messages become due and others are scheduled."""
        known = [payload for payload, each in self.followed.items() if each.id]
        chosen = data.draw(st.lists(st.sampled_from(known), max_size=4, unique=True))
        waits = data.draw(st.lists(st.integers(0, 12), min_size=6, max_size=6))
        self.clock.advance(by_ms)
        self.see()
        self.services.schedules._timer.look_at(TOPIC, 0)

        async def together() -> None:
            acts = [self.cancel(each, wait) for each, wait in zip(chosen, waits, strict=False)]
            acts += [self.schedule(delay_s, 1, waits[4]), self.schedule(0, 1, waits[5])]
            await asyncio.gather(*acts)

        self.under(together(), dies)

    @rule(by_ms=st.sampled_from([500, 1_000, 5_000, 60_000]), dies=DIES)
    def pass_time(self, by_ms: int, dies: str | None) -> None:
        self.clock.advance(by_ms)
        self.see()
        self.under(passes(2), dies)

    @rule(by_ms=st.sampled_from([-3_600_000, -1_500, 1_500, 3_600_000]), restarts=st.booleans())
    def set_the_clock(self, by_ms: int, *, restarts: bool) -> None:
        if restarts:
            self.run(self.services.close())
        self.clock.step(by_ms)
        if restarts:
            self.run(self.start())
        self.see()
        self.under(passes(2), None)

    @rule()
    def restart(self) -> None:
        self.run(self.services.close())
        self.run(self.start())
        self.check()

    def teardown(self) -> None:
        if not hasattr(self, "services"):
            return
        try:
            self.drain()
            self.run(self.services.close())
        finally:
            self.loop.close()
            self.patch.undo()

    def drain(self) -> None:
        """Check that everything that certainly waits is published."""
        for _ in range(30):
            self.clock.advance(600_000)
            self.see()
            self.run(passes(2))
            if not self.run(self.services.schedules.scheduled(TOPIC)):
                break
        assert not self.run(self.services.schedules.scheduled(TOPIC))
        assert not len(self.services.schedules._schedules)
        self.check()
        published = set(self.run(self.published()))
        for payload, each in self.followed.items():
            if each.is_sure and not each.is_cancelled and not each.may_be_cancelled:
                assert payload in published, payload


class OnMemory(ScheduleMachine):
    """A store of this process."""


class Elsewhere(ScheduleMachine):
    """A store whose writes may be late: it has tombstones, and never lowers a watermark."""

    is_own = False


class OnLevelDB(ScheduleMachine):
    """A store on disk."""

    def open_store(self) -> StoreTables:
        if not hasattr(self, "folder"):
            self.folder = Path(tempfile.mkdtemp(prefix="tms-schedules-"))
        self.store = FaultyLevelDB(self.folder / "data", sync=False)
        return StoreTables(self.store)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)
