"""Transactions from 32 clients with fsync, and polls in a transaction compared with plain ones.

A short transaction is four requests (start, one publish, can-commit, commit); three, like our
client, if there are no changes to announce; or one.
"""

import json
from functools import partial
from pathlib import Path
from urllib.request import Request, urlopen

from bench import wrk
from bench.rounds import CpuMeter, Effort, Measure, in_turn
from bench.servers import Server, metrics_of, tms_server
from bench.table import Table, rate, times
from bench.topics import Topic, create

_CLIENTS = 32
_PAYLOAD_BYTES = 100
_OPEN = 1_000
_INVALID = 10_000
_POLLED = 100
_LOG_ROWS = "tms_transaction_log_rows_total"


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure transactions and print their figures; the peer has no transactions over REST."""
    with tms_server(folder / "transactions") as server:
        topic = create(server.url, run_name)[0]
        _measure_commits(effort, server, topic)
        _measure_polls(effort, server, run_name)


def _measure_commits(effort: Effort, server: Server, topic: Topic) -> None:
    table = Table(
        f"Transactions, {_CLIENTS} clients, fsync before each answer",
        (
            "form",
            "transactions/s",
            "spread",
            "p50 ms a request",
            "p99",
            "CPU us each",
            "log flushes/s",
        ),
    )
    short = partial(
        wrk.run,
        "transactions.lua",
        server.url,
        connections=_CLIENTS,
        threads=_CLIENTS,
        seconds=effort.seconds,
        BYTES=_PAYLOAD_BYTES,
        TOPIC_PATH=topic.path,
        CAN_COMMIT=1,
    )
    without_changes = partial(short, CAN_COMMIT=0)
    one_call = partial(
        wrk.run,
        "publish_all.lua",
        server.url,
        connections=_CLIENTS,
        seconds=effort.seconds,
        BYTES=_PAYLOAD_BYTES,
        NAMESPACE_PATH=topic.path.rpartition("/topics/")[0],
        TOPIC_NAME=topic.path.rpartition("/")[2],
    )
    for form, measure, requests in (
        ("start, publish, can-commit, commit", short, 4),
        ("start, publish, commit", without_changes, 3),
        ("one call", one_call, 1),
    ):
        cpu, before = CpuMeter(server), metrics_of(server.url)[_LOG_ROWS]
        found = in_turn({form: cpu.watch(measure)}, effort.rounds)[form]
        rows = metrics_of(server.url)[_LOG_ROWS] - before
        table.row(
            form,
            rate(found.requests_per_s / requests),
            f"{found.spread:.0%}",
            f"{found.p50_ms:.2f}",
            f"{found.p99_ms:.2f}",
            f"{cpu.us_a_request * requests:.0f}",
            rate(rows / (effort.rounds * effort.seconds)),
        )


def _measure_polls(effort: Effort, server: Server, run_name: str) -> None:
    table = Table(
        f"Poll of {_POLLED} from the cache, {_CLIENTS} connections, "
        f"{_OPEN:,} in progress, {_INVALID:,} invalid",
        ("each message of a transaction of its own", "msg/s", "p50 ms", "p99 ms", "of plain"),
    )
    topic = create(server.url, f"{run_name}-polled")[0]
    reader = _fill(server.url, topic)
    path = f"{topic.path}/poll"
    polls: dict[str, Measure] = {
        name: partial(
            wrk.run,
            "poll_start.lua",
            server.url,
            connections=_CLIENTS,
            seconds=effort.seconds,
            POLL_PATH=f"{path}{query}",
            MESSAGES=_POLLED,
        )
        for name, query in (
            ("plain", ""),
            ("committed", "?isolation=committed"),
            ("by a transaction's id", f"?transaction_id={reader}"),
        )
    }
    found = in_turn(polls, effort.rounds)
    for name, median in found.items():
        table.row(
            name,
            rate(median.requests_per_s * _POLLED),
            f"{median.p50_ms:.2f}",
            f"{median.p99_ms:.2f}",
            times(found["plain"].requests_per_s, median.requests_per_s),
        )


def _fill(url: str, topic: Topic) -> int:
    """Publish in transactions of their own, leave many open and invalid; return a reader's id."""
    for _ in range(_POLLED):
        transaction = _start(url)
        _publish(url, topic, transaction)
        _post(url, f"/v1/transactions/{transaction}/commit", {})
    for _ in range(_INVALID):
        _post(url, f"/v1/transactions/{_start(url)}/invalidate", {})
    for _ in range(_OPEN):
        _start(url, timeout_s=3600)
    return _start(url, timeout_s=3600)


def _start(url: str, **request: object) -> int:
    return int(_post(url, "/v1/transactions?codec=false", request)["transaction_id"])


def _publish(url: str, topic: Topic, transaction: int) -> None:
    messages = ["x" * _PAYLOAD_BYTES]
    body = {"transactionWritePointer": str(transaction), "messages": messages}
    _post(url, f"{topic.path}/publish", body)


def _post(url: str, path: str, body: object) -> dict[str, str]:
    data = json.dumps(body).encode()
    request = Request(f"{url}{path}", data, {"Content-Type": "application/json"})
    with urlopen(request) as response:
        found: dict[str, str] = json.loads(response.read() or b"{}")
        return found
