"""Publishing with fsync: TMS beside its two limits and a peer."""

from functools import partial
from pathlib import Path

from bench import wrk
from bench.raw_store import RawStore, raw_store
from bench.rounds import Effort, Measure, in_turn, medians, spread
from bench.servers import empty_server, metrics_of, tms_server
from bench.table import Table, rate, share, times
from bench.topics import Topic, create

_COLUMNS = (
    "publish, fsync before the answer",
    "TMS msg/s",
    "spread",
    "p50 ms",
    "p99 ms",
    "msg/flush",
    "raw LevelDB msg/s",
    "TMS of it",
    "empty req/s",
    "TMS of it",
    "peer msg/s",
    "TMS/peer",
)
_PAYLOAD_BYTES = 100


class _Flushes:
    """How many messages the flushes of TMS had in the last run."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.messages_each = 1.0

    def watch(self, measure: Measure) -> wrk.Run:
        before = metrics_of(self._url)
        run = measure()
        after = metrics_of(self._url)
        messages, flushes = (
            after[name] - before[name]
            for name in ("tms_published_messages_total", "tms_flush_requests_count")
        )
        self.messages_each = messages / flushes
        return run


def _load(topic: Topic, effort: Effort, messages: int, connections: int) -> wrk.Run:
    return wrk.run(
        "publish.lua",
        topic.whole_url,
        connections=connections,
        seconds=effort.seconds,
        MESSAGES=messages,
        BYTES=_PAYLOAD_BYTES,
        TOPICS=0,
        TOPIC_PATH=topic.path,
    )


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:
    """Measure publishing and print its figures."""
    table = Table("Publish", _COLUMNS)
    with (
        tms_server(folder / "publish") as server,
        empty_server() as empty,
        raw_store(folder / "raw-publish") as raw,
    ):
        for messages in (1, 100):
            for connections in (1, 32):
                name = f"{run_name}-{messages}-{connections}"
                targets = [create(server.url, name)[0], Topic(empty.url, name)]
                if peer:
                    targets += create(peer, name)
                _measure(table, effort, targets, raw, messages=messages, connections=connections)


def _measure(
    table: Table,
    effort: Effort,
    targets: list[Topic],
    raw: RawStore,
    *,
    messages: int,
    connections: int,
) -> None:
    """Measure one figure; the targets are TMS, the empty endpoint and maybe a peer."""
    flushes = _Flushes(targets[0].url)
    loads = [partial(_load, target, effort, messages, connections) for target in targets]
    contenders: dict[str, Measure] = {
        "tms": lambda: flushes.watch(loads[0]),
        "raw": lambda: raw.write(max(1, round(flushes.messages_each)), effort.seconds),
        "empty": loads[1],
    }
    if len(loads) > 2:
        contenders["peer"] = loads[2]
    runs = in_turn(contenders, effort.rounds)
    found = {name: medians(of_one) for name, of_one in runs.items()}
    tms_rate = found["tms"].requests_per_s
    cells = [
        f"{messages} x {_PAYLOAD_BYTES} B, {connections} connections",
        rate(tms_rate * messages),
        f"{spread(runs['tms']):.0%}",
        f"{found['tms'].p50_ms:.2f}",
        f"{found['tms'].p99_ms:.2f}",
        rate(flushes.messages_each),
        rate(found["raw"].requests_per_s),
        share(tms_rate * messages, found["raw"].requests_per_s),
        rate(found["empty"].requests_per_s),
        share(tms_rate, found["empty"].requests_per_s),
        "-",
        "-",
    ]
    if "peer" in found:
        peer_rate = found["peer"].requests_per_s
        cells[-2:] = [rate(peer_rate * messages), times(tms_rate, peer_rate)]
    table.row(*cells)
