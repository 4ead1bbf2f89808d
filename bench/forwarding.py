"""The cost of forwarding: requests through a follower compared with requests to the leader.

Both have TLS, or neither. The processor time is that of the server that receives the request, and
then that of the leader, which answers it.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import tms
from bench import publish
from bench.poll import Filled, filled
from bench.rounds import CpuMeter, Effort, Measure, in_turn
from bench.security import secured
from bench.servers import Server, standby_server, tms_server
from bench.table import Table, rate
from bench.topics import Topic

_COLUMNS = ("server that is asked", "req/s", "spread", "p50 ms", "p99 ms", "CPU us/req", "leader's")
_CONNECTIONS = 32


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure publishing and polling, and print their figures."""
    table = Table("Forwarding", _COLUMNS)
    with tms_server(folder / "plain") as leader, standby_server(leader.url) as standby:
        with tms.connect(leader.url) as client:
            client.topic(run_name).create()
        servers = {"leader": leader, "forwarder": standby}
        for connections, messages in ((1, 1), (_CONNECTIONS, 1), (_CONNECTIONS, 100)):
            loads = _publishes(effort, run_name, servers, connections, messages)
            _measure(table, effort, f"publish {messages} x 100 B, {connections}", servers, loads)
        polled = filled(leader.url, f"{run_name}-polled", effort.small_messages, folder / "starts")
        _measure(
            table, effort, f"poll of 100, {_CONNECTIONS}", servers, _polls(effort, polled, servers)
        )
    with secured(folder / "tls") as (leader, files), standby_server(leader.url, *files) as standby:
        with tms.connect(leader.url, ca=files[0], auth="") as client:
            client.topic(run_name).create()
        servers = {"leader, TLS": leader, "forwarder, TLS": standby}
        for connections in (1, _CONNECTIONS):
            loads = _publishes(effort, run_name, servers, connections, 1)
            _measure(table, effort, f"publish 1 x 100 B, {connections}", servers, loads)


def _publishes(
    effort: Effort, topic: str, servers: Mapping[str, Server], connections: int, messages: int
) -> dict[str, Measure]:
    return {
        name: partial(publish.load, Topic(server.url, topic), effort.seconds, messages, connections)
        for name, server in servers.items()
    }


def _polls(effort: Effort, polled: Filled, servers: Mapping[str, Server]) -> dict[str, Measure]:
    topics = {name: Topic(server.url, polled.topic.name) for name, server in servers.items()}
    return {
        name: partial(replace(polled, topic=topic).load, effort.seconds, 100, _CONNECTIONS)
        for name, topic in topics.items()
    }


def _measure(
    table: Table,
    effort: Effort,
    figure: str,
    servers: Mapping[str, Server],
    loads: Mapping[str, Measure],
) -> None:
    leader = next(iter(servers.values()))
    meters = {name: CpuMeter(server) for name, server in servers.items()}
    leading = {name: CpuMeter(leader) for name in servers}
    watched = {name: leading[name].watch(meters[name].watch(load)) for name, load in loads.items()}
    for name, median in in_turn(watched, effort.rounds).items():
        table.row(
            f"{figure}, {name}",
            rate(median.requests_per_s),
            f"{100 * median.spread:.0f}%",
            f"{median.p50_ms:.2f}",
            f"{median.p99_ms:.2f}",
            f"{meters[name].us_a_request:.1f}",
            f"{leading[name].us_a_request:.1f}",
        )
