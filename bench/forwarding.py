"""What forwarding costs: publishing through a server that stands by beside the same at its leader.

Both have TLS, or neither. The processor time is that of the server that is named.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import tms
from bench import publish
from bench.rounds import CpuMeter, Effort, in_turn
from bench.security import secured
from bench.servers import Server, standby_server, tms_server
from bench.table import Table, rate
from bench.topics import Topic

_CONNECTIONS = (1, 32)
_MESSAGES = 1
_COLUMNS = ("publish 1 x 100 B", "msg/s", "spread", "p50 ms", "p99 ms", "CPU us/req")


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure publishing and print its figures."""
    table = Table("Forwarding", _COLUMNS)
    with tms_server(folder / "plain") as leader, standby_server(leader.url) as standby:
        with tms.connect(leader.url) as client:
            client.topic(run_name).create()
        _measure(table, effort, run_name, {"leader": leader, "forwarder": standby})
    with secured(folder / "tls") as (leader, files), standby_server(leader.url, *files) as standby:
        with tms.connect(leader.url, ca=files[0], auth="") as client:
            client.topic(run_name).create()
        _measure(table, effort, run_name, {"leader, TLS": leader, "forwarder, TLS": standby})


def _measure(table: Table, effort: Effort, topic: str, servers: Mapping[str, Server]) -> None:
    for connections in _CONNECTIONS:
        meters = {name: CpuMeter(server) for name, server in servers.items()}
        loads = {
            name: meters[name].watch(
                partial(
                    publish.load, Topic(server.url, topic), effort.seconds, _MESSAGES, connections
                )
            )
            for name, server in servers.items()
        }
        for name, median in in_turn(loads, effort.rounds).items():
            table.row(
                f"{connections} connections, {name}",
                rate(median.requests_per_s),
                f"{100 * median.spread:.0f}%",
                f"{median.p50_ms:.2f}",
                f"{median.p99_ms:.2f}",
                f"{meters[name].us_a_request:.1f}",
            )
