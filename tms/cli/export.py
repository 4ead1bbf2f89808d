"""`tms export`: the messages of a topic in a file, which `tms import` reads."""

import itertools
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

import typer

from tms.cli.columns import counted
from tms.cli.exported import FileForm, FormOption, form_of, write_avro
from tms.cli.lines import json_of
from tms.cli.poll import DECODING, parse_start
from tms.cli.progress import counting
from tms.cli.target import Target, TopicArgument, with_target
from tms.client.reading.start import id_or_ms
from tms.core.services.records import Record
from tms.core.values.message import Message, first_id_at
from tms.core.values.store_access import StoreAccess

EXAMPLES = """\b
Examples:
  tms export orders orders.ndjson
  tms export orders orders.avro --committed
  tms export orders --from 2027-01-01 --to 2027-02-01 | gzip > january.ndjson.gz
  tms export orders --decode                     values by their schemas, for other programs"""

_STDOUT = Path("-")

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A new file; - is standard output.")
]
From = Annotated[
    str, typer.Option("--from", metavar="TIME|ID|start", help="The first message, as in tms poll.")
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME|ID", help="Stop before this time, or this message."),
]
Committed = Annotated[
    bool,
    typer.Option("--committed", help="Only committed messages, without those rolled back."),
]
Decode = Annotated[
    bool,
    typer.Option("--decode", help="Values decoded by their schemas; `tms import` refuses them."),
]


@with_target
def export(
    target: Target,
    topic: TopicArgument,
    file: FileArgument = _STDOUT,
    *,
    start: From = "start",
    to: To = None,
    committed: Committed = False,
    decode: Decode = False,
    form: FormOption = None,
) -> None:
    """Write a topic's messages to a file: keys, headers, times, ids and payloads.

    A file gets its name when it is complete.
    """
    form = form_of(file, form)
    if decode and form is FileForm.AVRO:
        raise typer.BadParameter("--decode is for ndjson")
    where: dict[str, Any] = {"start": parse_start(start), "committed": committed}
    end = None if to is None else _position(to)
    with target.connect(StoreAccess.READ) as client, counting("exporting") as counts:
        found = client.topic(topic).poll(**where, decode=DECODING if decode else False)
        counter = itertools.count()
        messages = _counted(_until(found, end), counter, counts)
        if file == _STDOUT:
            _print(messages, form)
            return
        with _new_file(file) as out:
            if form is FileForm.AVRO:
                write_avro(out, cast("Iterator[Message]", messages))
            else:
                out.writelines(json_of(each).encode() + b"\n" for each in messages)
            out.flush()
            os.fsync(out.fileno())
        _part_of(file).rename(file)
    count = next(counter)
    target.answer(f"Exported {counted(count, 'message')}.", {"messages": count})


def _print(messages: Iterator[Message | Record], form: FileForm) -> None:
    if form is FileForm.AVRO:
        write_avro(sys.stdout.buffer, cast("Iterator[Message]", messages))
        sys.stdout.buffer.flush()
        return
    for each in messages:
        print(json_of(each))


def _position(to: str) -> bytes:
    parsed = parse_start(to, "--to")
    if parsed is None:
        raise typer.BadParameter("give a time or an id", param_hint="--to")
    place = id_or_ms(parsed)
    return first_id_at(place) if isinstance(place, int) else place


def _until(found: Iterable[Message | Record], end: bytes | None) -> Iterator[Message | Record]:
    return itertools.takewhile(lambda each: end is None or each.id < end, found)


def _counted(
    found: Iterable[Message | Record], counter: "itertools.count[int]", counts: Any
) -> Iterator[Message | Record]:
    for each in found:
        next(counter)
        counts(1)
        yield each


def _part_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.part")


def _new_file(file: Path) -> BinaryIO:
    if file.exists():
        raise typer.BadParameter(f"{file} exists already", param_hint="FILE")
    try:
        return _part_of(file).open("wb")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="FILE") from None
