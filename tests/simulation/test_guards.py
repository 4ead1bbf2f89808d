"""Each guard is needed: without it a simulation fails.

The simulation of leaders shows it for the guards against late calls, and the models of clocks for
the guards against clock steps.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator

import pytest
from hypothesis.stateful import RuleBasedStateMachine

from cleanup import invalid as cleanup_invalid
from cleanup.invalid import InvalidSweep
from cleanup.ranges import Step
from tables.hbase.fence import Fence
from tables.sealing.positions import SealedSubscriptionTable
from tables.sealing.runs import RunSeals
from tables.sealing.seal import Seal
from tables.sealing.takeovers import Crossings
from tables.transaction_table import StoreTransactionTable
from tests.cleanup import clock_stories
from tests.cleanup.compaction_machine import Compacting
from tests.cleanup.twins import NOW_MS, Twin
from tests.cleanup.twins_machine import Twins
from tests.contracts import invalid_contract
from tests.core.time_machine import TimeMachine
from tests.manual_clock import ManualClock
from tests.messaging.ranges.ends_machine import Ends
from tests.simulation.guards import SwitchOff, fails
from tests.simulation.leaders_machine import LeadersMachine
from tms.core.errors import TmsError
from tms.core.runtime.clock import KeyTime, SessionTime
from tms.core.runtime.trusted_clock import TrustedClock
from tms.core.values.message import KEY
from tms.core.values.topic import TopicMetadata
from tms.messaging.loaded_topics import TopicState
from tms.messaging.mark import StoreMark
from tms.transactions import recovery, segments
from tms.transactions import service as transaction_service
from tms.transactions.journal import TransactionJournal
from tms.transactions.pruning import InvalidList

pytestmark = pytest.mark.slow


def seals_of_topics(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Seal, "followed", lambda _, token, *__: Seal(token))


def seals_of_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RunSeals, "hidden", lambda *_: ())
    patch.setattr(RunSeals, "seal", lambda *_: None)


def what_went_on_over_takeovers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Crossings, "with_those", lambda self, _: self)


def floors_of_positions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SealedSubscriptionTable, "_seal", lambda *_: None)


def rows_of_positions_by_token(patch: pytest.MonkeyPatch) -> None:
    floors_of_positions(patch)
    patch.setattr(SealedSubscriptionTable, "token_of", lambda *_: 0)


def keys_above_the_ceiling(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyTime, "now_ms", lambda _: ManualClock(1_800_000_000_000).now_ms())


def fence(patch: pytest.MonkeyPatch) -> None:
    """Rely on the clock of the lease alone, which may pause, as before there was a fence."""
    patch.setattr(Fence, "check", lambda _: None)


def ends_of_segments(patch: pytest.MonkeyPatch) -> None:
    """Make all rows of each segment count, even those after its end."""

    def pieces(table: StoreTransactionTable, first: int) -> list[tuple[int, int | None]]:
        found = []
        for start, end in segments.pieces(table, first):
            token = segments.token_of(start)
            own = [n for n, _ in table.rows(start) if segments.token_of(n) == token]
            found.append((start, None if end is None else max([end, *(n + 1 for n in own)])))
        return found

    patch.setattr(recovery, "pieces", pieces)


@pytest.mark.parametrize(
    ("switch_off", "first"),
    [
        (fence, 1),
        (seals_of_topics, 3),
        (seals_of_runs, 8),
        (what_went_on_over_takeovers, 8),
        (floors_of_positions, 24),
        (rows_of_positions_by_token, 4),
        (keys_above_the_ceiling, 1),
        (ends_of_segments, 2),
    ],
)
def test_without_a_guard_the_simulation_fails(
    monkeypatch: pytest.MonkeyPatch, switch_off: SwitchOff, first: int
) -> None:
    switch_off(monkeypatch)
    assert fails(LeadersMachine, first), "nothing fails without it"


def floor_of_transactions(patch: pytest.MonkeyPatch) -> None:
    check = TransactionJournal.check
    patch.setattr(TransactionJournal, "check", lambda self, pointer: min(0, check(self, pointer)))


def expiry_by_the_earlier_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TrustedClock, "expiry_ms", lambda self: self.candidates()[1])


def keys_by_the_later_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TrustedClock, "keys_ms", lambda self: self.candidates()[1])


def steps_are_held(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TrustedClock, "now_ms", lambda self: self._source.now_ms())


def doubts_end(patch: pytest.MonkeyPatch) -> None:
    believe = TrustedClock._believe

    def only_if_near(self: TrustedClock, offset_ms: int) -> None:
        if abs(offset_ms - self._offset_ms) <= 60_000:
            believe(self, offset_ms)

    patch.setattr(TrustedClock, "_believe", only_if_near)


def sessions_never_step(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SessionTime, "now_ms", lambda self: self._clock.now_ms())


def line_of_the_cache(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopicState, "cached_from", lambda self, _: self.cache.floor)


def ceilings_by_the_trusted_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TrustedClock, "now_ms", TrustedClock.keys_ms)


@pytest.mark.parametrize(
    ("switch_off", "machine", "first"),
    [
        (floor_of_transactions, Ends, 11),  # C1, C4
        (expiry_by_the_earlier_time, TimeMachine, 1),  # C5, C10
        (expiry_by_the_earlier_time, Twins, 1),
        (expiry_by_the_earlier_time, Compacting, 1),
        (keys_by_the_later_time, TimeMachine, 1),
        (steps_are_held, TimeMachine, 1),
        (doubts_end, TimeMachine, 1),  # C9
        (sessions_never_step, TimeMachine, 1),  # C7
        (ceilings_by_the_trusted_time, LeadersMachine, 1),
    ],
)
def test_without_a_rule_of_clocks_a_model_fails(
    monkeypatch: pytest.MonkeyPatch,
    switch_off: SwitchOff,
    machine: type[RuleBasedStateMachine],
    first: int,
) -> None:
    monkeypatch.setattr(
        transaction_service, "_TICK_S", 3600.0
    )  # timeouts are triggered by hand, as in those models
    switch_off(monkeypatch)
    assert fails(machine, first), "nothing fails without it"


def search_from_the_least_time(patch: pytest.MonkeyPatch) -> None:
    """Search from the time in the pointer, less a margin, as before."""
    patch.setattr(
        InvalidList,
        "searched_from_ms",
        lambda _, pointers: max(0, min(pointers) // 1_000_000 - 49 * 3_600_000),
    )


def search_has_no_end(patch: pytest.MonkeyPatch) -> None:
    """Search up to the time in the pointer, plus a margin, as before."""
    invert_in = InvalidSweep._invert_in

    def bounded(
        sweep: InvalidSweep, topic: TopicMetadata, pointers: Collection[int], from_ms: int
    ) -> Iterator[Step]:
        until_ms = max(pointers) // 1_000_000 + 49 * 3_600_000
        patch.setattr(cleanup_invalid, "after_prefix", lambda whole: whole + KEY.pack(until_ms, 0))
        return invert_in(sweep, topic, pointers, from_ms)

    patch.setattr(InvalidSweep, "_invert_in", bounded)


def versions_above_the_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoreMark, "cover", lambda *_: None)


def keys_above_what_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TrustedClock, "keep_keys_from", lambda *_: None)


@pytest.mark.parametrize(
    ("switch_off", "check"),
    [
        (search_from_the_least_time, clock_stories.a_dead_message_far_from_its_pointer),  # C3
        (sessions_never_step, clock_stories.transactions_go_on),  # C7
        (search_has_no_end, clock_stories.a_dead_message_far_behind_its_pointer),  # C3
        (line_of_the_cache, clock_stories.cache_and_table_show_the_same),  # C6
        (versions_above_the_mark, clock_stories.versions_ascend),  # C8
        (keys_above_what_is_forgotten, clock_stories.ids_ascend),  # C2
    ],
)
def test_without_a_rule_of_stores_a_story_fails(
    monkeypatch: pytest.MonkeyPatch, switch_off: SwitchOff, check: Callable[[Twin], None]
) -> None:
    loop = asyncio.new_event_loop()
    twin = Twin(loop, ManualClock(NOW_MS))
    for topic_id in (invalid_contract.TOPIC, clock_stories.TOPIC):
        twin.await_(twin.services.messaging.create_topic(topic_id))
    switch_off(monkeypatch)
    try:
        with pytest.raises((AssertionError, TmsError)):
            check(twin)
    finally:
        twin.close()
        loop.close()
