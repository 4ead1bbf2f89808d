"""The processor time of the Python client: in its own process, the server in another.

Each figure is measured in turn with the cost of HTTP alone for the same bytes: `tms.outgoing`, on
which the client is built, and aiohttp. Processor time includes all threads of the client's process.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import aiohttp

import tms
import tms.aio
from bench.rounds import Effort
from bench.servers import Server, tms_server
from bench.table import Table, times
from tms.client.remote.remote_services import RemoteServices
from tms.core.values.groups import Acks, Settle, Take
from tms.core.values.topic import TopicId
from tms.outgoing.compressed import whole_of
from tms.outgoing.upstream import Upstream
from tms.wire.avro_bodies import AVRO
from tms.wire.bodies import PublishRequest

Work = Callable[[], Awaitable[object]]
Works = dict[str, tuple[Work, int]]
"""The work of each contender, and its number of tasks."""

_BODY = AVRO.encode_publish(PublishRequest(None, [b"x" * 100]))
_PATH = "/v1/namespaces/default/topics/orders/publish?ids=true"
_TOPIC = TopicId("default", "taken")
_TASKS = 32
_POLLED = 100
_TAKEN = 10
_FOLLOWERS = 1_000
_WARM = 30
_PORTION = 96
"""The calls of each contender in its turn, few enough that noise affects all."""
_COLUMNS = (
    "in the client's process",
    "CPU us",
    "spread",
    "HTTP alone",
    "of it",
    "aiohttp",
    "of it",
)


async def _us_each(work: Work, count: int, tasks: int) -> float:
    """Return the microseconds of processor time per call, over `count` calls."""

    async def repeat(share: int) -> None:
        for _ in range(share):
            await work()

    share = max(1, count // tasks)
    begun_s = time.process_time()
    if tasks == 1:
        await repeat(share)
    else:
        await asyncio.gather(*(repeat(share) for _ in range(tasks)))
    return 1e6 * (time.process_time() - begun_s) / (share * tasks)


async def _in_turn(works: Works, effort: Effort) -> dict[str, list[float]]:
    """Return the microseconds per call of each contender, one value for each portion."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for work, tasks in works.values():
        await _us_each(work, _WARM, tasks)
    for _ in range(round(10 * effort.rounds * effort.seconds)):
        for name, (work, tasks) in works.items():
            found[name].append(await _us_each(work, _PORTION, tasks))
    return found


def _print(
    table: Table, found: dict[str, list[float]], names: dict[str, tuple[str, str] | None]
) -> None:
    middle = {name: median(figures) for name, figures in found.items()}
    for name, below in names.items():
        figures = sorted(found[name])
        spread = (figures[len(figures) * 3 // 4] - figures[len(figures) // 4]) / middle[name]
        cells = ["-"] * 4
        if below is not None:
            alone, peer = (middle[each] for each in below)
            cells = [f"{alone:.0f}", times(middle[name], alone)]
            cells += [f"{peer:.0f}", times(middle[name], peer)]
        table.row(name, f"{middle[name]:.0f}", f"{100 * spread:.0f}%", *cells)


async def _by_http(url: str, stack: AsyncExitStack) -> Works:
    """Return the same publish with `tms.outgoing`, and with aiohttp."""
    session = await stack.enter_async_context(
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    )
    way = Upstream(url)
    stack.callback(way.close)
    named = {"Content-Type": AVRO.content_type}
    fields = f"content-type: {AVRO.content_type}\r\n".encode()

    async def by_aiohttp() -> None:
        async with session.post(url + _PATH, data=_BODY, headers=named) as answer:
            await answer.read()

    async def alone() -> None:
        answer = await way.send("POST", _PATH.encode(), fields, _BODY, is_counted=False)
        await whole_of(answer, 1_000_000)

    return {
        "HTTP alone": (alone, 1),
        "aiohttp": (by_aiohttp, 1),
        "HTTP alone, 32 tasks": (alone, _TASKS),
        "aiohttp, 32 tasks": (by_aiohttp, _TASKS),
    }


def _by_client(client: tms.aio.AsyncClient, plain: tms.Client) -> Works:
    topic, polled, of_plain = client.topic("orders"), client.topic("polled"), plain.topic("orders")

    async def publish() -> None:
        await topic.publish(b"x" * 100)

    async def publish_in_thread() -> None:
        of_plain.publish(b"x" * 100)

    async def poll() -> None:
        assert len([message async for message in polled.poll()]) == _POLLED

    async def poll_in_thread() -> None:
        assert len(list(plain.topic("polled").poll())) == _POLLED

    async def transaction() -> None:
        async with client.transaction() as tx:
            await topic.publish(b"x" * 100, tx)

    return {
        "publish, tms.aio": (publish, 1),
        "publish, tms": (publish_in_thread, 1),
        "publish, tms.aio, 32 tasks": (publish, _TASKS),
        "poll of 100, tms.aio": (poll, 1),
        "poll of 100, tms": (poll_in_thread, 1),
        "start, publish, commit, tms.aio": (transaction, 1),
    }


def _by_groups(services: RemoteServices) -> Works:
    groups = services.groups
    before = [Settle()]

    async def taken(name: str, settle: Settle) -> Settle:
        found = await groups.take(_TOPIC, name, Take("m", _TAKEN, settle=settle))
        ids = [message.id for block in found.blocks for message in block]
        assert found.delivery is not None
        assert len(ids) == _TAKEN
        return Settle([Acks(found.delivery, ids)])

    async def take() -> None:
        await groups.settle(_TOPIC, "apart", "m", await taken("apart", Settle()))

    async def take_and_settle() -> None:
        before[0] = await taken("together", before[0])

    return {
        "take 10, acknowledge": (take, 1),
        "take 10, acknowledge with the next": (take_and_settle, 1),
    }


_ONE, _MANY = ("HTTP alone", "aiohttp"), ("HTTP alone, 32 tasks", "aiohttp, 32 tasks")
_ROWS = {
    "publish, tms.aio": _ONE,
    "publish, tms": _ONE,
    "publish, tms.aio, 32 tasks": _MANY,
    "poll of 100, tms.aio": None,
    "poll of 100, tms": None,
    "start, publish, commit, tms.aio": None,
    "take 10, acknowledge": None,
    "take 10, acknowledge with the next": None,
}


async def _measure(url: str, table: Table, effort: Effort) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(await tms.aio.connect(url))
        plain = stack.enter_context(tms.connect(url))
        services = RemoteServices(url, timeout_s=30, retry_for_s=0, compress=False)
        stack.push_async_callback(services.close)
        for name in ("orders", "polled", "taken"):
            await client.topic(name).create()
        await client.topic("polled").publish([b"x" * 100] * _POLLED)
        for name in ("apart", "together"):
            await client.topic("taken").group(name).create()
        for _ in range(300):
            await client.topic("taken").publish([b"x" * 100] * 1_000)
        works = await _by_http(url, stack) | _by_client(client, plain) | _by_groups(services)
        _print(table, await _in_turn(works, effort), _ROWS)


def _started(*arguments: str) -> tuple[float, float]:
    """Return the seconds that a program takes, and its seconds of processor time."""
    begun_s = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    return time.perf_counter() - begun_s, usage.ru_utime + usage.ru_stime


def _starts(url: str, effort: Effort) -> None:
    table = Table("Starts", ("of a program", "seconds", "CPU ms", "of Python's own"))
    programs = {
        "Python alone": ("-c", ""),
        "import tms": ("-c", "import tms"),
        "import tms, connect": ("-c", f"import tms; tms.connect({url!r}).close()"),
        "tms --version": ("-m", "tms", "--version"),
        "tms publish": ("-m", "tms", "--url", url, "publish", "orders", "x"),
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for _ in range(2 * effort.rounds):
        for name, arguments in programs.items():
            found[name].append(_started(*arguments))
    alone = median(cpu_s for _, cpu_s in found["Python alone"])
    for name, figures in found.items():
        seconds, cpu_s = (median(each) for each in zip(*figures, strict=True))
        table.row(name, f"{seconds:.2f}", f"{1000 * cpu_s:.0f}", f"{1000 * (cpu_s - alone):.0f}")


async def _follow(url: str) -> None:
    """Print the memory of waiting followers."""
    own = Server("", os.getpid())
    async with await tms.aio.connect(url) as client:
        topic = client.topic("followed")
        await topic.create(exist_ok=True)
        await topic.publish(b"x")
        before = own.memory()["VmRSS"]
        iterators = [topic.follow() for _ in range(_FOLLOWERS)]
        for one in iterators:
            await anext(one)
        waiting = [asyncio.ensure_future(anext(one)) for one in iterators]
        await asyncio.sleep(2)
        print((own.memory()["VmRSS"] - before) // _FOLLOWERS)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure the client, and print its figures."""
    with tms_server(folder / "data") as server:
        asyncio.run(_measure(server.url, Table("The Python client", _COLUMNS), effort))
        _starts(server.url, effort)
        table = Table("1,000 open followers", ("memory of the client's process", "each"))
        program = f"import asyncio, bench.client as c; asyncio.run(c._follow({server.url!r}))"
        said = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
        table.row("RSS", f"{int(said.stdout) / 1024:.0f} KiB")
