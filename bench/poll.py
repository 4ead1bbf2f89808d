"""Polling from random places of a topic, from the cache and from disk.

"From disk" is a server without a cache of messages and a topic far larger than LevelDB's block
cache: each poll reads LevelDB's files, which the operating system may have in memory.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import wrk
from bench.raw_store import RawStore, raw_store
from bench.rounds import Effort, Measure, in_turn, medians, spread
from bench.servers import empty_server, tms_server
from bench.table import Table, rate, share, times
from bench.topics import Topic, create, fill, starts, write_starts

_COLUMNS = (
    "poll of 100 B messages, random places",
    "TMS msg/s",
    "spread",
    "p50 ms",
    "p99 ms",
    "raw LevelDB msg/s",
    "TMS of it",
    "same bytes req/s",
    "TMS of it",
    "peer msg/s",
    "TMS/peer",
)
_CACHED_MESSAGES = 100_000
_POSITIONS = 1_000
_ITEM_BYTES = 100 + 1 + 20 + 2
_BETWEEN = (0.0, 0.95)


@dataclass(frozen=True, slots=True)
class _Filled:
    """A filled topic, and the file of the positions to poll from."""

    topic: Topic
    starts: Path

    def load(self, effort: Effort, messages: int, connections: int) -> wrk.Run:
        return wrk.run(
            "poll.lua",
            self.topic.whole_url,
            connections=connections,
            seconds=effort.seconds,
            MESSAGES=messages,
            STARTS=self.starts,
        )


@dataclass(frozen=True, slots=True)
class _Limits:
    """What TMS is measured against: an endpoint, and LevelDB where the poll reads it."""

    empty_url: str
    raw: RawStore | None


def _filled(url: str, name: str, messages: int, file: Path) -> _Filled:
    topic = create(url, name)[0]
    when_ms = fill([topic], messages)
    ids = starts(topic, when_ms, _POSITIONS, between=_BETWEEN)
    return _Filled(topic, write_starts(file, ((topic, start) for start in ids)))


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:
    """Measure polling and print its figures."""
    table = Table("Poll", _COLUMNS)
    with empty_server() as empty, raw_store(folder / "raw-poll") as raw:
        raw.fill(effort.disk_messages)
        for place, messages, flags in (
            ("cache", _CACHED_MESSAGES, ()),
            ("disk", effort.disk_messages, ("--cache-bytes-max", "0")),
        ):
            name = f"{run_name}-{place}"
            with tms_server(folder / place, *flags) as server:
                filled = [_filled(server.url, name, messages, folder / f"{place}.tms")]
                if peer:
                    filled.append(_filled(peer, name, messages, folder / f"{place}.peer"))
                for asked in (100, 1000):
                    for connections in (1, 32):
                        figure = f"{asked} from {place}, {connections} connections"
                        _measure(
                            table,
                            effort,
                            filled,
                            _Limits(empty.url, raw if place == "disk" else None),
                            figure=figure,
                            asked=asked,
                            connections=connections,
                        )


def _measure(
    table: Table,
    effort: Effort,
    filled: list[_Filled],
    limits: _Limits,
    *,
    figure: str,
    asked: int,
    connections: int,
) -> None:
    """Measure one figure; `filled` is TMS's topic and maybe the peer's."""
    same_bytes = Topic(f"{limits.empty_url}/bytes/{asked * _ITEM_BYTES}", "t")
    contenders: dict[str, Measure] = {
        "tms": partial(filled[0].load, effort, asked, connections),
        "empty": partial(
            wrk.run,
            "publish.lua",
            same_bytes.whole_url,
            connections=connections,
            seconds=effort.seconds,
            MESSAGES=1,
            BYTES=20,
            TOPICS=0,
            TOPIC_PATH=f"/bytes/{asked * _ITEM_BYTES}",
        ),
    }
    raw = limits.raw
    if raw is not None:
        contenders["raw"] = lambda: raw.scan(asked, effort.seconds)
    if len(filled) > 1:
        contenders["peer"] = partial(filled[1].load, effort, asked, connections)
    runs = in_turn(contenders, effort.rounds)
    found = {name: medians(of_one) for name, of_one in runs.items()}
    tms_rate = found["tms"].requests_per_s
    cells = [
        figure,
        rate(tms_rate * asked),
        f"{spread(runs['tms']):.0%}",
        f"{found['tms'].p50_ms:.2f}",
        f"{found['tms'].p99_ms:.2f}",
    ]
    if "raw" in found:
        raw_rate = found["raw"].requests_per_s
        cells += [rate(raw_rate * asked), share(tms_rate, raw_rate)]
    else:
        cells += ["-", "-"]
    empty_rate = found["empty"].requests_per_s
    cells += [rate(empty_rate), share(tms_rate, empty_rate)]
    if "peer" in found:
        peer_rate = found["peer"].requests_per_s
        cells += [rate(peer_rate * asked), times(tms_rate, peer_rate)]
    else:
        cells += ["-", "-"]
    table.row(*cells)
