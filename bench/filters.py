"""Polls with a filter that matches nothing: how many messages a second they look at."""

from pathlib import Path
from time import perf_counter

import tms
from bench.rounds import Effort
from bench.servers import tms_server
from bench.table import Table, rate
from bench.topics import create, fill

_MESSAGES = 300_000
_ROUNDS = 5
_FILTERS = (
    'key = "none"',
    'header.none = "none"',
    'key exists and header.none = "none" and not header.test exists',
)


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure polls from the cache, and print their figures."""
    title = f"Polls of {_MESSAGES:,} messages of 100 B with a key and two headers, nothing matches"
    table = Table(title, ("filter", "messages/s", "messages/s of CPU"))
    with tms_server(folder) as server, tms.connect(server.url) as client:
        [topic] = create(server.url, run_name)
        fill([topic], _MESSAGES, is_keyed=True)
        read = client.topic(topic.name)
        for text in _FILTERS:
            assert not list(read.poll(filter=text))
            begun, cpu_s = perf_counter(), server.cpu_s()
            for _ in range(_ROUNDS):
                assert not list(read.poll(filter=text))
            looked_at = _ROUNDS * _MESSAGES
            seconds, cpu_s = perf_counter() - begun, server.cpu_s() - cpu_s
            table.row(text, rate(looked_at / seconds), rate(looked_at / cpu_s))
