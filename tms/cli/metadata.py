"""`tms metadata`: reads and changes a metadata store, by path and version."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from tms.cli.configured import answering
from tms.cli.target import JsonOption, Target
from tms.core.errors import MetadataUnavailable, PathNotFound
from tms.core.text.metadata_url import SERVERS_WRITTEN
from tms.core.values.store_access import StoreAccess
from tms.metadata.interface import (
    NEW,
    VALUE_BYTES_MAX,
    MetadataStore,
    Notification,
    SessionEvent,
    Stat,
    Value,
)
from tms.wire.json_values import json_of

app = typer.Typer(help="Read and change the values of a metadata store.", no_args_is_help=True)

T = TypeVar("T")

StoreOption = Annotated[
    str,
    typer.Option(
        envvar="TMS_METADATA",
        metavar="URL",
        help=f"leveldb:DIR of a server that is stopped, {SERVERS_WRITTEN}, or memory://NAME. If a "
        "command only reads, LevelDB recovers its log, and no row changes; `put` creates a store "
        "in DIR.",
        show_default=False,
    ),
]
PathArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="A path such as /namespaces/shop.")
]
TopArgument = Annotated[
    str, typer.Argument(metavar="PATH", help="The path whose children to list.")
]
VersionOption = Annotated[
    int | None,
    typer.Option("--version", min=0, metavar="N", help="Only if it has this version now."),
]
_HEADS = ("NAME", "VERSION", "BYTES", "MODIFIED")


def _run(
    store: str, use: Callable[[MetadataStore], Awaitable[T]], access: StoreAccess = StoreAccess.READ
) -> T:
    """Call `use` with the store at a URL, opened as `access` says; return its result.

    Raises `TmsError`, and a usage error.
    """
    from tms.server.stores import open_metadata  # noqa: PLC0415  needs the server's extra

    async def run() -> T:
        try:
            opened = await open_metadata(store, access=access)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--store") from None
        try:
            return await use(opened)
        finally:
            await opened.close()

    return asyncio.run(run())


def _time(ms: int) -> str:
    if not ms:
        return "-"  # some stores record no times
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def _facts(stat: Stat) -> dict[str, Any]:
    return {
        "path": stat.path,
        "version": stat.version,
        "created_ms": stat.created_ms,
        "modified_ms": stat.modified_ms,
        "is_ephemeral": stat.is_ephemeral,
    }


def _headline(stat: Stat) -> str:
    ephemeral = ", ephemeral" if stat.is_ephemeral else ""
    return f"{stat.path}: version {stat.version}, modified {_time(stat.modified_ms)}{ephemeral}"


@app.command("ls")
def list_children(
    context: typer.Context,
    store: StoreOption,
    path: TopArgument = "/",
    *,
    as_json: JsonOption = False,
) -> None:
    """List the names below a path, with their versions if they have a value."""

    async def read(opened: MetadataStore) -> list[tuple[str, Value | None]]:
        top = path.rstrip("/")
        names = await opened.get_children(path)
        return [(name, await opened.get(f"{top}/{name}")) for name in names]

    children = _run(store, read)
    rows = [
        (name, "-", "-", "-")
        if value is None
        else (
            name,
            str(value.stat.version),
            str(len(value.value)),
            _time(value.stat.modified_ms),
        )
        for name, value in children
    ]
    facts = [
        {"name": name, "version": None if value is None else value.stat.version}
        for name, value in children
    ]
    answering(context, as_json=as_json).answer_list(_HEADS, rows, facts)


@app.command()
def get(
    context: typer.Context, store: StoreOption, path: PathArgument, *, as_json: JsonOption = False
) -> None:
    """Show the value at a path, and its version."""

    async def read(opened: MetadataStore) -> Value:
        value = await opened.get(path)
        if value is None:
            raise PathNotFound(path=path)
        return value

    value, stat = _run(store, read)
    shown = json_of(value)
    text = shown if isinstance(shown, str) else f"base64 {shown['base64']}"
    facts = {**_facts(stat), "value": shown}
    answering(context, as_json=as_json).answer(f"{_headline(stat)}\n{text}", facts)


@app.command(
    epilog="\b\nExamples:\n"
    "  tms metadata put /a '{\"x\": 1}' --store zk://host:2181/tms --new\n"
    "  tms metadata put /a --file value.json --store zk://host:2181/tms --version 0"
)
def put(
    context: typer.Context,
    store: StoreOption,
    path: PathArgument,
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="The value, as text.", show_default=False)
    ] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the value; - is standard input."),
    ] = None,
    version: VersionOption = None,
    new: Annotated[bool, typer.Option("--new", help="Only if there is no value yet.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Put a value at a path, whether one exists or not, and show its version."""
    if (value is None) == (file is None):
        raise typer.BadParameter("give either VALUE or --file")
    if new and version is not None:
        raise typer.BadParameter("--new and --version contradict each other")
    data = value.encode() if value is not None else _read(file or Path("-"))
    expected = NEW if new else version
    stat = _run(store, lambda opened: opened.put(path, data, expected), StoreAccess.CREATE)
    answering(context, as_json=as_json).answer(_headline(stat), _facts(stat))


def _read(file: Path) -> bytes:
    # One byte more than the limit, so that the store refuses it.
    if str(file) == "-":
        return sys.stdin.buffer.read(VALUE_BYTES_MAX + 1)
    try:
        with file.open("rb") as opened:
            return opened.read(VALUE_BYTES_MAX + 1)
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="--file") from None


@app.command("rm")
def remove(
    context: typer.Context,
    store: StoreOption,
    path: PathArgument,
    *,
    version: VersionOption = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Delete all paths below it too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete the value at a path."""
    if recursive and version is not None:
        raise typer.BadParameter("--recursive and --version contradict each other")

    def delete(opened: MetadataStore) -> Awaitable[None]:
        return opened.delete_recursive(path) if recursive else opened.delete(path, version)

    _run(store, delete, StoreAccess.WRITE)
    answering(context, as_json=as_json).answer(f"Deleted {path}.", {"deleted": path})


@app.command()
def watch(
    context: typer.Context,
    store: StoreOption,
    path: TopArgument = "/",
    *,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="COUNT", help="End after this number of changes.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print each change of a path and of the paths below it, until Ctrl-C.

    Changes made while the connection is lost are not printed, but the loss is.
    """
    target = answering(context, as_json=as_json)

    _run(store, lambda opened: follow(target, opened, path, limit))


async def follow(target: Target, opened: MetadataStore, path: str, limit: int | None) -> None:
    """Print up to `limit` changes of a path and of the paths below it."""
    happened: asyncio.Queue[Notification | SessionEvent] = asyncio.Queue()
    opened.observe(happened.put_nowait, path)
    opened.observe_session(happened.put_nowait)
    remaining = limit
    while remaining is None or remaining > 0:
        what = await happened.get()
        if isinstance(what, SessionEvent):
            target.answer(f"- {what.value}", {"session": what.value})
        else:
            await _print_change(target, opened, what)
            remaining = remaining if remaining is None else remaining - 1
        sys.stdout.flush()


async def _print_change(target: Target, opened: MetadataStore, notification: Notification) -> None:
    change, path = notification
    version, shown = None, "-"
    try:
        # The current values; later changes are printed next.
        value = await opened.get(path)
    except MetadataUnavailable:
        shown = "?"
    else:
        if value is not None:
            version, shown = value.stat.version, str(value.stat.version)
    facts = {"change": change.value, "path": path, "version": version}
    target.answer(f"{change.value:<16}  {shown:>7}  {path}", facts)
