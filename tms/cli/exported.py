"""The files of `tms export`: NDJSON, a message a line as in `tms poll --json`, or Avro's container.

docs/formats.md describes both. The same messages make the same batches each time, which an import
that continues after an interruption depends on.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import typer

from tms.cli.batches import LINE_BYTES_MAX, WrongInput
from tms.cli.frames import shown_of
from tms.core.runtime import extras
from tms.core.values.frame import NO_HEADERS
from tms.core.values.message import Message
from tms.wire.json_values import bytes_of, strictly_decoded

BATCH_MESSAGES, BATCH_BYTES = 500, 1024 * 1024
_MESSAGE_BYTES = 64
"""The size of a message in a request without its key, headers and payload."""


class FileForm(StrEnum):
    """The form of a file."""

    NDJSON = "ndjson"
    AVRO = "avro"


FormOption = Annotated[
    FileForm | None,
    typer.Option("--format", help="By default the file's name decides: .avro, or else ndjson."),
]


def form_of(file: Path, form: FileForm | None) -> FileForm:
    """Return the form of a file, by its name if it is not given."""
    return form or (FileForm.AVRO if file.suffix == ".avro" else FileForm.NDJSON)


def write_avro(out: BinaryIO, messages: Iterable[Message]) -> None:
    """Write messages to an Avro container. Raises `ModuleNotFoundError` without its package."""
    _container().write_container(out, messages)


def read(source: BinaryIO, form: FileForm) -> Iterator[Message]:
    """Yield the messages of a file, without their ids.

    Raises `WrongInput`, and as `write_avro`.
    """
    if form is FileForm.AVRO:
        yield from _read_avro(source)
        return
    number = 0
    while line := source.readline(LINE_BYTES_MAX):
        number += 1
        if not line.endswith(b"\n"):
            raise WrongInput(f"line {number} has no end: the file is cut, or the line is too long")
        yield _parsed(line, number)


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    id: str = ""
    timestamp: int = 0
    key: str | None = None
    key_base64: bytes | None = None
    headers: dict[str, str | dict[str, str]] | None = None
    payload: str | msgspec.UnsetType | None = msgspec.UNSET
    payload_base64: bytes | None = None


_decoder = msgspec.json.Decoder(_Line)


def _parsed(line: bytes, number: int) -> Message:
    try:
        parsed: _Line = strictly_decoded(_decoder, line)
        headers = {name: bytes_of(value) for name, value in (parsed.headers or {}).items()}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WrongInput(f"line {number}: {error}: {shown_of(line)}") from None
    key = parsed.key_base64 if parsed.key is None else parsed.key.encode()
    if parsed.payload_base64 is not None:
        return Message(parsed.payload_base64, key, headers or NO_HEADERS)
    if parsed.payload is msgspec.UNSET:
        raise WrongInput(f"line {number} has no payload: {shown_of(line)}")
    payload = parsed.payload or ""
    return Message(payload.encode(), key, headers or NO_HEADERS, b"", parsed.payload is None)


def _read_avro(source: BinaryIO) -> Iterator[Message]:
    number = 0
    try:
        for message in _container().read_container(source):
            number += 1
            yield message
    except (ValueError, EOFError, KeyError, TypeError) as error:
        raise WrongInput(f"after {number} messages the file is not readable: {error!r}") from None


def _container() -> Any:
    """Return the module that reads and writes Avro containers, if its package is installed."""
    try:
        from tms.serdes import avro_container  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        raise extras.missing("Avro files need more", error, "schemas") from None
    return avro_container


def batches_of(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield runs of messages to publish together."""
    batch: list[Message] = []
    size = 0
    for message in messages:
        headers = sum(len(name) + len(value) for name, value in message.headers.items())
        more = _MESSAGE_BYTES + len(message.payload) + len(message.key or b"") + headers
        if batch and (len(batch) >= BATCH_MESSAGES or size + more > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += more
    if batch:
        yield batch
