"""Values with schemas: encoding and publishing, checked or not, and polling, against the bytes."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

import tms
from bench.rounds import Effort
from bench.servers import tms_server
from bench.table import Table

_MESSAGES = 100
_PUBLISHES = 300
_TYPES = (
    *("string", "int", "long", "double", "boolean"),
    *(["null", "string"], ["null", "int"], "string", "long"),
    {"type": "array", "items": "string"},
)
_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": f"f{n}", "type": kind} for n, kind in enumerate(_TYPES)],
    }
)
_CHECKS = ("off", "id", "full")


def _value(number: int) -> dict[str, object]:
    """Return a record of ten fields."""
    values = (
        *(f"order {number}", number, number * 1_000, number / 7, number % 2 == 0),
        *(None, number, "a text of some words", 123_456_789, ["one", "two"]),
    )
    return {f"f{n}": value for n, value in enumerate(values)}


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure values and print their figures."""
    values = [_value(number) for number in range(_MESSAGES)]
    title = f"{_MESSAGES} records of ten fields in a publish, one Python client"
    with tms_server(folder) as server, tms.connect(server.url) as client:
        topics = {check: client.topic(f"values-{check}") for check in _CHECKS}
        for check, topic in topics.items():
            topic.create(schema_check=check)
            topic.publish(values, schema=_SCHEMA)
        raw = topics["off"].encode(values, _SCHEMA)
        payloads = [message.payload for message in raw]
        works: dict[str, Callable[[], object]] = {
            "the same bytes": lambda: topics["off"].publish(payloads),
            "encoded": lambda: topics["off"].publish(values, schema=_SCHEMA),
            "encoded, checked by id": lambda: topics["id"].publish(values, schema=_SCHEMA),
            "encoded, checked whole": lambda: topics["full"].publish(values, schema=_SCHEMA),
        }
        _show(title, works)
        polls: dict[str, Callable[[], object]] = {
            "the bytes": lambda: list(topics["off"].poll(limit=_MESSAGES)),
            "decoded": lambda: list(topics["off"].poll(limit=_MESSAGES, decode=True)),
        }
        _show(f"Polling {_MESSAGES} of them", polls)


def _show(title: str, works: dict[str, Callable[[], object]]) -> None:
    """Run the functions in turn, and print how long each takes."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(_PUBLISHES):
        for name, work in works.items():
            begun = perf_counter()
            work()
            times[name].append((perf_counter() - begun) * 1000)
    table = Table(title, ("what", "p50 ms", "p99 ms", "of the bytes"))
    first = median(next(iter(times.values())))
    for name, found in times.items():
        p50, p99 = median(found), quantiles(found, n=100)[98]
        table.row(name, f"{p50:.2f}", f"{p99:.2f}", f"{p50 / first:.2f} x")
