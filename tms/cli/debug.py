"""`tms debug`: reads the tables of a server, or of a store without one. Changes nothing."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from tms.cli.columns import aligned, counted, named
from tms.cli.inspected import Wanted, inspected, parts, shards_of
from tms.cli.poll import parse_time_ms
from tms.cli.progress import counting
from tms.cli.target import ShardOption, Target, TopicArgument, with_target
from tms.core.errors import Unavailable
from tms.core.values.cleanup import InvalidState, PruneBound
from tms.core.values.inspection import (
    CHECKED,
    ROWS_MAX,
    TABLES,
    Bounds,
    Facts,
    PartwiseInspection,
    Problems,
)
from tms.core.values.message import parse_id
from tms.core.values.topic import topic_id_of
from tms.wire.json_states import bounds_record

app = typer.Typer(
    help="Inspect the tables of a server, or of a store that no server has open.",
    no_args_is_help=True,
)

EXAMPLES = """\b
Examples:
  tms debug tables
  tms debug rows --topic orders --from 2024-05-01 --limit 20
  tms debug verify --store leveldb:./tms-data"""

Opening = AbstractAsyncContextManager[PartwiseInspection]

_NO_PAYLOADS = "no messages were stored for them, or the store has lost some"

StoreOption = Annotated[
    str | None,
    typer.Option(
        metavar="STORE",
        help="A store: leveldb:DIR that no server has open, or hbase://HOST:PORT/PREFIX. LevelDB "
        "recovers its log there, and no row changes. By default, the server at --url.",
    ),
]
TableOption = Annotated[str, typer.Option(metavar="TABLE", help=f"One of {', '.join(TABLES)}.")]
TopicOption = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", help="Only the rows of this topic.")
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Only messages of --topic from this time on: ISO 8601, or milliseconds since 1970.",
    ),
]
LimitOption = Annotated[int, typer.Option(min=1, metavar="COUNT", help="The most rows.")]
Cleaned = Annotated[
    bool,
    typer.Option(
        "--cleaned",
        help="Also check that no row of a deleted topic is left; use it after a cleanup pass.",
    ),
]


@app.command(epilog=EXAMPLES)
@with_target
def tables(target: Target, *, store: StoreOption = None, shard: ShardOption = None) -> None:
    """List the tables with their rows and sizes. This reads all rows."""
    sizes = asyncio.run(_sizes(inspected(target, store, shard)))
    heads = ("TABLE", "ROWS", "BYTES", "ON DISK")
    rows = [
        (row["table"], str(row["rows"]), str(row["bytes"]), str(row["disk_bytes"])) for row in sizes
    ]
    target.answer(aligned(heads, rows), sizes)


async def _sizes(opening: Opening) -> list[Facts]:
    sizes: list[Facts] = []
    async with opening as inspection:
        with counting("reading") as count:
            for table in TABLES:
                rows = size = on_disk = 0
                async for part in parts(partial(inspection.size, table, limit=ROWS_MAX)):
                    rows, size, on_disk = rows + part.rows, size + part.bytes, part.disk_bytes
                    count(part.rows)
                facts = {"table": table, "rows": rows, "bytes": size, "disk_bytes": on_disk}
                sizes.append(facts)
    return sizes


@app.command()
@with_target
def rows(
    target: Target,
    *,
    store: StoreOption = None,
    table: TableOption = "message",
    topic: TopicOption = None,
    start: FromOption = None,
    limit: LimitOption = 100,
    shard: ShardOption = None,
) -> None:
    """Print decoded rows, one line of JSON for each."""
    topic_id = None if topic is None else topic_id_of(topic, target.namespace)
    from_ms = None if start is None else parse_time_ms(start, "--from")
    selection = Wanted(_table(table), topic_id, from_ms, limit)
    asyncio.run(_print_rows(inspected(target, store, shard), [selection]))


def _table(name: str) -> str:
    if name not in TABLES:
        raise typer.BadParameter(f"give one of {', '.join(TABLES)}", param_hint="--table")
    return name


async def _print_rows(opening: Opening, selections: Iterable[Wanted]) -> None:
    async with opening as inspection:
        for selection in selections:
            async for facts in selection.rows(inspection):
                print(json.dumps(facts))
    sys.stdout.flush()


@app.command()
@with_target
def explain(
    target: Target,
    topic: TopicArgument,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="40 hexadecimal digits.")],
    *,
    store: StoreOption = None,
) -> None:
    """Explain a message id: its parts, its stored rows, and which readers get the message."""
    topic_id, target_message = topic_id_of(topic, target.namespace), parse_id(message_id)

    async def ask() -> Facts:
        async with inspected(target, store) as inspection:
            return await inspection.explain(topic_id, target_message)

    facts = asyncio.run(ask())
    shown = {key: value for key, value in facts.items() if key != "said"}
    target.answer("\n".join([named(shown), *facts["said"]]), facts)


@app.command()
@with_target
def bounds(target: Target, *, store: StoreOption = None, shard: ShardOption = None) -> None:
    """Print how far cleanup has removed invalid transactions, and why the others stay listed."""

    async def ask() -> Bounds:
        async with inspected(target, store, shard) as inspection:
            return await inspection.bounds()

    bounds_found = asyncio.run(ask())
    target.answer(
        bounds_text(bounds_found.bounds, bounds_found.invalid), bounds_record(bounds_found)
    )


def bounds_text(prune_bounds: Iterable[PruneBound], invalid: InvalidState | None) -> str:
    """Describe how far invalid transactions are cleaned up, and why others stay listed."""
    lines = [
        f"{bound.table} [{bound.start or 'first'}, {bound.stop or 'last'}): inverted up to "
        f"{bound.write_pointer}, so transactions from {_moment(bound.transaction_ms)} on may "
        f"matter; recorded {_moment(bound.recorded_ms)}"
        for bound in prune_bounds
    ] or ["No bound has been recorded."]
    if invalid is None:
        return "\n".join([*lines, "No transactions are managed here."])
    lines.append(f"On the invalid list: {counted(invalid.count, 'write pointer')}.")
    if invalid.not_inverted:
        lines.append(f"{invalid.not_inverted} of them are above the bound, not yet cleaned up.")
    if invalid.held_by is not None:
        lines.append(f"Transaction {invalid.held_by} is in progress, so the bound cannot move.")
    if invalid.waits_until_ms is not None:
        lines.append(
            f"The oldest, {invalid.oldest}, stays until {_moment(invalid.waits_until_ms)}."
        )
    return "\n".join(lines)


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(timespec="seconds")


@app.command()
@with_target
def verify(
    target: Target,
    *,
    store: StoreOption = None,
    cleaned: Cleaned = False,
    shard: ShardOption = None,
) -> None:
    """Check that all tables of all shards are consistent; exit with 1 if they are not.

    If a shard is unavailable, the others are still checked.
    """
    checked, failure = asyncio.run(_checked(target, store, shard, is_cleaned=cleaned))
    problems = list(checked.problems)
    lines = problems or ([] if failure else ["All tables are consistent."])
    if checked.sealed:
        rows = counted(checked.sealed, "row")
        lines = [*lines, f"Hidden, because an earlier leader sent it too late: {rows}."]
    if checked.without_payloads:
        references = counted(checked.without_payloads, "reference")
        lines = [*lines, f"Without payloads: {references}; {_NO_PAYLOADS}."]
    if failure:
        lines = [*lines, f"Not all could be checked; run it again: {failure}"]
    counts = {"sealed": checked.sealed, "without_payloads": checked.without_payloads}
    target.answer("\n".join(lines), {"problems": problems, **counts, "failure": failure})
    if problems or failure:
        raise typer.Exit(1)


async def _checked(
    target: Target, store: str | None, shard: int | None, *, is_cleaned: bool
) -> tuple[Problems, str | None]:
    """Return the problems of all shards, and why a shard was not checked."""
    shards = [shard] if shard is not None else await shards_of(target, store)
    problems: list[Problems] = []
    failure: str | None = None
    with counting("checking") as count:
        for each in shards:
            place = "" if len(shards) == 1 else f"shard {each}: "
            try:
                async with inspected(target, store, each) as inspection:
                    async for part in _parts_of(inspection, is_cleaned=is_cleaned):
                        count(part.rows)
                        named = [f"{place}{problem}" for problem in part.problems]
                        problems.append(replace(part, problems=named))
            except Unavailable as error:
                if len(shards) == 1:
                    raise
                failure = failure or f"{place}{error}"
    together = Problems(
        problems=[problem for part in problems for problem in part.problems],
        rows=sum(part.rows for part in problems),
        sealed=sum(part.sealed for part in problems),
        without_payloads=sum(part.without_payloads for part in problems),
    )
    return together, failure


async def _parts_of(inspection: PartwiseInspection, *, is_cleaned: bool) -> AsyncIterator[Problems]:
    for checked in CHECKED:
        check = partial(inspection.problems, checked, limit=ROWS_MAX, is_cleaned=is_cleaned)
        async for part in parts(check):
            yield part


@app.command()
@with_target
def export(
    target: Target,
    *,
    store: StoreOption = None,
    table: Annotated[
        str | None, typer.Option(metavar="TABLE", help="Only this table; by default all.")
    ] = None,
    shard: ShardOption = None,
) -> None:
    """Print all rows decoded, one line of JSON for each."""
    names = TABLES if table is None else (_table(table),)
    asyncio.run(_print_rows(inspected(target, store, shard), [Wanted(name) for name in names]))
