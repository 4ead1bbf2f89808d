"""Scheduled messages: scheduling against publishing, memory, how late they are, all due at once."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

import tms
from bench.rounds import Effort
from bench.servers import Server, metrics_of, tms_server
from bench.table import Table, mebibytes, rate, times

_PAYLOAD = bytes(100)
_BATCH = 1_000
_LATER_S = 24 * 3_600
_AHEAD_MS = 2_000
"""Scheduling what is due at one time ends before that."""
_SPREAD_PER_S = 1_000
_LOOK_S = 0.2


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure schedules and print their figures."""
    table = Table("Scheduled messages of 100 B", ("what", "figure", "compared with", "ratio"))
    with tms_server(folder / "schedules") as server, tms.connect(server.url) as client:
        topics = [client.topic(f"{run_name}-{each}") for each in ("p", "w", "many", "s")]
        for topic in topics:
            topic.create()
        plain, waits, many, spread = topics
        count = effort.large_messages // 10
        _rates(table, effort, plain, waits)
        before = server.memory()["RssAnon"]
        _batches(count, lambda batch: many.schedule(batch, after=_LATER_S))
        grown = server.memory()["RssAnon"] - before
        table.row(f"memory of {rate(count)} that wait", mebibytes(grown), "", "")
        _lateness(table, spread, int(20 * effort.seconds))
        for each in range(effort.rounds):
            at_once = client.topic(f"{run_name}-{each}")
            at_once.create()
            _at_once(table, server, at_once, effort.disk_messages // 20)


def _batches(count: int, send: Callable[[list[bytes]], object]) -> float:
    """Send messages, and return how many a second."""
    start = time.perf_counter()
    for _ in range(count // _BATCH):
        send([_PAYLOAD] * _BATCH)
    return count / (time.perf_counter() - start)


def _rates(table: Table, effort: Effort, plain: tms.Topic, waits: tms.Topic) -> None:
    """Schedule and publish in turn, a thousand a call."""
    count = int(20_000 * effort.seconds)
    scheduled, published = [], []
    for _ in range(effort.rounds):
        published.append(_batches(count, plain.publish))
        scheduled.append(_batches(count, lambda batch: waits.schedule(batch, after=_LATER_S)))
    mine, other = median(scheduled), median(published)
    table.row(
        "scheduling, messages/s", rate(mine), f"publishing: {rate(other)}", times(mine, other)
    )


def _lateness(table: Table, topic: tms.Topic, seconds: int) -> None:
    """Let ten be due each 10 ms, while others wait; compare with when they are published."""
    first_ms = time.time_ns() // 10**6 + _AHEAD_MS + 2 * seconds * _SPREAD_PER_S // 1000
    for at_ms in range(first_ms, first_ms + seconds * 1_000, 10):
        topic.schedule([b"%d" % at_ms] * (_SPREAD_PER_S // 100), at=at_ms)
    late_ms = []
    for message in topic.follow(start=0):
        late_ms.append(message.publish_timestamp - int(message.payload))
        if len(late_ms) == seconds * _SPREAD_PER_S:
            break
    parts = quantiles(late_ms, n=100)
    figure = f"{parts[49]:.0f}, {parts[98]:.0f}, {max(late_ms)} ms"
    table.row(f"late by, {rate(_SPREAD_PER_S)}/s due: p50, p99, most", figure, "", "")


def _at_once(table: Table, server: Server, topic: tms.Topic, count: int) -> None:
    """Let all be due at one time."""
    at_ms = time.time_ns() // 10**6 + _AHEAD_MS + count // 20
    _batches(count, lambda batch: topic.schedule(batch, at=at_ms))
    before = metrics_of(server.url)["tms_published_messages_total"]
    cpu_s = 0.0
    while time.time_ns() // 10**6 < at_ms:
        cpu_s = server.cpu_s()
        time.sleep(_LOOK_S)
    while metrics_of(server.url)["tms_published_messages_total"] - before < count:
        time.sleep(_LOOK_S)
    cpu_us = 1e6 * (server.cpu_s() - cpu_s) / count
    *_, last = topic.poll()
    taken_s = (last.publish_timestamp - at_ms) / 1_000
    what = f"{rate(count)} due at once, messages/s"
    table.row(what, rate(count / taken_s), f"CPU: {cpu_us:.1f} us each", "")
