"""Publishing with fsync: TMS next to its two limits and a peer."""

from functools import partial
from pathlib import Path

from bench import contest, wrk
from bench.raw_store import RawStore, raw_store
from bench.rounds import Effort, Measure
from bench.servers import Server, empty_server, metrics_of, tms_server
from bench.table import Table
from bench.topics import Topic, create

_PAYLOAD_BYTES = 100


class Flushes:
    """The number of messages per flush of TMS in the last run."""

    def __init__(self, url: str) -> None:
        """Read the metrics of the server at `url`."""
        self._url = url
        self.messages_each = 1.0

    def watch(self, measure: Measure) -> wrk.Run:
        """Run, and record the size of the flushes."""
        before = metrics_of(self._url)
        run = measure()
        after = metrics_of(self._url)
        messages, flushes = (
            after[name] - before[name]
            for name in ("tms_published_messages_total", "tms_flush_requests_count")
        )
        self.messages_each = messages / flushes
        return run


def load(
    topic: Topic, seconds: float, messages: int, connections: int, tokens: Path | str = ""
) -> wrk.Run:
    """Publish to a topic, `messages` per request, each request with one of the tokens in a file."""
    return wrk.run(
        "publish.lua",
        topic.whole_url,
        connections=connections,
        seconds=seconds,
        MESSAGES=messages,
        BYTES=_PAYLOAD_BYTES,
        TOPICS=0,
        TOPIC_PATH=topic.path,
        TOKENS=tokens,
    )


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:
    """Measure publishing and print its figures."""
    table = Table("Publish", contest.columns("publish, fsync before the answer", "empty"))
    with (
        tms_server(folder / "publish") as server,
        empty_server() as empty,
        raw_store(folder / "raw-publish") as raw,
    ):
        for messages in (1, 100):
            for connections in (1, 32):
                name = f"{run_name}-{messages}-{connections}"
                targets = {
                    contest.TMS: create(server.url, name)[0],
                    contest.EMPTY: Topic(empty.url, name),
                }
                if peer:
                    targets[contest.PEER] = create(peer, name)[0]
                loads: dict[str, Measure] = {
                    who: partial(load, topic, effort.seconds, messages, connections)
                    for who, topic in targets.items()
                }
                contest.measure(
                    table,
                    f"{messages} x {_PAYLOAD_BYTES} B, {connections} connections",
                    _beside_raw(loads, server, raw, effort.seconds),
                    server=server,
                    rounds=effort.rounds,
                    messages=messages,
                )


def _beside_raw(
    loads: dict[str, Measure], server: Server, raw: RawStore, seconds: float
) -> dict[str, Measure]:
    """Return the loads plus LevelDB's own, with batches as large as TMS's last flushes."""
    flushes = Flushes(server.url)
    own = loads[contest.TMS]
    return {
        contest.TMS: lambda: flushes.watch(own),
        contest.RAW: lambda: raw.write(max(1, round(flushes.messages_each)), seconds),
        **{who: load for who, load in loads.items() if who != contest.TMS},
    }
