"""Long input as batches of messages: bounded in bytes and in count, and never held back.

Lines are published as they arrive: a batch is what one read gave, so that a slow pipe
(`tail -f log | tms publish --stdin`) is not waited for until a batch is full.
"""

from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple, Protocol

import typer

BATCH_MESSAGES_MAX = 1000
READ_BYTES_MAX = 1024 * 1024
LINE_BYTES_MAX = 64 * 1024 * 1024
"""A line longer than this is taken for something that has no lines."""


class ByteSource(Protocol):
    """Bytes that arrive over time."""

    def read1(self, size: int, /) -> bytes:
        """Return at most `size` bytes: what there is, waiting for the first; none at the end."""
        ...


class InputBatch(NamedTuple):
    """Messages to publish together."""

    messages: list[bytes]
    input_bytes: int
    """How much of the input they are, line ends included."""


def of_lines(source: ByteSource) -> Iterator[InputBatch]:
    """Give each line of `source`, without its line feed, as a message; the last may have none."""
    rest = b""
    while data := source.read1(READ_BYTES_MAX):
        *lines, rest = (rest + data).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise typer.BadParameter(f"a line of more than {LINE_BYTES_MAX} bytes")
        yield from _cut(lines)
    if rest:
        yield InputBatch([rest], len(rest))


def _cut(lines: list[bytes]) -> Iterator[InputBatch]:
    for first in range(0, len(lines), BATCH_MESSAGES_MAX):
        messages = lines[first : first + BATCH_MESSAGES_MAX]
        yield InputBatch(messages, sum(map(len, messages)) + len(messages))


def of_line_files(paths: list[Path]) -> Iterator[InputBatch]:
    """Give the lines of each file in turn."""
    for path in paths:
        with _opened(path) as file:
            yield from of_lines(file)


def of_whole_files(paths: list[Path]) -> Iterator[InputBatch]:
    """Give each file as one message."""
    for path in paths:
        with _opened(path) as file:
            content = file.read()
        yield InputBatch([content], len(content))


def size_of(paths: list[Path]) -> int:
    """Return the bytes of all files together. Raises a usage error where one cannot be read."""
    total = 0
    for path in paths:
        with _opened(path):
            total += path.stat().st_size
    return total


def _opened(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from None
