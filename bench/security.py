"""The cost of TLS: publishing over TLS and over plain HTTP, in turn.

Connections are kept, so this is encryption without handshakes. wrk does not check certificates.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import tms
from bench import publish
from bench.rounds import CpuMeter, Effort, Median, in_turn
from bench.servers import Server, tms_server
from bench.table import Table, rate, times
from bench.topics import Topic, create
from tms.security.authority import issue_for_server, new_authority

_CONNECTIONS = (1, 32)
_MESSAGES = 1
_COLUMNS = ("publish 1 x 100 B", "msg/s", "spread", "p50 ms", "p99 ms", "CPU us/req", "of plain")


@contextmanager
def secured(folder: Path) -> Iterator[tuple[Server, tuple[Path, Path, Path]]]:
    """Run TMS with its own certificate; yield it, and the files: CA, certificate, key."""
    folder.mkdir(mode=0o700)
    now = datetime.now(UTC)
    authority = new_authority("bench", now)
    issued = issue_for_server(authority, ["localhost", "127.0.0.1"], now)
    ca, cert, key = (folder / name for name in ("ca.pem", "server.pem", "server-key.pem"))
    ca.write_bytes(authority.certificate)
    cert.write_bytes(issued.certificate)
    key.touch(0o600)
    key.write_bytes(issued.key)
    flags = ("--tls-cert", str(cert), "--tls-key", str(key))
    with tms_server(folder / "data", *flags) as server:
        yield server, (ca, cert, key)


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure publishing and print its figures."""
    table = Table("TLS", _COLUMNS)
    with tms_server(folder / "plain") as plain, secured(folder / "tls") as (over_tls, files):
        for connections in _CONNECTIONS:
            name = f"{run_name}-{connections}"
            with tms.connect(over_tls.url, ca=files[0], auth="") as client:
                client.topic(name).create()
            topics = {"plain": create(plain.url, name)[0], "TLS": Topic(over_tls.url, name)}
            meters = {"plain": CpuMeter(plain), "TLS": CpuMeter(over_tls)}
            medians = in_turn(
                {
                    how: meters[how].watch(
                        partial(publish.load, topic, effort.seconds, _MESSAGES, connections)
                    )
                    for how, topic in topics.items()
                },
                effort.rounds,
            )
            for how, median in medians.items():
                figure = f"{connections} connections, {how}"
                _print(table, figure, median, meters[how], medians["plain"])


def _print(table: Table, figure: str, median: Median, meter: CpuMeter, plain: Median) -> None:
    table.row(
        figure,
        rate(median.requests_per_s),
        f"{100 * median.spread:.0f}%",
        f"{median.p50_ms:.2f}",
        f"{median.p99_ms:.2f}",
        f"{meter.us_a_request:.0f}",
        times(median.requests_per_s, plain.requests_per_s),
    )
