"""`tms import`: publishes the messages of an export, in their order and each only once.

Each batch is a transaction whose owner is the import, and whose sequence is the batch's number. So
a batch that was committed before is not published again, whatever was interrupted.
"""

import hashlib
import sys
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import Annotated, BinaryIO, cast

import typer

from tms.cli.columns import counted
from tms.cli.exported import FormOption, batches_of, form_of, read
from tms.cli.progress import counting
from tms.cli.target import Target, TopicArgument, with_target

EXAMPLES = """\b
Examples:
  tms import orders orders.ndjson
  tms import orders orders.avro
  gunzip < january.ndjson.gz | tms import orders - --owner january

If it is interrupted, run it again: it continues. The server remembers an import for a week, by the
file's bytes or by --owner; `tms tx owners forget` lets you import the same file once more."""

RETRY_FOR_S = 30.0
_STDIN = Path("-")

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="A file of `tms export`; - is standard input.")
]
Owner = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The name of this import; by default a digest of the file."),
]


@with_target
def import_(
    target: Target,
    topic: TopicArgument,
    file: FileArgument,
    *,
    owner: Owner = None,
    form: FormOption = None,
) -> None:
    """Publish the messages of a file in their order, each only once. They get new ids."""
    if owner is None and file == _STDIN:
        raise typer.BadParameter("standard input needs a name: give --owner")
    form, published, before = form_of(file, form), 0, 0
    with ExitStack() as stack:
        source = sys.stdin.buffer if file == _STDIN else stack.enter_context(_opened(file))
        owner = owner or f"import:{topic}:{_digest(source)}"
        client = stack.enter_context(target.connect(retry_for_s=RETRY_FOR_S))
        client.topic(topic).properties()  # to report a wrong name at once
        counts = stack.enter_context(counting("importing"))
        for number, batch in enumerate(batches_of(read(source, form))):
            done = client.publish_all({topic: batch}, owner=owner, sequence=number)
            if done.is_duplicate:
                before += len(batch)
            else:
                published += len(batch)
            counts(len(batch))
    text = f"Imported {counted(published, 'message')}"
    if before:
        text += f"; {before} were imported before"
    facts = {"published": published, "published_before": before, "owner": owner}
    target.answer(f"{text}.", facts)


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="FILE") from None


def _digest(source: BinaryIO) -> str:
    digest = hashlib.file_digest(cast("BufferedReader", source), "sha256").hexdigest()
    source.seek(0)
    return digest[:32]
