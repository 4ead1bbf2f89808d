"""The console of a full server: the first answer of each page, and other requests next to it.

While a page is rendered, `/health` is requested continuously: its longest answer shows how long the
server's loop was blocked. During the load, the windows of one operator refresh themselves.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import tms
from bench import publish
from bench.poll import filled
from bench.rounds import Effort, Measure, in_turn
from bench.servers import tms_server
from bench.table import Table, rate, times
from bench.topics import ask, connected, create, fill
from bench.wrk import Run
from tms.core.services.transactions import StartRequest

_SUBSCRIPTIONS = 1_000
_TRANSACTIONS = 1_000
_EACH = 10
"""The subscriptions and transactions of each topic that has some."""
_CONNECTIONS = 32
_LOADED_S = 10.0
"""Longer than most windows wait between refreshes."""
_ASKED = 5
_WATCHED_S = 25.0
"""After this time the server has sampled its topics and readers twice, so it knows rates."""
_NUMBERS = r"bench[^/]+|[0-9a-f]{16,}"
_PAGE_COLUMNS = ("page", "first answer", "median", "KB", "longest /health beside it")
_LOAD_COLUMNS = ("32 connections", "req/s", "spread", "p50 ms", "p99 ms", "of alone")


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Fill a server, measure its pages, and publishing and polling with windows open."""
    with tms_server(folder / "data") as server:
        windows = _fill(server.url, effort, run_name)
        _measure_pages(server.url, windows)
        _measure_load(server.url, effort, windows, folder / "starts", run_name)


def _fill(url: str, effort: Effort, run_name: str) -> dict[str, float | None]:
    """Fill a server; return its pages, each with the seconds between its refreshes."""
    names = [f"{run_name}-{number:05}" for number in range(effort.topics)]
    topics = create(url, *names)
    fill(topics[:1], effort.cleaned_messages)
    with tms.connect(url, "default", auth="") as client:
        for number in range(_SUBSCRIPTIONS):
            topic = client.topic(names[number // _EACH])
            topic.subscription(f"reader-{number % _EACH}").create()
        for number in range(_TRANSACTIONS):
            request = StartRequest(timeout_s=3600, client=f"job-{number}")
            started = client.transactions.start(request)
            client.topic(names[number // _EACH]).publish(b"in progress", started)
        message = next(iter(client.topic(names[0]).poll(limit=1))).id.hex()
    time.sleep(_WATCHED_S / 2)
    fill(topics, 1)
    time.sleep(_WATCHED_S / 2)
    of_topic = f"namespaces/default/topics/{names[0]}"
    return {
        "": 10,
        "topics": None,
        "topics?sort=messages_in": None,
        of_topic: 10,
        f"{of_topic}/messages": 2,
        f"{of_topic}/messages?key=none": None,
        f"{of_topic}/messages/{message}": None,
        "transactions": None,
        f"transactions/{started.transaction_id}": None,
        "readers": 5,
        f"readers/default/{names[0]}/reader-0": 5,
        **dict.fromkeys(("schemas", "namespaces", "namespaces/default", "access", "audit"), None),
        **dict.fromkeys(("cluster", "cleanup"), 10.0),
    }


@contextmanager
def _probing(url: str) -> Iterator[Callable[[], float]]:
    """Request `/health` continuously; yield a function for the longest answer since, in s."""
    longest = 0.0
    is_over = False

    def keep_asking() -> None:
        nonlocal longest
        with connected(url) as connection:
            while not is_over:
                started = time.perf_counter()
                ask(connection, "GET", "/health", b"")
                longest = max(longest, time.perf_counter() - started)

    def taken() -> float:
        nonlocal longest
        found, longest = longest, 0.0
        return found

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        yield taken
    finally:
        is_over = True
        asking.join()


def _measure_pages(url: str, pages: Iterable[str]) -> None:
    table = Table("Pages of the console", _PAGE_COLUMNS)
    with connected(url) as connection, _probing(url) as longest_probe:
        for page in pages:
            longest_probe()
            seconds = []
            for _ in range(_ASKED):
                started = time.perf_counter()
                answer = ask(connection, "GET", f"/console/{page}", b"")
                seconds.append(time.perf_counter() - started)
            stood_s = longest_probe()
            table.row(
                re.sub(_NUMBERS, "…", page) or "overview",
                f"{1000 * seconds[0]:.0f} ms",
                f"{1000 * median(seconds):.0f} ms",
                f"{len(answer) / 1000:.0f}",
                f"{1000 * stood_s:.1f} ms",
            )


@contextmanager
def _open_windows(url: str, windows: Mapping[str, float | None]) -> Iterator[None]:
    """Request the pages that refresh themselves, each at its interval."""
    is_over = threading.Event()

    def keep_new(page: str, every_s: float) -> None:
        with connected(url) as connection:
            while not is_over.is_set():
                ask(connection, "GET", f"/console/{page}", b"")
                is_over.wait(every_s)

    asking = [
        threading.Thread(target=keep_new, args=(page, every_s))
        for page, every_s in windows.items()
        if every_s is not None
    ]
    for each in asking:
        each.start()
    try:
        yield
    finally:
        is_over.set()
        for each in asking:
            each.join()


def _measure_load(
    url: str, effort: Effort, windows: Mapping[str, float | None], file: Path, run_name: str
) -> None:
    table = Table("Beside an open console", _LOAD_COLUMNS)
    published = create(url, f"{run_name}-published")[0]
    polled = filled(url, f"{run_name}-polled", effort.small_messages, file)
    loads: dict[str, Measure] = {
        "publish 1 x 100 B": partial(publish.load, published, _LOADED_S, 1, _CONNECTIONS),
        "poll of 100": partial(polled.load, _LOADED_S, 100, _CONNECTIONS),
    }

    def beside(load: Measure) -> Run:
        with _open_windows(url, windows):
            return load()

    for figure, load in loads.items():
        medians = in_turn({"alone": load, "beside": partial(beside, load)}, effort.rounds)
        for how, found in medians.items():
            table.row(
                f"{figure}, {how}",
                rate(found.requests_per_s),
                f"{100 * found.spread:.0f}%",
                f"{found.p50_ms:.2f}",
                f"{found.p99_ms:.2f}",
                times(found.requests_per_s, medians["alone"].requests_per_s),
            )
