"""`tms publish`: messages from arguments, standard input or files.

Standard output only has the rollback ranges, for `tms rollback`, or the ids of scheduled messages,
for `tms topic scheduled cancel`; with --json the messages' ids too. The number of published
messages is printed to standard error. Each batch is durable, and its range printed, before the next
is sent.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, cast

import msgspec
import typer

from tms.cli.batches import (
    ByteSource,
    InputBatch,
    WrongInput,
    WrongMessage,
    of_line_files,
    of_lines,
    of_whole_files,
    size_of,
)
from tms.cli.columns import counted
from tms.cli.durations import duration
from tms.cli.frames import Frames, frames_of
from tms.cli.poll import parse_message_id, parse_time_ms
from tms.cli.progress import with_progress
from tms.cli.rollback import text_of
from tms.cli.standard_streams import StreamFailed
from tms.cli.target import Target, TopicArgument, with_target
from tms.cli.values import as_values, encoding_of
from tms.client import Topic
from tms.client.reading.given_messages import GivenMessage
from tms.client.reading.start import IfLast
from tms.core.errors import TmsError
from tms.core.services.messaging import EMPTY
from tms.core.services.records import Encoding
from tms.core.values.schedules import DeliveryTime

EXAMPLES = """\b
Examples:
  tms publish orders "one message" "another"
  tail -f shop.log | tms publish orders --stdin         or: tms publish orders -
  tms publish orders --lines monday.log tuesday.log
  tms publish pictures --file *.png
  tms publish prices "19.90" --key apples --header currency=EUR
  tms publish prices --tombstone --key apples           the key is gone
  tms publish orders --schema order.avsc '{"id": "7"}'  encoded by its schema
  tms publish reminders "call back" --after 2h          or: --at 2027-01-31T09:00
  tms publish orders "in a transaction" --tx $(tms tx start)"""

RETRY_FOR_S = 30.0
"""How long each batch of a long input waits for a busy or restarting server."""

Inputs = Annotated[
    list[bytes] | None,
    typer.Argument(
        metavar="MESSAGE|FILE",
        help="The messages; with --lines or --file, the files.",
        parser=os.fsencode,
    ),
]
FromStdin = Annotated[
    bool, typer.Option("--stdin", help="Publish each line of standard input; - means the same.")
]
Lines = Annotated[bool, typer.Option("--lines", help="Publish each line of the files.")]
Files = Annotated[bool, typer.Option("--file", help="Publish each file as one message.")]
WritePointer = Annotated[
    int | None,
    typer.Option(
        "--tx",
        min=1,
        metavar="WRITE_POINTER",
        help="Publish in this transaction, and print the ranges for `tms rollback`. "
        "Without messages, publish those that were stored with --buffer.",
    ),
]
After = Annotated[
    float | None,
    duration("--after", help_text="Publish the messages after this time.", least_s=0),
]
At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="Publish the messages at this time: ISO 8601, UTC unless it says otherwise, or "
        "milliseconds since 1970.",
    ),
]
Buffer = Annotated[
    bool, typer.Option("--buffer", help="Store for the transaction of --tx, to publish later.")
]


Key = Annotated[
    bytes | None,
    typer.Option("--key", metavar="KEY", help="The key of each message.", parser=os.fsencode),
]
HeadersOption = Annotated[
    list[bytes] | None,
    typer.Option(
        "--header",
        metavar="NAME=VALUE",
        help="A header of each message; repeatable.",
        parser=os.fsencode,
    ),
]
KeySeparator = Annotated[
    bytes | None,
    typer.Option(
        "--key-separator",
        metavar="TEXT",
        parser=os.fsencode,
        help="With --stdin or --lines: the text before this separator is the key of a line.",
    ),
]
Tombstone = Annotated[
    bool,
    typer.Option(
        "--tombstone", help="Publish a message without payload, which marks the --key as deleted."
    ),
]

SchemaOption = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="FILE|latest",
        help="Messages are JSON, and are encoded by this schema, which is registered, or by the "
        "latest schema of the topic's subject. For Avro, give its JSON encoding.",
    ),
]
KeySchemaOption = Annotated[
    str | None,
    typer.Option("--key-schema", metavar="FILE|latest", help="The same for keys."),
]
SchemaTypeOption = Annotated[
    str | None,
    typer.Option(
        "--schema-type",
        metavar="TYPE",
        help="AVRO, JSON or PROTOBUF; by default PROTOBUF for a file *.proto, JSON for *.json, "
        "else AVRO.",
    ),
]

IfLastOption = Annotated[
    str | None,
    typer.Option(
        "--if-last",
        metavar="ID|empty",
        help="Publish only if the topic has no entry after this message, or none at all. For "
        "messages given as arguments.",
    ),
]


class _Form(Enum):
    ARGUMENTS = "arguments"
    STDIN = "--stdin"
    LINES = "--lines"
    FILES = "--file"


@with_target
def publish(
    target: Target,
    topic: TopicArgument,
    *,
    inputs: Inputs = None,
    from_stdin: FromStdin = False,
    lines: Lines = False,
    whole_files: Files = False,
    key: Key = None,
    headers: HeadersOption = None,
    key_separator: KeySeparator = None,
    is_tombstone: Tombstone = False,
    schema: SchemaOption = None,
    key_schema: KeySchemaOption = None,
    schema_type: SchemaTypeOption = None,
    if_last: IfLastOption = None,
    write_pointer: WritePointer = None,
    buffer: Buffer = False,
    after_s: After = None,
    at: At = None,
) -> None:
    """Publish messages to a topic, in order."""
    texts = inputs or []
    if texts == [b"-"] and not whole_files:
        texts, from_stdin, lines = [], True, False
    form = _form_of(texts, from_stdin=from_stdin, lines=lines, whole_files=whole_files)
    frames = frames_of(key, headers or [], key_separator)
    encoding = encoding_of(schema, key_schema, schema_type)
    if key_separator is not None and form not in (_Form.STDIN, _Form.LINES):
        raise typer.BadParameter("--key-separator is for --stdin and --lines")
    if is_tombstone and (texts or form is not _Form.ARGUMENTS or key is None):
        raise typer.BadParameter("--tombstone is a message of its own: give --key and no message")
    if buffer and write_pointer is None:
        raise typer.BadParameter("--buffer is for the messages of a transaction: give --tx")
    if if_last is not None and (form is not _Form.ARGUMENTS or buffer):
        raise typer.BadParameter("--if-last is for messages that are published by one request")
    last = if_last if if_last in (None, EMPTY) else parse_message_id(if_last, "--if-last")
    delivery = _delivery_of(after_s, at)
    if delivery is not None and (if_last is not None or write_pointer is not None):
        raise typer.BadParameter("--after and --at cannot be used with --tx or --if-last")
    report_to = partial(
        _Report, target, write_pointer, frames, encoding, delivery=delivery, buffer=buffer
    )
    if form is _Form.ARGUMENTS:
        if not texts and not is_tombstone and (write_pointer is None or buffer):
            raise typer.BadParameter("give messages, or one of --stdin, --lines and --file")
        messages = [frames.tombstone()] if is_tombstone else frames.around(texts)
        with target.connect() as client:
            report_to(client.topic(topic)).publish_given(messages, last)
        return
    paths = [Path(os.fsdecode(text)) for text in texts]
    total_bytes = size_of(paths) if paths else None
    with target.connect() as client:
        client.topic(topic).properties()  # report a wrong name or address before reading input
    with target.connect(retry_for_s=RETRY_FOR_S) as client:
        report_to(client.topic(topic)).publish(with_progress(_batches(form, paths), total_bytes))


def _delivery_of(after_s: float | None, at: str | None) -> DeliveryTime | None:
    """Return when to publish, if not now."""
    if after_s is not None and at is not None:
        raise typer.BadParameter("give either --after or --at")
    if at is None:
        return None if after_s is None else DeliveryTime(after_s=after_s)
    return DeliveryTime(at_ms=parse_time_ms(at, "--at"))


def _form_of(bodies: list[bytes], *, from_stdin: bool, lines: bool, whole_files: bool) -> _Form:
    flags = {_Form.STDIN: from_stdin, _Form.LINES: lines, _Form.FILES: whole_files}
    forms = [form for form, is_set in flags.items() if is_set]
    if len(forms) > 1:
        raise typer.BadParameter("give only one of --stdin, --lines and --file")
    form = forms[0] if forms else _Form.ARGUMENTS
    if form is _Form.STDIN and bodies:
        raise typer.BadParameter("give messages either as arguments or by --stdin")
    if form in (_Form.LINES, _Form.FILES) and not bodies:
        raise typer.BadParameter(f"name the files after {form.value}")
    return form


def _batches(form: _Form, paths: list[Path]) -> Iterator[InputBatch]:
    if form is _Form.STDIN:
        return of_lines(cast("ByteSource", sys.stdin.buffer))
    return of_line_files(paths) if form is _Form.LINES else of_whole_files(paths)


class _Report:
    """Publishes batches and reports their results."""

    def __init__(
        self,
        target: Target,
        write_pointer: int | None,
        frames: Frames,
        encoding: Encoding | None,
        topic: Topic,
        *,
        delivery: DeliveryTime | None,
        buffer: bool,
    ) -> None:
        self._target = target
        self._encoding = encoding
        self._frames = frames
        self._topic = topic
        self._delivery = delivery
        self._write_pointer = write_pointer
        self._buffer = buffer
        self._count = 0

    def publish(self, batches: Iterable[InputBatch]) -> None:
        """Publish the batches one after another, until one fails.

        Raises `TmsError`, `StreamFailed`, and `WrongInput` with the place of the error.
        """
        with self._telling_how_far():
            for batch in batches:
                try:
                    self._publish_one(self._frames.around(batch.messages))
                except WrongMessage as wrong:
                    raise WrongInput(f"{batch.place(wrong.index)}: {wrong}") from None

    def publish_given(self, messages: Sequence[GivenMessage], if_last: IfLast | None) -> None:
        """Publish the messages given as arguments. Raises `TmsError`, and a usage error."""
        with self._telling_how_far():
            try:
                self._publish_one(messages, if_last)
            except WrongMessage as wrong:
                raise typer.BadParameter(str(wrong)) from None

    @contextmanager
    def _telling_how_far(self) -> Iterator[None]:
        """Say in the end how much was published, also if not all of it was."""
        done = "Stored" if self._buffer else "Published"
        done = done if self._delivery is None else "Scheduled"
        try:
            yield
        except (TmsError, StreamFailed, WrongInput):
            if self._count:
                print(f"{done} {counted(self._count, 'message')} before this:", file=sys.stderr)
            raise
        if not self._target.as_json:
            print(f"{done} {counted(self._count, 'message')}.", file=sys.stderr)

    def _publish_one(self, messages: Sequence[GivenMessage], if_last: IfLast | None = None) -> None:
        """Publish one batch, and print its range or its ids."""
        if self._delivery is not None:
            self._schedule_one(messages, self._delivery)
            return
        how = self._encoding or Encoding()
        published = self._topic.publish(
            messages if self._encoding is None else as_values(messages, self._encoding),
            self._write_pointer,
            schema=how.schema,
            key_schema=how.key_schema,
            buffer=self._buffer,
            if_last=if_last,
        )
        self._count += len(messages)
        written = published.rollback_range
        rollback_range = None if written is None else text_of(written)
        if self._target.as_json:
            line = {
                "messages": len(messages),
                "ids": [message_id.hex() for message_id in published],
                "rollback_range": rollback_range,
            }
            print(msgspec.json.encode(line).decode(), flush=True)
        elif rollback_range is not None:
            print(rollback_range, flush=True)

    def _schedule_one(self, messages: Sequence[GivenMessage], delivery: DeliveryTime) -> None:
        """Schedule one batch, and print the ids."""
        how = self._encoding or Encoding()
        ids = self._topic.schedule(
            messages if self._encoding is None else as_values(messages, self._encoding),
            after=delivery.after_s,
            at=delivery.at_ms,
            schema=how.schema,
            key_schema=how.key_schema,
        )
        self._count += len(messages)
        if self._target.as_json:
            line = {"messages": len(messages), "scheduled_ids": ids}
            print(msgspec.json.encode(line).decode(), flush=True)
        else:
            print("\n".join(ids), flush=True)
