"""The cost of authentication: publishing and polling with and without tokens, in turn.

The metadata store has 1,000 rules, one of which is the caller's. With many tokens, each request has
a random one, so that no two heads in a row are equal.
"""

import asyncio
from functools import partial
from pathlib import Path

import msgspec

from bench import publish, wrk
from bench.rounds import CpuMeter, Effort, Measure, Median, in_turn
from bench.servers import tms_server
from bench.table import Table, rate, times
from bench.topics import Topic, create, fill
from tms.security.resources import Action, Kind
from tms.security.rules import Effect, Rule
from tms.security.tokens import KeptToken, new_token
from tms.server.stores import open_metadata

_CONNECTIONS = 32
_RULES = 1_000
_TOKENS = 10_000
_POLLED = 100
_COLUMNS = ("32 connections", "requests/s", "spread", "p99 ms", "CPU us/req", "of without")
_OFF, _ONE, _MANY = "without", "one token", "10,000 tokens"


def run(effort: Effort, folder: Path, peer: str | None, run_name: str) -> None:  # noqa: ARG001
    """Measure publishing and polling, and print their figures."""
    table = Table("Who calls", _COLUMNS)
    files = asyncio.run(_granted(folder / "known"))
    with (
        tms_server(folder / "anybody") as anybody,
        tms_server(folder / "known", "--auth", "optional") as authenticated,
    ):
        for what in ("publish", "poll"):
            name = f"{run_name}-{what}"
            topics = [create(server.url, name)[0] for server in (anybody, authenticated)]
            if what == "poll":
                for topic in topics:
                    fill([topic], _POLLED)
            targets: dict[str, tuple[Topic, Path | str]] = {
                _OFF: (topics[0], ""),
                **{who: (topics[1], file) for who, file in files},
            }
            meters = {who: CpuMeter(anybody if who == _OFF else authenticated) for who in targets}
            loads: dict[str, Measure] = {
                who: meters[who].watch(partial(_load, what, topic, effort.seconds, file))
                for who, (topic, file) in targets.items()
            }
            _print(table, what, in_turn(loads, effort.rounds), meters)


def _load(what: str, topic: Topic, seconds: float, tokens: Path | str) -> wrk.Run:
    if what == "publish":
        return publish.load(topic, seconds, 1, _CONNECTIONS, tokens)
    return wrk.run(
        "poll_start.lua",
        topic.whole_url,
        connections=_CONNECTIONS,
        seconds=seconds,
        MESSAGES=_POLLED,
        POLL_PATH=f"{topic.path}/poll",
        TOKENS=tokens,
    )


async def _granted(folder: Path) -> list[tuple[str, Path]]:
    """Store rules and tokens in a data folder; return the files of the tokens."""
    may = frozenset([Action.PUBLISH, Action.CONSUME])
    everything = frozenset([*may, Action.MANAGE])
    rules = [
        Rule("caller", "caller", Effect.ALLOW, may, Kind.TOPIC, "default", "*"),
        Rule("filler", "anonymous", Effect.ALLOW, everything, Kind.TOPIC, "default", "*"),
        *(
            Rule(f"r{n}", f"other{n}", Effect.ALLOW, may, Kind.TOPIC, "default", f"t{n}*")
            for n in range(_RULES - 2)
        ),
    ]
    tokens = [new_token("caller") for _ in range(_TOKENS)]
    store = await open_metadata(f"leveldb:{folder}")
    try:
        kept: list[tuple[str, Rule | KeptToken]] = [
            *((f"/auth/rules/{rule.id}", rule) for rule in rules),
            *((f"/auth/tokens/{token.id}", token) for _, token in tokens),
        ]
        for path, value in kept:
            await store.put(path, msgspec.json.encode(value))
    finally:
        await store.close()
    one, many = (folder.parent / name for name in ("one.tokens", "many.tokens"))
    one.write_text(f"{tokens[0][0]}\n", encoding="ascii")
    many.write_text("".join(f"{token}\n" for token, _ in tokens), encoding="ascii")
    return [(_ONE, one), (_MANY, many)]


def _print(
    table: Table, what: str, medians: dict[str, Median], meters: dict[str, CpuMeter]
) -> None:
    for who, median in medians.items():
        table.row(
            f"{what}, {who}",
            rate(median.requests_per_s),
            f"{100 * median.spread:.0f}%",
            f"{median.p99_ms:.2f}",
            f"{meters[who].us_a_request:.0f}",
            times(median.requests_per_s, medians[_OFF].requests_per_s),
        )
