"""`tms debug`: looks into the tables of a store that no server has open. Changes nothing.

A store on local disk belongs to one process: while a server has it, this says which, and `tms
cleanup` asks the server instead.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from tms.cli.columns import aligned
from tms.cli.poll import parse_start
from tms.cli.target import Target, TopicArgument, with_target
from tms.core.cleanup import InvalidState, PruneBound
from tms.core.message import parse_id
from tms.core.topic import TopicId

app = typer.Typer(
    help="Look into the tables of a store that no server has open.", no_args_is_help=True
)

EXAMPLES = """\b
Examples:
  tms debug tables --store leveldb:./tms-data
  tms debug rows --topic orders --from 2024-05-01 --limit 20
  tms debug verify"""

_TABLES = ("message", "payload", "metadata", "subscription", "transaction", "bound")

StoreOption = Annotated[
    str,
    typer.Option(
        envvar="TMS_STORE",
        metavar="STORE",
        help="The store, leveldb:DIR.",
    ),
]
TableOption = Annotated[str, typer.Option(metavar="TABLE", help=f"One of {', '.join(_TABLES)}.")]
TopicOption = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", help="The rows of one topic alone.")
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Messages of --topic from then on: ISO 8601, or milliseconds since 1970.",
    ),
]
LimitOption = Annotated[int, typer.Option(min=1, metavar="COUNT", help="At most so many rows.")]
Cleaned = Annotated[
    bool,
    typer.Option(
        "--cleaned", help="A pass of cleanup has just ended: no row of a dead topic may be left."
    ),
]
_STORE = "leveldb:./tms-data"


@contextmanager
def _opened(store: str) -> Iterator[Any]:
    """Open a store to look into it. Raises `StoreLocked` with who has it."""
    from tms.node import inspect  # noqa: PLC0415  the whole server

    kind, _, place = store.partition(":")
    if kind != "leveldb" or not place:
        raise typer.BadParameter("leveldb:DIR is wanted", param_hint="--store")
    if not (Path(place) / "format.json").is_file():
        raise typer.BadParameter(f"there is no store in {place}", param_hint="--store")
    inspection = inspect(store)
    try:
        yield inspection
    finally:
        inspection.close()


@app.command(epilog=EXAMPLES)
@with_target
def tables(target: Target, *, store: StoreOption = _STORE) -> None:
    """List the tables with their rows and sizes; reads all of them."""
    with _opened(store) as inspection:
        found = inspection.tables()
    heads = ("TABLE", "ROWS", "BYTES", "ON DISK")
    rows = [
        (row["table"], str(row["rows"]), str(row["bytes"]), str(row["disk_bytes"])) for row in found
    ]
    target.answer(aligned(heads, rows), found)


@app.command()
@with_target
def rows(
    target: Target,
    *,
    store: StoreOption = _STORE,
    table: TableOption = "message",
    topic: TopicOption = None,
    start: FromOption = None,
    limit: LimitOption = 100,
) -> None:
    """Print rows decoded, a line of JSON each."""
    topic_id = None if topic is None else TopicId(target.namespace, topic)
    with _opened(store) as inspection:
        found = inspection.decoded(_table(table), topic_id, _time_ms(start))
        _print_lines(islice(found, limit))


def _table(name: str) -> str:
    if name not in _TABLES:
        raise typer.BadParameter(f"one of {', '.join(_TABLES)} is wanted", param_hint="--table")
    return name


def _time_ms(text: str | None) -> int | None:
    if text is None:
        return None
    match parse_start(text, "--from"):
        case int() as time_ms:
            return time_ms
        case datetime() as moment:
            return int(moment.timestamp() * 1000)
        case _:
            raise typer.BadParameter(f"{text!r} is no time", param_hint="--from")


def _print_lines(lines: Iterable[dict[str, Any]]) -> None:
    for facts in lines:
        print(json.dumps(facts))


@app.command()
@with_target
def explain(
    target: Target,
    topic: TopicArgument,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="40 hexadecimal digits.")],
    *,
    store: StoreOption = _STORE,
) -> None:
    """Tell what a message id says, what is stored, and which readers are given it."""
    with _opened(store) as inspection:
        facts = inspection.explain(TopicId(target.namespace, topic), parse_id(message_id))
    told = {key: value for key, value in facts.items() if key != "said"}
    width = max(map(len, told))
    lines = [f"{key:<{width}}  {value}" for key, value in told.items()]
    target.answer("\n".join([*lines, *facts["said"]]), facts)


@app.command()
@with_target
def bounds(target: Target, *, store: StoreOption = _STORE) -> None:
    """Print how far invalid transactions are cleaned up, and what holds their list."""
    with _opened(store) as inspection:
        found, invalid = inspection.bounds(), inspection.invalid()
    target.answer(bounds_text(found, invalid), {"bounds": found, "invalid": invalid})


def bounds_text(found: Iterable[PruneBound], invalid: InvalidState | None) -> str:
    """Return for people how far invalid transactions are cleaned up, and what holds their list."""
    lines = [
        f"{bound.table} [{bound.start or 'first'}, {bound.stop or 'last'}): inverted up to "
        f"{bound.write_pointer}, so transactions from {_moment(bound.transaction_ms)} on may "
        f"matter; recorded {_moment(bound.recorded_ms)}"
        for bound in found
    ] or ["No bound has been recorded."]
    if invalid is None:
        return "\n".join([*lines, "No transactions are managed here."])
    lines.append(f"{invalid.count} write pointers are on the invalid list.")
    if invalid.not_inverted:
        lines.append(f"{invalid.not_inverted} of them are above the bound, not yet cleaned up.")
    if invalid.held_by is not None:
        lines.append(f"Transaction {invalid.held_by} is in progress, and holds the bound.")
    if invalid.waits_until_ms is not None:
        lines.append(
            f"The oldest, {invalid.oldest}, stays until {_moment(invalid.waits_until_ms)}."
        )
    return "\n".join(lines)


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000).astimezone().isoformat(timespec="seconds")


@app.command()
@with_target
def verify(target: Target, *, store: StoreOption = _STORE, cleaned: Cleaned = False) -> None:
    """Check that all tables hold together; exit with 1 where they do not."""
    with _opened(store) as inspection:
        problems = list(inspection.problems(is_cleaned=cleaned))
    target.answer("\n".join(problems) or "All tables hold together.", {"problems": problems})
    if problems:
        raise typer.Exit(1)


@app.command()
@with_target
def export(
    target: Target,  # noqa: ARG001  it has the shared options
    *,
    store: StoreOption = _STORE,
    table: Annotated[
        str | None, typer.Option(metavar="TABLE", help="One table alone; all by default.")
    ] = None,
) -> None:
    """Print all rows decoded, a line of JSON each."""
    with _opened(store) as inspection:
        for name in _TABLES if table is None else (_table(table),):
            _print_lines(inspection.decoded(name, None, None))
    sys.stdout.flush()
