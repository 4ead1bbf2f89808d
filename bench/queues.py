"""The queues to which groups are compared: PostgreSQL with SKIP LOCKED, and Redis' groups.

Each server is started in a folder of its own on the disk to be measured, and makes each commit
durable before its answer: `fsync`, `appendfsync always`. Their own load generators run on the
processor that wrk uses too.
"""

import os
import pwd
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.rounds import Measure
from bench.wrk import Run

_START_S_MAX = 30.0
_USER = "postgres"
_LEASE = "now() + interval '30 s'"
_FREE = "SELECT id FROM jobs WHERE lease < now() ORDER BY id LIMIT {count} FOR UPDATE SKIP LOCKED"
_SCRIPTS = {
    "by lease": (
        f"UPDATE jobs SET lease = {_LEASE}, attempts = attempts + 1"
        f" WHERE id = ({_FREE.format(count=1)}) RETURNING id \\gset\n"
        "DELETE FROM jobs WHERE id = :id;"
    ),
    "by one DELETE": f"DELETE FROM jobs WHERE id = ({_FREE.format(count=1)}) RETURNING payload;",
    "by lease, a hundred": (
        f"WITH leased AS (UPDATE jobs SET lease = {_LEASE}, attempts = attempts + 1"
        f" WHERE id = ANY (ARRAY({_FREE.format(count=100)})) RETURNING id, payload)"
        " SELECT array_agg(id) AS ids, sum(length(payload)) AS size FROM leased \\gset\n"
        "DELETE FROM jobs WHERE id = ANY (:ids::bigint[]);"
    ),
    "DELETE and INSERT": (
        f"WITH job AS (DELETE FROM jobs WHERE id = ({_FREE.format(count=1)}) RETURNING payload)"
        " INSERT INTO bills (payload) SELECT payload FROM job;"
    ),
}
_TABLES = """
DROP TABLE IF EXISTS jobs, bills;
CREATE TABLE jobs (id bigserial PRIMARY KEY, payload text, attempts int NOT NULL DEFAULT 0,
                   lease timestamptz NOT NULL DEFAULT '-infinity');
CREATE TABLE bills (id bigserial PRIMARY KEY, payload text);
INSERT INTO jobs (payload) SELECT repeat('x', {size}) FROM generate_series(1, {count});
VACUUM ANALYZE jobs;
"""
_TAKE_AND_ACK = (
    "local taken = redis.call('XREADGROUP', 'GROUP', 'g', 'w', 'COUNT', ARGV[1], 'STREAMS',"
    " KEYS[1], '>') if not taken then return redis.error_reply('empty') end"
    " local ids = {} for _, each in ipairs(taken[1][2]) do ids[#ids + 1] = each[1] end"
    " return redis.call('XACK', KEYS[1], 'g', unpack(ids))"
)
_FILL = "for _ = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'p', ARGV[2]) end return 1"


Postgresql = Callable[[str, int, int, float], Measure]
"""Returns a measure for a script's name, messages in the table, clients, and seconds."""
Redis = Callable[[int, int, int, int], Measure]
"""Returns a measure for messages in the stream, messages per request, requests, and clients."""


def _on_the_last_processor() -> list[str]:
    return ["taskset", "--cpu-list", str(max(os.sched_getaffinity(0)))]


@contextmanager
def postgresql(folder: Path, payload_bytes: int) -> Iterator[Postgresql]:
    """Run PostgreSQL, and yield the function that returns its measures.

    Raises `FileNotFoundError` if PostgreSQL is not installed.
    """
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parts[-2])
    if not programs:
        raise FileNotFoundError("PostgreSQL is missing: apt-get install postgresql")
    folder.mkdir()
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to be run by root
        user = pwd.getpwnam(_USER)
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    run = partial(subprocess.run, check=True, capture_output=True, text=True, cwd=folder)
    data = folder / "data"
    run([programs[-1] / "initdb", "-D", data, "-U", _USER, "-A", "trust", "-N"], **as_user)
    options = ("-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [programs[-1] / "postgres", "-D", data, *options], stdout=log, stderr=log, **as_user
        )
    environment = {**os.environ, "PGHOST": str(folder), "PGUSER": _USER, "PGDATABASE": "postgres"}

    def load(name: str, messages: int, clients: int, seconds: float) -> Run:
        tables = _TABLES.format(size=payload_bytes, count=messages)
        run(["psql", "-q", "-v", "ON_ERROR_STOP=1"], input=tables, env=environment)
        script = folder / "script.sql"
        script.write_text(_SCRIPTS[name])
        options = ["-n", "-M", "prepared", "-c", str(clients), "-T", f"{seconds:.0f}", "-f", script]
        done = run([*_on_the_last_processor(), "pgbench", *options], env=environment)
        tps = float(re.findall(r"tps = ([\d.]+) \(without", done.stdout)[0])
        mean_ms = float(re.findall(r"latency average = ([\d.]+) ms", done.stdout)[0])
        return Run(seconds, tps, mean_ms, mean_ms)

    def measure(name: str, messages: int, clients: int, seconds: float) -> Measure:
        return lambda: load(name, messages, clients, seconds)

    try:
        _wait(lambda: run(["psql", "-c", "SELECT 1"], env=environment))
        yield measure
    finally:
        process.terminate()
        process.wait()


@contextmanager
def redis(folder: Path, payload_bytes: int) -> Iterator[Redis]:
    """Run Redis, and yield the function that returns its measures.

    Raises `FileNotFoundError` if Redis is not installed.
    """
    if shutil.which("redis-server") is None:
        raise FileNotFoundError("Redis is missing: apt-get install redis-server")
    folder.mkdir()
    path = folder / "socket"
    durable = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
    process = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder, *durable],
        stdout=subprocess.DEVNULL,
    )
    run = partial(subprocess.run, check=True, capture_output=True, text=True)
    ask = partial(run, timeout=120)

    def cli(*words: str) -> None:
        said = ask(["redis-cli", "-s", path, *words]).stdout
        if said.startswith("ERR"):
            raise RuntimeError(said)

    def load(messages: int, a_request: int, requests: int, clients: int) -> Run:
        cli("DEL", "jobs")
        for _ in range(-(-messages // 10_000)):
            cli("EVAL", _FILL, "1", "jobs", "10000", "x" * payload_bytes)
        cli("XGROUP", "CREATE", "jobs", "g", "0")
        options = ["-s", path, "-c", str(clients), "-n", str(requests), "--csv"]
        script = ["EVAL", _TAKE_AND_ACK, "1", "jobs", str(a_request)]
        started = time.perf_counter()
        done = run([*_on_the_last_processor(), "redis-benchmark", *options, *script])
        seconds = time.perf_counter() - started
        cells = done.stdout.splitlines()[-1].split(",")[-7:]
        per_s, _, _, p50, _, p99, _ = (float(cell.strip('"')) for cell in cells)
        return Run(seconds, per_s, p50, p99)

    def measure(messages: int, a_request: int, requests: int, clients: int) -> Measure:
        return lambda: load(messages, a_request, requests, clients)

    try:
        _wait(lambda: cli("PING"))
        yield measure
    finally:
        process.terminate()
        process.wait()


def _wait(answers: Callable[[], object]) -> None:
    deadline = time.monotonic() + _START_S_MAX
    while True:
        try:
            answers()
        except subprocess.CalledProcessError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
