"""The cost of compaction: rows per second, memory, and its effect on publishers.

One line per figure. The rows per second are compared with a bare scan of the same rows, newest
first. Publishers' p99 is that of a server in this process, with and without a concurrent run.
"""

import asyncio
import random
import resource
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Self

from prometheus_client import CollectorRegistry

from bench.rounds import Effort
from cleanup.cleaner import Cleaner
from cleanup.loop_calls import LoopServices
from cleanup.runner import Runner
from cleanup.topic_rules import TopicRules
from tables.leveldb import LevelDBStore
from tables.store import MESSAGE
from tables.store_tables import StoreTables
from tms.core.limits import Limits
from tms.core.runtime.clock import SystemClock
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.topic import TopicId
from tms.server.node import OpenServices, services_on
from tms.transactions.service import TransactionService

_AT_ONCE = 1_000
_PAYLOAD = 100
_PUBLISHERS = 8
_TOPIC = TopicId("default", "compact")
_OTHER = TopicId("default", "other")


def _memory_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class _Peak:
    """The most memory seen while it is open."""

    def __enter__(self) -> Self:
        self.mb = _memory_mb()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stopping.wait(0.02):
            self.mb = max(self.mb, _memory_mb())

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


async def _fill(services: OpenServices, messages: int, keys: int) -> None:
    chance = random.Random(1)
    for _ in range(messages // _AT_ONCE):
        bodies = bodies_of(
            [
                encode_body(b"x" * _PAYLOAD, b"key-%07d" % chance.randrange(keys))
                for _ in range(_AT_ONCE)
            ]
        )
        await services.messaging.publish(_TOPIC, bodies)


async def _publish_for(
    services: OpenServices, seconds: float, busy: threading.Event
) -> list[float]:
    """Publish one message at a time from several tasks; return the seconds of each publish."""
    took: list[float] = []
    until = perf_counter() + seconds

    async def publish() -> None:
        while perf_counter() < until and not busy.is_set():
            began = perf_counter()
            await services.messaging.publish(_OTHER, [b"x" * _PAYLOAD])
            took.append(perf_counter() - began)

    await asyncio.gather(*(publish() for _ in range(_PUBLISHERS)))
    return took


def _requests(services: OpenServices) -> Callable[[], int]:
    metrics = services.messaging.metrics
    return lambda: metrics.published_messages


def _p99(took: list[float]) -> float:
    return quantiles(took, n=100)[-1] * 1_000


def _scanned(store: LevelDBStore) -> float:
    """Return the seconds of a bare scan."""
    began = perf_counter()
    with store.scan(MESSAGE, b"", b"\xff", reverse=True) as rows:
        deque(rows, maxlen=0)
    return perf_counter() - began


async def _measure(folder: Path, messages: int, keys: int) -> None:
    limits, clock = Limits(cache_bytes_max=16 * 1024 * 1024), SystemClock()
    for name, beside in (("alone", False), ("beside publishers", True)):
        store = LevelDBStore(folder / name)
        services = await services_on(StoreTables(store), limits, clock, CollectorRegistry())
        await services.messaging.create_topic(_TOPIC, {"cleanup": "compact"})
        await services.messaging.create_topic(_OTHER)
        await _fill(services, messages, keys)
        assert isinstance(services.transactions, TransactionService)
        loop = asyncio.get_running_loop()
        calls = LoopServices(loop, services.messaging, services.transactions)
        rules = TopicRules(store, calls, limits, clock)
        cleaner = Cleaner(store, calls, limits, clock, rules=rules)
        runner = Runner(cleaner, limits, clock, _requests(services))
        runner.start()
        if not beside:
            print(f"bare scan: {messages / await asyncio.to_thread(_scanned, store):,.0f} rows/s")
        quiet = await _publish_for(services, 5, threading.Event()) if beside else []
        done = threading.Event()

        def run(done: threading.Event = done, runner: Runner = runner) -> float:
            began = perf_counter()
            assert runner.run_pass(3_600)
            took = perf_counter() - began
            done.set()
            return took

        before_mb = _memory_mb()
        with _Peak() as peak:
            running = loop.run_in_executor(None, run)
            busy = await _publish_for(services, 3_600, done) if beside else []
            seconds = await running
        print(f"compaction {name}: {messages / seconds:,.0f} rows/s, {peak.mb - before_mb:.0f} MB")
        if beside:
            print(f"publishers: p99 {_p99(quiet):.2f} ms alone, {_p99(busy):.2f} ms beside it")
        dropped = sum(runner.counts.dropped.values())
        print(f"  {dropped:,} of {messages:,} rows dropped")
        await asyncio.to_thread(runner.stop)
        await services.close()


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure, and print."""
    messages = effort.cleaned_messages
    asyncio.run(_measure(folder, messages, messages // 100))
