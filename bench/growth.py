"""The growth of cost with the messages in a topic, and with the number of topics."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from bench import wrk
from bench.rounds import Effort, Measure, in_turn
from bench.servers import tms_server
from bench.table import Table, rate, times
from bench.topics import Topic, create, fill, last_id, starts, write_starts
from tms.core.values.message import FIRST_ID

_CONNECTIONS = 32
_ASKED = 100
_POSITIONS = 1_000
_MESSAGES_A_TOPIC = 20
"""Few, so that all topics fit into the cache: this measures topics, not disks."""


def _publish(url: str, path: str, effort: Effort, topics: int) -> wrk.Run:
    return wrk.run(
        "publish.lua",
        url,
        connections=_CONNECTIONS,
        seconds=effort.seconds,
        MESSAGES=1,
        BYTES=100,
        TOPICS=topics,
        TOPIC_PATH=path,
    )


def _poll(url: str, positions: Path, effort: Effort, messages: int) -> wrk.Run:
    return wrk.run(
        "poll.lua",
        url,
        connections=_CONNECTIONS,
        seconds=effort.seconds,
        MESSAGES=messages,
        STARTS=positions,
    )


def _compare(table: Table, figure: str, effort: Effort, few: Measure, many: Measure) -> None:
    found = in_turn({"few": few, "many": many}, effort.rounds)
    cells = [figure]
    for run in found.values():
        cells += [rate(run.requests_per_s), f"{run.p99_ms:.2f}", f"{run.spread:.0%}"]
    cells.append(times(found["many"].requests_per_s, found["few"].requests_per_s))
    table.row(*cells)


def _columns(few: str, many: str) -> tuple[str, ...]:
    return (
        "32 connections",
        f"{few}: req/s",
        "p99 ms",
        "spread",
        f"{many}: req/s",
        "p99 ms",
        "spread",
        "many/few",
    )


def messages_in_a_topic(effort: Effort, folder: Path, run_name: str) -> None:
    """Compare a small and a large topic on one server."""
    sizes = (effort.small_messages, effort.large_messages)
    table = Table("Messages in the topic", _columns(*(f"{rate(size)} messages" for size in sizes)))
    names = [f"{run_name}-{size}" for size in sizes]
    with tms_server(folder / "growth") as server:
        url = server.url
        topics = create(url, *names)
        middles: list[Path] = []
        tails: list[Path] = []
        # The large topic first, so that both tails are in the cache.
        for topic, size in reversed(list(zip(topics, sizes, strict=True))):
            when_ms = fill([topic], size)
            ids = starts(topic, when_ms, _POSITIONS, between=(0.25, 0.75))
            file = folder / f"{topic.name}.middle"
            middles.insert(0, write_starts(file, ((topic, start) for start in ids)))
            tail = [(topic, last_id(topic, when_ms, _ASKED))]
            tails.insert(0, write_starts(folder / f"{topic.name}.tail", tail))
        at_tail = [partial(_poll, url, file, effort, _ASKED) for file in tails]
        _compare(table, f"poll of {_ASKED} at the tail", effort, *at_tail)
        publishing = [partial(_publish, url, topic.path, effort, 0) for topic in topics]
        _compare(table, "publish 1 x 100 B", effort, *publishing)
    with tms_server(folder / "growth", "--cache-bytes-max", "0") as server:
        in_middle = [partial(_poll, server.url, file, effort, _ASKED) for file in middles]
        figure = f"poll of {_ASKED} in the middle, from disk"
        _compare(table, figure, effort, *in_middle)


def number_of_topics(effort: Effort, folder: Path, run_name: str) -> None:
    """Compare one topic with many, under load spread over all of them."""
    table = Table("Number of topics", _columns("1 topic", f"{rate(effort.topics)} topics"))
    with tms_server(folder / "topics") as server:
        one, many = _topics(server.url, run_name, effort.topics)
        fill([*one, *many], _MESSAGES_A_TOPIC)
        polling = [
            partial(_poll, server.url, positions, effort, _MESSAGES_A_TOPIC)
            for positions in (
                _from_the_start(folder / "one", one),
                _from_the_start(folder / "many", many),
            )
        ]
        _compare(
            table, f"poll of {_MESSAGES_A_TOPIC}, from the cache", effort, polling[0], polling[1]
        )
        _compare_publishing(table, effort, one, many)


def more_topics_than_in_memory(effort: Effort, folder: Path, run_name: str) -> None:
    """Compare one topic with many, most of which must be loaded for each request."""
    count = effort.topics_beyond_memory
    table = Table("More topics than in memory", _columns("1 topic", f"{rate(count)} topics"))
    with tms_server(folder / "topics-beyond") as server:
        one, many = _topics(server.url, run_name, count)
        _compare_publishing(table, effort, one, many)


def _topics(url: str, run_name: str, count: int) -> tuple[list[Topic], list[Topic]]:
    """Create a topic, and `count` others."""
    one, many = f"{run_name}-one", f"{run_name}-of-many"
    return create(url, f"{one}1"), create(url, *(f"{many}{n}" for n in range(1, count + 1)))


def _compare_publishing(table: Table, effort: Effort, one: list[Topic], many: list[Topic]) -> None:
    few, more = (
        # The load generator appends the number to the path.
        partial(_publish, some[0].url, some[0].path.removesuffix("1"), effort, len(some))
        for some in (one, many)
    )
    _compare(table, "publish 1 x 100 B", effort, few, more)


def _from_the_start(file: Path, topics: Iterable[Topic]) -> Path:
    return write_starts(file, ((topic, FIRST_ID) for topic in topics))


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure everything and print the figures."""
    messages_in_a_topic(effort, folder, run_name)
    number_of_topics(effort, folder, run_name)
    more_topics_than_in_memory(effort, folder, run_name)
