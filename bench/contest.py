"""A figure of TMS next to its limits and a peer, as a row of a table."""

from collections.abc import Mapping

from bench.rounds import CpuMeter, Measure, Median, in_turn
from bench.servers import Server
from bench.table import Table, rate, share, times

TMS, RAW, EMPTY, PEER = "tms", "raw", "empty", "peer"


def columns(what: str, empty: str) -> tuple[str, ...]:
    """Return the head of a table of contests; `empty` names the answer of the endpoint."""
    return (
        what,
        "TMS msg/s",
        "spread",
        "p50 ms",
        "p99 ms",
        "CPU us/req",
        "LevelDB msg/s",
        "TMS of it",
        f"{empty} req/s",
        "TMS of it",
        "peer msg/s",
        "TMS/peer",
    )


def measure(
    table: Table,
    figure: str,
    contenders: Mapping[str, Measure],
    *,
    server: Server,
    rounds: int,
    messages: int,
) -> None:
    """Measure the contenders, which must include `TMS` and `EMPTY`, and print a row.

    Each request has `messages` messages, except those of `RAW`, which have one.
    """
    cpu = CpuMeter(server)
    watched = {**contenders, TMS: cpu.watch(contenders[TMS])}
    found = in_turn(watched, rounds)
    mine = found[TMS]
    table.row(
        figure,
        rate(mine.requests_per_s * messages),
        f"{mine.spread:.0%}",
        f"{mine.p50_ms:.2f}",
        f"{mine.p99_ms:.2f}",
        f"{cpu.us_a_request:.0f}",
        *_beside(mine, found.get(RAW), messages),
        rate(found[EMPTY].requests_per_s),
        share(mine.requests_per_s, found[EMPTY].requests_per_s),
        *_against(mine, found.get(PEER), messages),
    )


def _beside(mine: Median, raw: Median | None, messages: int) -> tuple[str, str]:
    if raw is None:
        return "-", "-"
    return rate(raw.requests_per_s), share(mine.requests_per_s * messages, raw.requests_per_s)


def _against(mine: Median, peer: Median | None, messages: int) -> tuple[str, str]:
    if peer is None:
        return "-", "-"
    return rate(peer.requests_per_s * messages), times(mine.requests_per_s, peer.requests_per_s)
