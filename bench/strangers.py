"""Latency of other clients, and the server's memory, under 10,000 hostile requests of each kind.

Strangers send from a process of their own, over 64 connections at a time, while another client
publishes and polls, one request after the other. The client is measured alone first, then under
each kind. A minute after the last kind, the server's memory may have grown by 100 MB in total.
"""

import base64
import http.client
import itertools
import multiprocessing
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from bench.hostile import send_all
from bench.memory import Peak
from bench.rounds import FULL, Effort
from bench.servers import Server, tms_server
from bench.table import Table, mebibytes, rate
from tms.security.passwords import hash_password
from tms.security.tokens import new_token

REQUESTS = 10_000
REQUESTS_QUICK = 500
GROWTH_MAX = 100_000_000
"""The bytes by which the server may have grown, a minute after the last kind."""
_HEAD_BYTES = 60 * 1024
_BODY_BYTES = 64 * 1024
_ALONE_S = 5.0
_LATER_S = 60.0
_LATER_QUICK_S = 10.0
_HELD_S = 0.2
_PAUSE_S = 0.01
_PIPELINED_BYTES = 200 * 1024
_TOPIC = "/v1/namespaces/default/topics/orders"
_COLUMNS = ("strangers send", "requests/s", "p99 ms", "refused", "anonymous")


def _get(target: str, *fields: str) -> bytes:
    lines = "".join(f"{each}\r\n" for each in ("Host: 127.0.0.1", *fields))
    return f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode()


def _post(body: bytes, *fields: str) -> bytes:
    headers = ("Host: 127.0.0.1", f"Content-Length: {len(body)}", *fields)
    lines = "".join(f"{each}\r\n" for each in headers)
    return f"POST {_TOPIC}/publish HTTP/1.1\r\n{lines}\r\n".encode() + body


def _filled(unit: str, size: int = _HEAD_BYTES) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def _basic(number: int) -> str:
    value = base64.b64encode(f"name{number % 50}:{number}".encode()).decode()
    return f"Authorization: Basic {value}"


_PATH = _filled("://")
_JSON = "Content-Type: application/json"
_MANY_FIELDS = _get("/v1/namespaces", *(f"x{n:x}: y" for n in range(6500)))
_EQUAL_FIELDS = _get("/v1/namespaces", *["a:"] * 15_000)
_PIPELINED = _get("/v1/namespaces") * (_PIPELINED_BYTES // len(_get("/v1/namespaces")))
_UNREAD = "200 KB of requests, and read nothing"
_HALF = "half a head"
_NO_BODY = "a body that never comes"
_HELD = frozenset((_UNREAD, _HALF, _NO_BODY))
"""Kinds that are not answered at once: the stranger holds the connection for a while."""

KINDS: Mapping[str, Callable[[int], bytes]] = {
    "paths of ://": lambda n: _get(f"/@{n}{_PATH}"),
    "paths that lead nowhere": lambda n: _get(f"/{n}/{_filled('x/')}"),
    "names that are too long": lambda n: _get(f"/v1/namespaces/{n}{_filled('@,:')}/topics"),
    "queries of thousands of parameters": lambda n: _get(f"/v1/namespaces?{n}&{_filled('a=b&')}"),
    "heads of 6,500 fields": lambda _: _MANY_FIELDS,
    "15,000 equal fields": lambda _: _EQUAL_FIELDS,
    "parameters of Accept": lambda _: _post(b"{}", _JSON, f"Accept: {_filled('a/b;q=0.1;')}"),
    "parameters of Content-Type": lambda _: _post(b"{}", f"Content-Type: {_filled('a/b;c=d;')}"),
    "bodies that are not JSON": lambda _: _post(_filled('{"a":[', _BODY_BYTES).encode(), _JSON),
    "cookies of 59,000 backslashes": lambda _: _get("/console/", "Cookie: a=" + "\\" * 59_000),
    "lengths of 5,001 digits": lambda _: _get("/console/", f"Content-Length: {'9' * 5_001}"),
    "numbers of 5,000 digits": lambda _: _get(f"/console/transactions?open={'9' * 5_000}"),
    _NO_BODY: lambda _: _post(b"", "Transfer-Encoding: chunked"),
    _HALF: lambda _: _get("/v1/namespaces")[:-2],
    _UNREAD: lambda _: _PIPELINED,
}
"""Requests, by their number, without authentication."""
KINDS_OF_CALLERS: Mapping[str, Callable[[int], bytes]] = {
    "no credentials": lambda n: _get(f"{_TOPIC}?{n}"),
    "wrong tokens": lambda n: _get(_TOPIC, f"Authorization: Bearer tms_{n:012}_{'a' * 43}"),
    "wrong passwords": lambda n: _get(_TOPIC, _basic(n)),
    "credentials of 60 KB": lambda n: _get(_TOPIC, f"Authorization: Bearer {n}{_filled('a.')}"),
}
"""The same with authentication."""


def _strangers(kind: str, count: int, host: str, port: int) -> None:
    """Send `count` requests of a kind. It runs in a process of its own."""
    make = {**KINDS, **KINDS_OF_CALLERS}[kind]
    send_all(map(make, range(count)), host, port, held_s=_HELD_S if kind in _HELD else 0)


@dataclass
class _Client:
    """Publishes and polls in turn, and measures how long each answer takes."""

    url: str
    headers: Mapping[str, str]
    took_s: list[float] = field(default_factory=list)
    refused: int = 0
    _connection: http.client.HTTPConnection | None = None

    def work_while(self, goes_on: Callable[[], bool]) -> None:
        """Work, with new measurements."""
        self.took_s, self.refused = [], 0
        bodies = itertools.cycle((("publish", b'{"messages": ["x"]}'), ("poll", b'{"limit": 10}')))
        for verb, body in bodies:
            if not goes_on():
                return
            started = time.perf_counter()
            if not self._is_answered("POST", f"{_TOPIC}/{verb}", body):
                self.refused += 1
                time.sleep(_PAUSE_S)
            self.took_s.append(time.perf_counter() - started)

    def create_topic(self) -> None:
        """Create the topic to publish to."""
        if not self._is_answered("PUT", _TOPIC, b"{}"):
            raise RuntimeError("the topic could not be created")

    @property
    def p99_ms(self) -> float:
        """The 99th percentile of the latency, in ms."""
        return 1000 * sorted(self.took_s)[int(0.99 * (len(self.took_s) - 1))]

    def _is_answered(self, method: str, path: str, body: bytes) -> bool:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        headers = {"Content-Type": "application/json", **self.headers}
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self._connection = None
            return False
        return answer.status == http.client.OK


def _under(server: Server, client: _Client, kind: str, count: int, table: Table) -> None:
    """Measure the client and the memory while strangers send a kind."""
    address = urlsplit(server.url)
    spawned = multiprocessing.get_context("spawn")
    sending = spawned.Process(target=_strangers, args=(kind, count, address.hostname, address.port))
    peak = Peak(server)
    started = time.perf_counter()
    sending.start()
    client.work_while(sending.is_alive)
    took_s = time.perf_counter() - started
    sending.join()
    _print(table, kind, count / took_s, client, peak.end())


def _print(
    table: Table, figure: str, sent_per_s: float, client: _Client, memory: Mapping[str, int]
) -> None:
    table.row(
        figure,
        rate(sent_per_s),
        f"{client.p99_ms:.1f}",
        f"{client.refused}",
        mebibytes(memory["RssAnon"]),
    )


def _measure(
    title: str,
    server: Server,
    client: _Client,
    kinds: Mapping[str, Callable[[int], bytes]],
    *,
    is_quick: bool,
) -> None:
    table = Table(title, _COLUMNS)
    client.create_topic()
    end = time.perf_counter() + _ALONE_S
    client.work_while(lambda: time.perf_counter() < end)
    before = server.memory()
    _print(table, "nothing", 0, client, before)
    for kind in kinds:
        _under(server, client, kind, REQUESTS_QUICK if is_quick else REQUESTS, table)
    end = time.perf_counter() + (_LATER_QUICK_S if is_quick else _LATER_S)
    client.work_while(lambda: time.perf_counter() < end)
    after = server.memory()
    _print(table, "nothing any more", 0, client, after)
    grown = after["RssAnon"] - before["RssAnon"]
    print(f"\nIt has {mebibytes(grown)} more than before; allowed are {mebibytes(GROWTH_MAX)}.")


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure and print the figures."""
    is_quick = effort is not FULL
    with tms_server(folder / "off") as server:
        client = _Client(server.url, {})
        _measure("Strangers, auth off", server, client, KINDS, is_quick=is_quick)
    passwords = folder / "passwords"
    passwords.write_text(f"bob:{hash_password('of bob')}\n", encoding="ascii")
    token, kept = new_token("root")
    flags = ("--auth", "required", "--superusers", "root", "--auth-passwords", str(passwords))
    token_flags = ("--auth-tokens", f"{kept.id}:{kept.sha256.hex()}:root")
    audit = folder / "audit"
    with tms_server(folder / "on", *flags, *token_flags, "--audit-file", str(audit)) as server:
        client = _Client(server.url, {"Authorization": f"Bearer {token}"})
        _measure("Strangers, auth required", server, client, KINDS_OF_CALLERS, is_quick=is_quick)
    print(f"The audit has {audit.stat().st_size / 1000:.0f} kB.")
