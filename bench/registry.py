"""The schema registry: schemas by id, new schemas, a long subject, a start with many."""

import asyncio
import json
import os
import signal
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, sleep
from urllib.parse import urlsplit

import httpx

from bench import wrk
from bench.rounds import Effort
from bench.servers import Server, empty_server, registry_server, tms_server
from bench.table import Table, mebibytes, rate, share
from dev.processes import free_ports
from tms.client.remote.remote_services import RemoteServices
from tms.core.values.caller import REGISTRY, Caller
from tms.core.values.frame import bodies_of
from tms.core.values.schema_types import AVRO, JSON, PROTOBUF
from tms.core.values.topic import TopicId
from tms.registry.log.schema_log import PROPERTIES
from tms.registry.state.records import Origin, SchemaWritten, encode
from tms.registry.state.schema import Schema

_CONNECTIONS = 8
_NEW = 500
_LONG = 150
_WIDE = 60
_SESSION_S = 5.0
_FIELDS = 200
_MANY = 100_000
_TEXT_BYTES = 1000
_BATCH = 1000
_TOPIC = TopicId("system", "_schemas")
_START_S_MAX = 120.0


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure the registry and print its figures."""
    with tms_server(folder / "few") as server, empty_server() as empty:
        base = f"{server.url}/v1/registry"
        httpx.put(f"{base}/config/long", json={"compatibility": "NONE"}).raise_for_status()
        with closing(HTTPConnection(urlsplit(server.url).netloc)) as http:
            _register(http, "warm", _text(0))
            new_ms = [_timed(http, f"new{number}", _text(number)) for number in range(1, _NEW + 1)]
            wide_ms = {
                kind: [_timed(http, f"{kind}{n}", wide(n), kind) for n in range(_WIDE)]
                for kind, wide in _WIDE_TEXTS.items()
            }
            long_ms = [_timed(http, "long", _text(_NEW + number)) for number in range(1, _LONG + 1)]
        rounds = [
            (
                _get(effort, f"{base}/schemas/ids/", _NEW),
                _get(effort, f"{empty.url}/bytes/", 300),
            )
            for _ in range(effort.rounds)
        ]
        _show_reads(rounds)
    table = Table("Registering schemas of 1 KB, one client", ("what", "p50 ms", "p99 ms"))
    table.row("a new schema under a new subject", *_spread(new_ms))
    part = len(long_ms) // 10
    table.row(f"the first {part} versions of a subject", *_spread(long_ms[:part]))
    table.row(f"its last {part} versions of {_LONG}", *_spread(long_ms[-part:]))
    for kind, times_ms in wide_ms.items():
        table.row(f"{kind}, {_FIELDS} fields", *_spread(times_ms))
    _forwarded(folder / "masters")
    _start(folder / "many")


def _show_reads(rounds: list[tuple[wrk.Run, wrk.Run]]) -> None:
    table = Table(
        f"A schema of 1 KB by its id, {_CONNECTIONS} connections",
        ("what", "req/s", "p50 ms", "p99 ms", "empty req/s", "of it"),
    )
    mine = median(each.requests_per_s for each, _ in rounds)
    other = median(each.requests_per_s for _, each in rounds)
    p50, p99 = (median(getattr(each, name) for each, _ in rounds) for name in ("p50_ms", "p99_ms"))
    cells = (f"{p50:.2f}", f"{p99:.2f}", rate(other), share(mine, other))
    table.row("random ids, from memory", rate(mine), *cells)


def _get(effort: Effort, base: str, count: int) -> wrk.Run:
    scheme, _, rest = base.partition("://")
    path = f"/{rest.partition('/')[2]}"
    return wrk.run(
        "get.lua",
        f"{scheme}://{rest.partition('/')[0]}",
        connections=_CONNECTIONS,
        seconds=effort.seconds,
        BASE=path,
        COUNT=count,
    )


def _text(number: int) -> str:
    """Return a different schema of about a kilobyte for each number."""
    field = {"name": f"field{number}", "type": "string", "doc": "x" * (_TEXT_BYTES - 100)}
    return json.dumps({"type": "record", "name": "R", "fields": [field]}, separators=(",", ":"))


def _avro(number: int) -> str:
    fields = [{"name": f"f{number}_{n}", "type": ["null", "string"]} for n in range(_FIELDS)]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def _json(number: int) -> str:
    properties = {f"f{number}_{n}": {"type": "string"} for n in range(_FIELDS)}
    return json.dumps({"type": "object", "properties": properties})


def _protobuf(number: int) -> str:
    fields = "".join(f"  string f{number}_{n} = {n};\n" for n in range(1, _FIELDS + 1))
    return f'syntax = "proto3";\nmessage M {{\n{fields}}}\n'


_WIDE_TEXTS = {AVRO: _avro, JSON: _json, PROTOBUF: _protobuf}


def _register(http: HTTPConnection, subject: str, text: str, kind: str = AVRO) -> None:
    path = f"/v1/registry/subjects/{subject}/versions"
    body = json.dumps({"schema": text, "schemaType": kind})
    http.request("POST", path, body, {"Content-Type": "application/json"})
    answer = http.getresponse()
    content = answer.read()
    if answer.status != httpx.codes.OK:
        raise RuntimeError(content)


def _timed(http: HTTPConnection, subject: str, text: str, kind: str = AVRO) -> float:
    begun = perf_counter()
    _register(http, subject, text, kind)
    return (perf_counter() - begun) * 1000


def _forwarded(folder: Path) -> None:
    """Register at a follower, which forwards to the master; and fail over."""
    session = ("--registry-mode", "master", "--registry-session-s", f"{_SESSION_S:g}")
    with tms_server(folder) as server, ExitStack() as stack:
        ports = free_ports(3)
        found = [stack.enter_context(registry_server(server.url, port, *session)) for port in ports]
        master = _master(found)
        follower = next(each for each in found if each is not master)
        table = Table("A new schema of 1 KB where one master writes", ("at", "p50 ms", "p99 ms"))
        for name, at in (("the master", master), ("a follower", follower)):
            with closing(HTTPConnection(urlsplit(at.url).netloc)) as http:
                _register(http, f"warm {name}".replace(" ", "-"), _text(0))
                subjects = [f"{name.replace(' ', '-')}{number}" for number in range(_NEW)]
                times = [_timed(http, each, _text(n)) for n, each in enumerate(subjects, 1)]
            table.row(name, *_spread(times))
        os.kill(master.pid, signal.SIGKILL)
        begun = perf_counter()
        url = f"{follower.url}/v1/registry/config/after"
        while not httpx.put(url, json={"normalize": True}, timeout=30).is_success:
            sleep(0.01)
        took = perf_counter() - begun
    table = Table("Killing the master, members elect", ("session s", "written again after s"))
    table.row(f"{_SESSION_S:g}", f"{took:.2f}")


def _master(servers: list[Server]) -> Server:
    while True:
        for each in servers:
            if httpx.get(f"{each.url}/v1/registry/status").json().get("role") == "master":
                sleep(1.0)  # until the others know it
                return each
        sleep(0.05)


def _spread(times_ms: list[float]) -> tuple[str, str]:
    return f"{median(times_ms):.2f}", f"{quantiles(times_ms, n=100)[98]:.2f}"


def _start(folder: Path) -> None:
    """Fill a log, and start a server on it."""
    with tms_server(folder) as server:
        empty_bytes = server.memory()["RssAnon"]
        asyncio.run(_fill(server.url))
    begun = perf_counter()
    with tms_server(folder) as server:
        served_s = perf_counter() - begun
        url = f"{server.url}/v1/registry/schemas/ids/{_MANY}"
        while httpx.get(url, timeout=_START_S_MAX).status_code != httpx.codes.OK:
            pass
        read_s = perf_counter() - begun
        held_bytes = server.memory()["RssAnon"] - empty_bytes
    table = Table(
        "A start with many schemas of 1 KB",
        ("schemas", "serves after s", "all read after s", "memory of them", "a schema"),
    )
    cells = f"{served_s:.1f}", f"{read_s:.1f}", mebibytes(held_bytes)
    table.row(rate(_MANY), *cells, f"{held_bytes / _MANY:.0f} B")


async def _fill(url: str) -> None:
    services = RemoteServices(url, timeout_s=30.0, retry_for_s=0, compress=False)
    caller = Caller(part=REGISTRY)
    try:
        await services.messaging.create_topic(_TOPIC, PROPERTIES, caller=caller)
        for first in range(1, _MANY + 1, _BATCH):
            records = [
                encode(
                    SchemaWritten(f"subject{number}", 1, number, Schema(AVRO, _text(number))),
                    Origin(number, "0123456789abcdef"),
                ).body()
                for number in range(first, first + _BATCH)
            ]
            await services.messaging.publish(_TOPIC, bodies_of(records), caller=caller)
    finally:
        await services.close()
