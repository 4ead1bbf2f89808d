"""Groups with 32 members: take and acknowledge, exactly once, by key; and other queues.

Each round has a group of its own, which begins at the topic's start. A message counts when its
acknowledgement is durable. PostgreSQL and Redis are measured if they are installed.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median, quantiles
from threading import Event, Thread
from urllib.parse import urlsplit

from bench import queues, wrk
from bench.rounds import CpuMeter, Effort, Measure, Median, in_turn
from bench.servers import Server, tms_server
from bench.table import Table, rate, times
from bench.topics import Topic, create, fill

_MEMBERS = 32
_PAYLOAD_BYTES = 100
_BILLS = "bills"
_OPEN = 100_000
_WAITS = 300
_DEAD, _REJECTING = 10_000, 8
_names = count(1)
Ask = Callable[[str, str, object], bytes]
_COLUMNS = ("what", "messages/s", "spread", "p50 ms a request", "p99", "CPU us a message", "of it")


@dataclass(frozen=True, slots=True)
class _Contest:
    """A way of working, measured against others."""

    form: str
    title: str
    messages: int
    """The messages per take."""
    others: Mapping[str, Measure]


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure groups and print their figures."""
    with tms_server(folder / "groups") as server:
        topic, _ = create(server.url, f"{run_name}-jobs", _BILLS)
        keyed, waited = create(server.url, f"{run_name}-keyed", f"{run_name}-waited")
        messages = 300_000 * int(effort.seconds)
        fill([topic], messages, _PAYLOAD_BYTES)
        fill([keyed], messages // 4, _PAYLOAD_BYTES, is_keyed=True)
        title = f"Groups: {_MEMBERS} members, {_PAYLOAD_BYTES} B, fsync before each answer"
        table = Table(title, _COLUMNS)
        with (
            queues.postgresql(folder / "postgresql", _PAYLOAD_BYTES) as postgresql,
            queues.redis(folder / "redis", _PAYLOAD_BYTES) as redis,
        ):
            for contest in _contests(effort.seconds, postgresql, redis):
                _in_turn(table, effort, server, topic, contest)
        _measure_keys(Table("Order by key, 1,000 keys", _COLUMNS), effort, server, keyed)
        _measure_waits(server, waited)
        _measure_dead(server, *create(server.url, f"{run_name}-dying"))
    _measure_open(folder / "open", run_name)


def _contests(
    seconds: float, postgresql: queues.Postgresql, redis: queues.Redis
) -> Iterator[_Contest]:
    jobs = int(40_000 * seconds)
    single = {
        "PostgreSQL by lease: UPDATE, DELETE": postgresql("by lease", jobs, _MEMBERS, seconds),
        "PostgreSQL by one DELETE": postgresql("by one DELETE", jobs, _MEMBERS, seconds),
        "Redis, XREADGROUP and XACK in a script": redis(jobs, 1, jobs, _MEMBERS),
    }
    by_lease = postgresql("by lease, a hundred", 4 * jobs, _MEMBERS, seconds)
    hundred = {
        "PostgreSQL by lease, a hundred": by_lease,
        "Redis in a script, a hundred": redis(10 * jobs, 100, jobs // 10, _MEMBERS),
    }
    insert = postgresql("DELETE and INSERT", jobs, _MEMBERS, seconds)
    yield _Contest("two", "take 1, then ack 1", 1, single)
    yield _Contest("next", "the ack with the next take", 1, {})
    yield _Contest("next", "100 and 100, the acks with the next take", 100, hundred)
    title = "exactly once: take, publish with the ack"
    yield _Contest("once", title, 1, {"PostgreSQL, DELETE and INSERT": insert})


def _in_turn(table: Table, effort: Effort, server: Server, topic: Topic, contest: _Contest) -> None:
    title, messages = contest.title, contest.messages
    requests = 1 if contest.form == "next" else 2
    work = partial(_work, contest.form, server, topic, messages=messages, seconds=effort.seconds)
    cpu = CpuMeter(server)
    found = in_turn({title: cpu.watch(work), **contest.others}, effort.rounds)
    own_per_s = found[title].requests_per_s * messages / requests
    for name, each in found.items():
        if name == title:
            table.row(
                *_cells(title, each, own_per_s), f"{cpu.us_a_request * requests / messages:.1f}", ""
            )
        else:
            per_s = each.requests_per_s * messages
            table.row(*_cells(name, each, per_s), "-", times(own_per_s, per_s))


def _cells(title: str, found: Median, per_s: float) -> tuple[str, ...]:
    latency = (f"{found.p50_ms:.2f}", f"{found.p99_ms:.2f}")
    return (title, rate(per_s), f"{found.spread:.0%}", *latency)


def _work(
    form: str,
    server: Server,
    topic: Topic,
    *,
    messages: int,
    seconds: float,
    order: str = "none",
) -> wrk.Run:
    path = make_group(topic, order=order)
    return wrk.run(
        "group.lua",
        server.url,
        connections=_MEMBERS,
        threads=_MEMBERS,
        seconds=seconds,
        FORM=form,
        GROUP_PATH=path,
        MESSAGES=messages,
        BYTES=_PAYLOAD_BYTES,
        OUT=_BILLS,
    )


def _measure_keys(table: Table, effort: Effort, server: Server, topic: Topic) -> None:
    """Measure order by key against no order, on one topic whose messages have keys."""
    for title, messages in (("the ack with the next take", 1), ("10 and 10", 10)):
        work = partial(_work, "next", server, topic, messages=messages, seconds=effort.seconds)
        orders: dict[str, Measure] = {
            order: partial(work, order=order) for order in ("none", "key")
        }
        found = in_turn(orders, effort.rounds)
        per_s = {order: each.requests_per_s * messages for order, each in found.items()}
        for order, each in found.items():
            cells = _cells(f"{title}, order {order}", each, per_s[order])
            table.row(*cells, "-", times(per_s[order], per_s["none"]))


def _measure_waits(server: Server, topic: Topic) -> None:
    """Measure the time from the start of a publish to the answer of the take that waits for it."""
    path = make_group(topic)
    ends: list[float] = []
    ready, got = Event(), Event()

    def take() -> None:
        with connected(server.url) as ask:
            for number in range(_WAITS):
                ready.set()
                body = {"member": "w", "sequence": number + 1}
                ask("POST", f"{path}/take?wait=10", body)
                ends.append(time.perf_counter())
                got.set()

    starts, answers = [], []
    member = Thread(target=take)
    member.start()
    with connected(server.url) as ask:
        for _ in range(_WAITS):
            ready.wait()
            ready.clear()
            time.sleep(0.01)
            starts.append(time.perf_counter())
            ask("POST", f"{topic.path}/publish", {"messages": ["x" * _PAYLOAD_BYTES]})
            answers.append(time.perf_counter())
            got.wait()
            got.clear()
    member.join()
    table = Table("Publish to a take that waits", ("ms", "p50", "p99"))
    for title, until in (("publish to the take's answer", ends), ("the publish alone", answers)):
        taken = [1000 * (end - start) for start, end in zip(starts, until, strict=True)]
        table.row(title, f"{median(taken):.2f}", f"{quantiles(taken, n=100)[-1]:.2f}")


def _measure_dead(server: Server, topic: Topic) -> None:
    """Measure dead letters of members that reject a hundred messages with each take."""
    fill([topic], _DEAD, _PAYLOAD_BYTES)
    path = make_group(topic, attempts_max=1, dead_letters_max=10_000, dead_letters_per_s=1)

    def reject(number: int) -> None:
        with connected(server.url) as ask:
            body: dict[str, object] = {"member": f"w-{number}", "messages": 100}
            while (
                delivery := json.loads(ask("POST", f"{path}/take", body))["delivery"]
            ) is not None:
                body["settle"] = {"nacks": [{"delivery": delivery, "dead": True}]}

    members = [Thread(target=reject, args=(number,)) for number in range(_REJECTING)]
    started = time.perf_counter()
    for member in members:
        member.start()
    for member in members:
        member.join()
    with connected(server.url) as ask:
        while json.loads(ask("GET", path, None))["counts"]["dead"] < _DEAD:
            time.sleep(0.01)
    per_s = _DEAD / (time.perf_counter() - started)
    table = Table("Dead letters", ("what", "messages/s"))
    table.row(f"{_REJECTING} members, a hundred at a time", rate(per_s))


def _measure_open(folder: Path, run_name: str) -> None:
    """Measure the memory of open messages, and the time to load their group."""
    columns = (f"{_OPEN:,} open messages", "B each", "ms to read again")
    table = Table("Open messages", columns)
    for order in ("none", "key"):
        for a_delivery in (1, 100):
            place = folder.with_name(f"{folder.name}-{order}-{a_delivery}")
            with tms_server(place) as server:
                topic = create(server.url, run_name)[0]
                fill([topic], _OPEN, _PAYLOAD_BYTES, is_keyed=order == "key")
                path = make_group(topic, order=order, open_max=_OPEN, member_max=_OPEN)
                before = server.memory()["RssAnon"]
                _hold(server, path, a_delivery)
                size = (server.memory()["RssAnon"] - before) / _OPEN
            with tms_server(place) as server, connected(server.url) as ask:
                ask("GET", topic.path, None)
                started = time.perf_counter()
                ask("POST", f"{path}/settle", {"member": "w", "extend": []})
                read_ms = 1000 * (time.perf_counter() - started)
            title = f"order {order}, {a_delivery} a delivery"
            table.row(title, f"{size:.0f}", f"{read_ms:.0f}")


def _hold(server: Server, path: str, a_delivery: int) -> None:
    """Take all messages, and acknowledge none."""
    with connected(server.url) as ask:
        for number in range(_OPEN // a_delivery):
            member = f"w-{number % _MEMBERS}"
            ask("POST", f"{path}/take", {"member": member, "messages": a_delivery})


def make_group(topic: Topic, **settings: object) -> str:
    """Create a group that begins at the start of its topic; return its path."""
    path = f"{topic.path}/subscriptions/g{next(_names)}"
    with connected(topic.url) as ask:
        all_settings = {"member_max": 10_000, **settings}
        ask("PUT", path, {"kind": "shared", "lease_s": 3600, **all_settings})
    return path


@contextmanager
def connected(url: str) -> Iterator[Ask]:
    """Yield a function that sends JSON over one connection; it raises `RuntimeError` if refused."""
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:

        def ask(method: str, path: str, body: object) -> bytes:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            if answer.status >= http.client.BAD_REQUEST:
                raise RuntimeError(f"{method} {path}: {answer.status} {content[:200]!r}")
            return content

        yield ask
