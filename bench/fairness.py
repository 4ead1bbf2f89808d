"""How long others wait next to clients whose requests cause much work.

One client publishes one message at a time, with pauses of five milliseconds. Four others send
requests that are small on the wire and large when decoded, one after the other.
"""

import asyncio
import gzip
import json
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench.rounds import Effort
from bench.servers import tms_server
from bench.table import Table
from bench.topics import Topic, create
from tms.wire.avro_bodies import AVRO
from tms.wire.bodies import PublishRequest

_HEAVY_CLIENTS = 4
_MESSAGES = 99_000
_KEYS = 1_000_000
_PAUSE_S = 0.005
_TIMEOUT_S = 60.0
_COLUMNS = ("beside", "p50 ms", "p99 ms", "longest ms", "their requests/s")
_AVRO = {"content-type": AVRO.content_type}


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that is sent again and again."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]
    status: int = 200


def _asks(heavy: Topic) -> dict[str, Ask]:
    many = AVRO.encode_publish(PublishRequest(None, [b"x"] * _MESSAGES))
    keys = json.dumps(dict.fromkeys(map(str, range(_KEYS)), "")).encode()
    return {
        f"{_MESSAGES:,} messages in a gzip body": Ask(
            "POST",
            f"{heavy.path}/publish",
            gzip.compress(many),
            _AVRO | {"content-encoding": "gzip"},
        ),
        f"{_KEYS:,} properties of a topic": Ask(
            "PUT", f"{heavy.path}/properties", keys, {"content-type": "application/json"}, 413
        ),
    }


async def _repeat(url: str, ask: Ask, ends: float, pause_s: float = 0.0) -> list[float]:
    """Return the seconds of each answer."""
    seconds: list[float] = []
    async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S, trust_env=False) as http:
        while time.monotonic() < ends:
            started = time.perf_counter()
            answer = await http.request(ask.method, ask.path, content=ask.body, headers=ask.headers)
            seconds.append(time.perf_counter() - started)
            if answer.status_code != ask.status:
                raise RuntimeError(f"{ask.path} was answered {answer.status_code}: {answer.text}")
            await asyncio.sleep(pause_s)
    return seconds


async def _measure(table: Table, name: str, light: Topic, ask: Ask | None, seconds: float) -> None:
    one = AVRO.encode_publish(PublishRequest(None, [b"y" * 100]))
    small = Ask("POST", f"{light.path}/publish", one, _AVRO)
    ends = time.monotonic() + seconds
    heavy = [_repeat(light.url, ask, ends) for _ in range(_HEAVY_CLIENTS)] if ask else []
    waits, *others = await asyncio.gather(_repeat(light.url, small, ends, _PAUSE_S), *heavy)
    waits.sort()
    figures = (waits[len(waits) // 2], waits[len(waits) * 99 // 100], waits[-1])
    theirs = sum(map(len, others)) / seconds
    table.row(
        name, *(f"{figure * 1000:.0f}" for figure in figures), f"{theirs:.1f}" if ask else "-"
    )


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure how long others wait, and print it."""
    table = Table("One client publishes; four others ask for a lot", _COLUMNS)
    seconds = effort.seconds * effort.rounds
    with tms_server(folder / "data") as server:
        light, heavy = create(server.url, f"{run_name}-light", f"{run_name}-heavy")
        asks: dict[str, Ask | None] = {"nobody": None, **_asks(heavy)}
        for name, ask in asks.items():
            asyncio.run(_measure(table, name, light, ask, seconds))
