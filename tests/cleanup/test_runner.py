"""The cleanup thread: runs on demand and periodically, stops quickly, and survives errors."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cleanup.cleaner import Cleaner
from cleanup.metrics import CleanupMetrics
from cleanup.ranges import Reason, Step
from cleanup.runner import Runner
from tests.cleanup.twins import NOW_MS
from tests.manual_clock import ManualClock
from tests.waiting import WAIT_S_MAX
from tms.core.errors import Stopping, StoreUnavailable
from tms.core.limits import Limits
from tms.core.services.transactions import StartRequest
from tms.core.values.message import FIRST_ID
from tms.core.values.reading import Isolation, Reading
from tms.core.values.topic import TopicId
from tms.server.node import open_services
from tms.settings import Settings

LONG_S = WAIT_S_MAX
_STEPS = 3
"""The number of steps of a pass with a simulated clock."""
TOPIC = TopicId("ns", "t")


class Scripted(Cleaner):
    """Scripted passes."""

    def __init__(self) -> None:
        self.passes = 0
        self.began = threading.Semaphore(0)
        """Released with each pass."""
        self.error: Exception | None = None
        self.hold = threading.Event()
        self.hold.set()
        self.endless = False

    def steps(self, *, is_on_demand: bool = False) -> Iterator[Step]:
        self.passes += 1
        self.began.release()
        while True:
            self.hold.wait()
            if self.error is not None:
                raise self.error
            yield Step("message", Reason.TTL, scanned=3, dropped=2, dropped_bytes=10)
            if not self.endless:
                return


@pytest.fixture
def cleaner() -> Scripted:
    return Scripted()


@pytest.fixture
def runner(cleaner: Scripted) -> Iterator[Runner]:
    runner = Runner(cleaner, Limits(cleanup_period_s=3600), ManualClock(NOW_MS), lambda: 0)
    runner.start()
    yield runner
    cleaner.hold.set()
    runner.stop()


def test_a_pass_on_demand(runner: Runner, cleaner: Scripted) -> None:
    assert runner.run_pass(LONG_S)
    assert cleaner.passes == runner.counts.passes == 1
    assert runner.last_pass is not None
    assert (runner.last_pass.started_ms, runner.last_pass.rows) == (NOW_MS, 2)


def test_the_last_passes_are_kept_the_newest_first(runner: Runner, cleaner: Scripted) -> None:
    clock = runner._clock
    assert isinstance(clock, ManualClock)
    for _ in range(22):
        assert runner.run_pass(LONG_S)
        clock.advance(1000)
    began = [each.started_ms for each in runner.last_passes]
    assert began == [NOW_MS + 1000 * number for number in range(21, 1, -1)]


def test_a_pass_that_takes_longer_than_one_waits(runner: Runner, cleaner: Scripted) -> None:
    cleaner.hold.clear()
    assert not runner.run_pass(0.01)
    cleaner.hold.set()

    assert runner.run_pass(LONG_S)


@pytest.mark.parametrize("error", [StoreUnavailable(reason="full"), KeyError("a mistake")])
def test_what_fails_is_reported_and_done_again(
    runner: Runner, cleaner: Scripted, error: Exception
) -> None:
    cleaner.error = error
    assert runner.run_pass(LONG_S)
    assert runner.last_failure is not None
    assert (runner.counts.passes, runner.counts.failed_passes) == (0, 1)
    cleaner.error = None
    assert runner.run_pass(LONG_S)

    assert runner.last_failure is None
    assert runner.counts.passes == 1


def test_it_stops_within_a_pass(cleaner: Scripted) -> None:
    cleaner.endless = True
    limits = Limits(cleanup_slice_ms=1)
    runner = Runner(cleaner, limits, ManualClock(NOW_MS), time.monotonic_ns)
    runner.start()
    runner.ask()
    assert cleaner.began.acquire(timeout=LONG_S)
    runner.stop()
    runner.stop()

    assert not runner.run_pass(0.01)


@pytest.mark.parametrize(
    ("step_ms", "is_busy", "steps"),
    [(8, True, 1), (4, True, 1), (2, True, 2), (1, True, _STEPS), (8, False, _STEPS)],
)
def test_it_pauses_where_half_a_slice_is_used_up_and_others_have_to_do(
    monkeypatch: pytest.MonkeyPatch, step_ms: float, *, is_busy: bool, steps: int
) -> None:
    passed_s = 0.0
    monkeypatch.setattr("cleanup.runner.perf_counter", lambda: passed_s)

    class TimedSteps(Scripted):
        """Steps that take given durations."""

        def steps(self, *, is_on_demand: bool = False) -> Iterator[Step]:
            nonlocal passed_s
            self.began.release()
            for _ in range(_STEPS):
                passed_s += step_ms / 1_000
                yield Step("message", Reason.TTL)

    cleaner = TimedSteps()
    limits = Limits(cleanup_slice_ms=8, cleanup_pause_ms=int(LONG_S) * 1_000)
    activity = time.monotonic_ns if is_busy else lambda: 0
    runner = Runner(cleaner, limits, ManualClock(NOW_MS), activity)
    runner.start()
    pauses = steps < _STEPS
    ended = runner.run_pass(0.1 if pauses else LONG_S)
    assert cleaner.began.acquire(timeout=LONG_S)
    runner.stop()

    assert ended != pauses
    assert runner.counts.scanned.total() == steps


def test_a_period(cleaner: Scripted) -> None:
    runner = Runner(cleaner, Limits(cleanup_period_s=0.001), ManualClock(NOW_MS), lambda: 0)
    runner.start()
    assert all(cleaner.began.acquire(timeout=LONG_S) for _ in range(3))
    runner.stop()


def test_metrics(runner: Runner) -> None:
    registry = CollectorRegistry()
    clock = ManualClock(NOW_MS)
    CleanupMetrics(registry, runner, clock, lambda: NOW_MS)
    runner.run_pass(LONG_S)
    clock.advance(7_000)
    text = generate_latest(registry).decode()

    assert 'tms_cleanup_scanned_rows_total{reason="ttl"} 3.0' in text
    assert 'tms_cleanup_dropped_rows_total{reason="ttl",table="message"} 2.0' in text
    assert "tms_cleanup_dropped_bytes_total 10.0" in text
    assert "tms_cleanup_pass_seconds_count 1.0" in text
    assert "tms_cleanup_lag_seconds 7.0" in text
    assert "tms_cleanup_bound_held_seconds 7.0" in text


@pytest.mark.parametrize("store", ["memory:", "leveldb"])
def test_a_server_cleans_up_beside_its_readers_and_writers(tmp_path: Path, store: str) -> None:
    async def run() -> None:
        clock = ManualClock(NOW_MS)
        url = f"leveldb:{tmp_path}" if store == "leveldb" else store
        services = await open_services(url, Limits(cleanup_slice_rows=10), clock)
        assert services.cleanup is not None
        messaging, transactions = services.messaging, services.transactions
        await messaging.create_topic(TOPIC, {"ttl": 60})
        await messaging.publish(TOPIC, [b"old"] * 100)
        clock.advance(61_000)
        pointer = (await transactions.start(StartRequest())).transaction_id
        await messaging.publish(TOPIC, [b"dead"] * 5, pointer)
        await transactions.invalidate(pointer)
        await messaging.publish(TOPIC, [b"new"])
        assert await services.cleanup.run_pass(LONG_S)
        state = await services.cleanup.state()
        blocks = messaging.poll(TOPIC, Reading(FIRST_ID, view=Isolation.COMMITTED))
        found = [message.payload async for block in blocks for message in block]
        await services.close()

        assert found == [b"new"]
        assert (state.passes, state.dropped_rows, state.inverted_rows) == (1, 100, 5)
        assert [bound.table for bound in state.bounds] == ["message"]
        assert state.invalid is not None
        assert (state.invalid.count, state.invalid.not_inverted) == (1, 0)
        assert state.invalid.waits_until_ms is not None

    asyncio.run(run())


def test_without_inversion_the_invalid_list_stays() -> None:
    """Inversion is disabled by a setting."""

    async def run() -> None:
        services = await open_services("memory:", settings=Settings(cleanup_invalid=False))
        assert services.cleanup is not None
        pointer = (await services.transactions.start(StartRequest())).transaction_id
        await services.transactions.invalidate(pointer)
        await services.cleanup.run_pass(LONG_S)
        state = await services.cleanup.state()
        await services.close()

        assert state.bounds == []
        assert state.invalid is not None
        assert state.invalid.not_inverted == 1

    asyncio.run(run())


def test_the_thread_ends_where_its_service_is_stopping(
    cleaner: Scripted, runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread whose event loop was closed used to warn at each pass until the process ended."""
    cleaner.error = Stopping()
    runner.run_pass(LONG_S)
    runner._thread.join(LONG_S)
    assert not runner._thread.is_alive()
    assert caplog.text == ""
