"""Scheduled messages under successive leaders whose calls come late.

A message that was certainly scheduled waits, or is published once; one that was certainly cancelled
is never published, whatever comes late. The timer does not run by itself, because runs could not be
repeated then.
"""

from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.simulation.gateway import Mode
from tests.simulation.leaders import Leader
from tests.simulation.leaders_world import FATES, LeadersWorld, with_keys
from tms.core.errors import OutcomeUnknown, ScheduledNotFound, Unavailable
from tms.core.services.commits import CommitRequest
from tms.core.services.transactions import StartRequest
from tms.core.values.schedules import CommitSchedule, DeliveryTime
from tms.core.values.topic import TopicId
from tms.messaging.schedules import timer
from tms.messaging.schedules.timer import ScheduleTimer

LATER = TopicId("default", "later")
ANSWERED = (Mode.ANSWERED, 0)
LATE = st.tuples(
    st.sampled_from([Mode.ANSWERED, Mode.REPEATED, Mode.REPEATED, Mode.HELD]), st.integers(0, 3)
)
"""The watermark and the tombstones exist because of rows that arrive again."""
_LATEST = 20
Fate = tuple[Mode, int]


class ScheduleLeaders(LeadersWorld):
    """One topic with scheduled messages, which leaders hand on."""

    def __init__(self) -> None:
        super().__init__()
        self.patch.setattr(ScheduleTimer, "start", lambda _: None)
        self.patch.setattr(timer, "_PAGE_ROWS", 2)
        self.ids: dict[bytes, str] = {}
        """The ids of messages that certainly wait, unless they are published."""
        self.certain: set[bytes] = set()
        self.maybe: set[bytes] = set()
        """Payloads that an unanswered call may have scheduled or cancelled."""
        self.cancelled: set[bytes] = set()
        self.published: list[bytes] = []

    @initialize()
    def begin(self) -> None:
        super().begin()
        self.await_(self.services.messaging.create_topic(LATER))
        self.schedule(9_999, 1, ANSWERED)

    @precondition(lambda self: not self.is_cut)
    @rule(delay_s=st.sampled_from([0, 0, 1, 9_999]), number=st.integers(1, 3), fate=LATE)
    def schedule(self, delay_s: int, number: int, fate: Fate) -> None:
        payloads = self.payloads(number)
        self.maybe |= set(payloads)
        bodies, delivery = with_keys(payloads), DeliveryTime(after_s=delay_s)
        done, found = self.tried(self.services.schedules.schedule(LATER, bodies, delivery), fate)
        if done:
            self.is_scheduled(payloads)
            self.ids.update(zip(payloads, found.ids, strict=True))

    def is_scheduled(self, payloads: list[bytes]) -> None:
        self.maybe -= set(payloads)
        self.certain |= set(payloads)

    @precondition(lambda self: not self.is_cut)
    @rule(delay_s=st.sampled_from([0, 1]), fate=FATES)
    def commit(self, delay_s: int, fate: Fate) -> None:
        transactions, payloads = self.services.transactions, self.payloads(2)
        done, started = self.tried(transactions.start(StartRequest()), ANSWERED)
        if not done:
            return
        self.maybe |= set(payloads)
        later = CommitSchedule(LATER, with_keys(payloads), DeliveryTime(after_s=delay_s))
        committing = transactions.commit(started.transaction_id, CommitRequest(schedule=[later]))
        if self.tried(committing, fate)[0]:
            self.is_scheduled(payloads)

    @precondition(lambda self: self.ids and not self.is_cut)
    @rule(data=st.data(), fate=FATES)
    def cancel(self, data: st.DataObject, fate: Fate) -> None:
        self.cancel_one(data.draw(st.sampled_from(sorted(self.ids))), fate)

    def cancel_one(self, payload: bytes, fate: Fate) -> None:
        schedules = self.services.schedules
        self.maybe.add(payload)
        try:
            done, _ = self.tried(schedules.cancel_scheduled(LATER, self.ids.pop(payload)), fate)
        except ScheduledNotFound:
            assert not self.look_at_later() or payload in self.published
            done = False
        if done:
            self.maybe.remove(payload)
            self.certain.remove(payload)
            self.cancelled.add(payload)

    @precondition(lambda self: not self.is_cut)
    @rule(fate=FATES)
    def publish_due(self, fate: Fate) -> None:
        self.tried(self.services.schedules._timer._turn(LATER), fate)
        self.look_at_later()

    @precondition(lambda self: not self.is_cut)
    @rule(skip=st.integers(0, 2))
    def cancel_what_an_earlier_leader_put(self, skip: int) -> None:
        """Cancel a message whose row then arrives again, before it is due."""
        self.schedule(1, 1, (Mode.REPEATED, skip))
        latest = next(reversed(self.ids), None)
        self.take_over(0, set(), writes=False)
        if latest is not None:
            self.cancel_one(latest, ANSWERED)
        for call in self.late[-_LATEST:]:
            self.arrive(call)
        self.pass_time(1_500)
        self.publish_due(ANSWERED)

    def go_on_beside(self, before: Leader) -> None:
        """Check that a message scheduled by a former leader is not lost, if it is acknowledged."""
        payloads, schedules = self.payloads(1), before.services.schedules
        self.maybe |= set(payloads)
        with suppress(Unavailable, OutcomeUnknown):
            self.await_(schedules.schedule(LATER, with_keys(payloads), DeliveryTime(after_s=0)))
            self.is_scheduled(payloads)
        self.await_(schedules._timer._turn(LATER))
        super().go_on_beside(before)

    @precondition(lambda self: self.late and not self.is_cut)
    @rule()
    def all_come_late(self) -> None:
        """Let the last calls of earlier leaders arrive, then publish the messages that are due."""
        for call in self.late[-_LATEST:]:
            self.arrive(call)
        self.publish_due(ANSWERED)

    def look_at_later(self) -> bool:
        """Compare the published messages; return whether they can be read now."""
        try:
            found = [payload for _, payload in self.await_(self._poll(LATER, committed=False))]
        except Unavailable:
            return False
        assert len(found) == len(set(found)), "published twice"
        assert found[: len(self.published)] == self.published, "published before others"
        assert not self.cancelled & set(found)
        assert set(found) <= self.certain | self.maybe
        self.published = found
        return True

    def teardown(self) -> None:
        try:
            if self.leaders:
                self.check_what_waits()
        finally:
            super().teardown()

    def check_what_waits(self) -> None:
        """Check that the next leader publishes or keeps all that was certainly scheduled."""
        self.take_over(0, set(), writes=False)
        for call in self.late:
            self.arrive(call)
        for _ in range(20):
            self.await_(self.services.schedules._timer._turn(LATER))
        self.look_at_later()
        waiting = self.await_(self.services.schedules.scheduled(LATER, limit=1_000))
        left = [each.message.payload for each in waiting]
        assert len(left) == len(set(left))
        assert not set(left) & (set(self.published) | self.cancelled)
        assert self.certain - self.maybe <= set(left) | set(self.published)
