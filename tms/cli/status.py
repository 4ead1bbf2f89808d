"""`tms status` and `tms ui`: a server's status, here or in its console."""

import webbrowser
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from tms.cli.columns import aligned
from tms.cli.failure import ExitCode
from tms.cli.target import Target, with_target
from tms.core.services.status import ServerStatus
from tms.core.text.durations import span
from tms.core.text.printable import printable
from tms.core.values.lags import ReaderLag
from tms.wire.json_status import decode_status

_PATH = "v1/status"
_PAGE = 1_000
_HEADS = ("READER", "TOPIC", "KIND", "BEHIND", "OLDEST", "OPEN")
_MIB = 1024 * 1024
_MS_PER_S = 1000

Check = Annotated[bool, typer.Option("--check", help="Exit with 1 if there are findings.")]
Open = Annotated[bool, typer.Option("--open", help="Also open it in a browser.")]


@with_target
def status(target: Target, *, check: Check = False) -> None:
    """Show a server's findings, its rates, and the lag of each reader."""
    first = decode_status(target.ask("GET", f"{_PATH}?limit={_PAGE}"))
    readers, next_reader = [*first.readers], first.next_reader
    while next_reader is not None:
        more = decode_status(target.ask("GET", f"{_PATH}?limit={_PAGE}&readers_from={next_reader}"))
        readers += more.readers
        next_reader = more.next_reader
    facts = msgspec.to_builtins(first) | {"readers": readers, "next_reader": None}
    target.answer("\n".join(_lines(first, readers)), facts)
    if check and first.findings:
        raise typer.Exit(ExitCode.FAILED)


@with_target
def ui(target: Target, *, opens: Open = False) -> None:
    """Print the URL of the server's console, if it has one."""
    target.ask("GET", "console/assets/console.css")  # needs no right
    url = f"{target.url.split(',')[0].rstrip('/')}/console"
    target.answer(url, {"url": url})
    if opens:
        webbrowser.open(url)


def _lines(status: ServerStatus, readers: list[ReaderLag]) -> Iterator[str]:
    if not status.findings:
        yield "No findings."
    for finding in status.findings:
        urgent = "URGENT " if finding.is_urgent else ""
        yield printable(f"{urgent}{finding.where}: {finding.text} {finding.advice}")
    if status.messages_in_s is not None and status.messages_out_s is not None:
        bytes_in, bytes_out = status.bytes_in_s or 0, status.bytes_out_s or 0
        yield (
            f"In: {status.messages_in_s:.1f} messages/s, {bytes_in / _MIB:.3f} MiB/s. "
            f"Out: {status.messages_out_s:.1f} messages/s, {bytes_out / _MIB:.3f} MiB/s."
        )
    if status.oldest_transaction is not None:
        who = f" of client {printable(status.oldest_client)}" if status.oldest_client else ""
        are = "transaction is" if status.in_progress == 1 else "transactions are"
        yield (
            f"{status.in_progress:,} {are} in progress. The oldest is "
            f"{status.oldest_transaction}{who}, {span(status.oldest_age_ms or 0)} old."
        )
    if status.store_bytes is not None and status.free_bytes is not None:
        full = status.full_in_s
        soon = "" if full is None else f", and full in {span(int(full * _MS_PER_S))}"
        yield (
            f"The store uses {status.store_bytes // _MIB:,} MiB; "
            f"{status.free_bytes // _MIB:,} MiB are free{soon}."
        )
    if readers:
        yield aligned(_HEADS, [_row(each) for each in readers])


def _row(each: ReaderLag) -> tuple[str, ...]:
    return (
        each.name,
        f"{each.namespace}:{each.topic}",
        "group" if each.kind == "shared" else "subscription",
        f"{each.messages:,}{'+' if each.is_at_least else ''}",
        span(int(each.seconds * _MS_PER_S)) if each.messages else "-",
        f"{each.open:,}" if each.kind == "shared" else "-",
    )
