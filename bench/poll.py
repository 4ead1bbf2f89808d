"""Polling from random places of a topic, from the cache and from disk.

"From disk" is a server without a cache of messages and a topic far larger than LevelDB's block
cache: each poll reads LevelDB's files, which the operating system may have in memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import contest, wrk
from bench.raw_store import RawStore, raw_store
from bench.rounds import Effort, Measure
from bench.servers import Server, empty_server, tms_server
from bench.table import Table
from bench.topics import Topic, create, fill, starts, write_starts
from tms.wire.avro_bodies import AVRO
from tms.wire.avro_frames import AVRO_FRAMES

Load = Callable[[float, int, int], wrk.Run]
"""Gets seconds, messages per request, and connections."""

_CACHED_MESSAGES = 100_000
_POSITIONS = 1_000
_ITEM_BYTES = 100 + 1 + 20 + 2
_BETWEEN = (0.0, 0.95)


@dataclass(frozen=True, slots=True)
class Filled:
    """A filled topic, and the file of the positions to poll from."""

    topic: Topic
    starts: Path
    content_type: str

    def load(self, seconds: float, messages: int, connections: int) -> wrk.Run:
        """Poll `messages` per request from one of the positions."""
        return wrk.run(
            "poll.lua",
            self.topic.whole_url,
            connections=connections,
            seconds=seconds,
            MESSAGES=messages,
            STARTS=self.starts,
            CONTENT_TYPE=self.content_type,
        )


def filled(url: str, name: str, messages: int, file: Path, *, is_keyed: bool = False) -> Filled:
    """Return a new topic with `messages` messages, and write positions in it to `file`."""
    topic = create(url, name)[0]
    when_ms = fill([topic], messages, is_keyed=is_keyed)
    ids = starts(topic, when_ms, _POSITIONS, between=_BETWEEN)
    content_type = (AVRO_FRAMES if is_keyed else AVRO).content_type
    return Filled(topic, write_starts(file, ((topic, start) for start in ids)), content_type)


def _load_empty(url: str, seconds: float, messages: int, connections: int) -> wrk.Run:
    """Request as many bytes as `messages` take from the endpoint, with a body like a poll's."""
    path = f"/bytes/{messages * _ITEM_BYTES}"
    return wrk.run(
        "publish.lua",
        f"{url}{path}",
        connections=connections,
        seconds=seconds,
        MESSAGES=1,
        BYTES=20,
        TOPICS=0,
        TOPIC_PATH=path,
    )


def _scan(raw: RawStore, seconds: float, messages: int, _: int) -> wrk.Run:
    """Scan bare LevelDB."""
    return raw.scan(messages, seconds)


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:
    """Measure polling and print its figures."""
    table = Table("Poll", contest.columns("poll of 100 B messages, random places", "same bytes"))
    with empty_server() as empty, raw_store(folder / "raw-poll") as raw:
        raw.fill(effort.disk_messages)
        for place, messages, flags in (
            ("cache", _CACHED_MESSAGES, ()),
            ("disk", effort.disk_messages, ("--cache-bytes-max", "0")),
        ):
            name = f"{run_name}-{place}"
            with tms_server(folder / place, *flags) as server:
                loads: dict[str, Load] = {
                    contest.TMS: filled(server.url, name, messages, folder / "tms").load,
                    contest.EMPTY: partial(_load_empty, empty.url),
                }
                if peer:
                    loads[contest.PEER] = filled(peer, name, messages, folder / "peer").load
                if place == "disk":
                    loads[contest.RAW] = partial(_scan, raw)
                _measure(table, effort, server, loads, place=place, sizes=(100, 1000))
                if place == "cache":
                    keyed = filled(
                        server.url, f"{name}-keyed", messages, folder / "keyed", is_keyed=True
                    )
                    loads = {contest.TMS: keyed.load, contest.EMPTY: loads[contest.EMPTY]}
                    _measure(table, effort, server, loads, place=f"{place}, keyed", sizes=(100,))


def _measure(
    table: Table,
    effort: Effort,
    server: Server,
    loads: dict[str, Load],
    *,
    place: str,
    sizes: Sequence[int],
) -> None:
    """Measure all figures of one place, for polls of each of the `sizes`."""
    for messages in sizes:
        for connections in (1, 32):
            contenders: dict[str, Measure] = {
                who: partial(load, effort.seconds, messages, connections)
                for who, load in loads.items()
            }
            contest.measure(
                table,
                f"{messages} from {place}, {connections} connections",
                contenders,
                server=server,
                rounds=effort.rounds,
                messages=messages,
            )
