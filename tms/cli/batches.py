"""Long input as batches of messages: bounded in bytes and in count, and never held back.

Lines are published as they arrive: a batch is what one read gave, so that a slow pipe
(`tail -f log | tms publish --stdin`) is not waited for until a batch is full.
"""

import sys
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

import typer

BATCH_MESSAGES_MAX = 1000
READ_BYTES_MAX = 1024 * 1024
LINE_BYTES_MAX = 64 * 1024 * 1024
"""A line, or a whole file, longer than this is not read on: no server takes it as a message."""
_STDIN = "standard input"


class ByteSource(Protocol):
    """Bytes that arrive over time."""

    def read1(self, size: int, /) -> bytes:
        """Return at most `size` bytes: what there is, waiting for the first; none at the end."""
        ...


class WrongInput(Exception):
    """Raised for input that cannot be published; says where it is and why."""


class WrongMessage(Exception):
    """Raised for one of several messages that cannot be published."""

    def __init__(self, index: int, reason: str) -> None:
        """Say which one, counted from 0, and why."""
        super().__init__(reason)
        self.index = index


class InputBatch(NamedTuple):
    """Messages to publish together."""

    messages: list[bytes]
    input_bytes: int
    """How much of the input they are, line ends included."""
    source: str = _STDIN
    first_line: int | None = 1
    """The number of the first one's line; None for a whole file."""

    def place(self, index: int) -> str:
        """Return where one of the messages is, counted from 0."""
        if self.first_line is None:
            return self.source
        return f"line {self.first_line + index} of {self.source}"


def of_lines(source: ByteSource, name: str = _STDIN) -> Iterator[InputBatch]:
    """Give each line of `source`, without its line feed, as a message; the last may have none.

    The work grows with the input and no faster, however long a line is. Raises `WrongInput` for a
    line that is too long, when all before it have been given.
    """
    number, parts, size = 1, list[bytes](), 0
    while data := source.read1(READ_BYTES_MAX):
        *lines, rest = data.split(b"\n")
        if lines:
            _check_line(size + len(lines[0]), number, name)
            lines[0] = b"".join((*parts, lines[0]))
            yield from _cut(lines, name, number)
            number, parts, size = number + len(lines), [], 0
        parts.append(rest)
        size += len(rest)
        _check_line(size, number, name)
    if size:
        yield InputBatch([b"".join(parts)], size, name, number)


def _check_line(size: int, number: int, name: str) -> None:
    if size > LINE_BYTES_MAX:
        raise WrongInput(f"line {number} of {name} is longer than {LINE_BYTES_MAX} bytes")


def _cut(lines: list[bytes], name: str, number: int) -> Iterator[InputBatch]:
    for first in range(0, len(lines), BATCH_MESSAGES_MAX):
        messages = lines[first : first + BATCH_MESSAGES_MAX]
        size = sum(map(len, messages)) + len(messages)
        yield InputBatch(messages, size, name, number + first)


def of_line_files(paths: list[Path]) -> Iterator[InputBatch]:
    """Give the lines of each file in turn."""
    for path in paths:
        with _opened(path) as file:
            yield from of_lines(file, str(path))


def of_whole_files(paths: list[Path]) -> Iterator[InputBatch]:
    """Give each file as one message. Raises `WrongInput` for one that is too long."""
    for path in paths:
        with _opened(path) as file:
            content = _bounded(file, str(path))
        yield InputBatch([content], len(content), str(path), None)


def read_whole(path: Path) -> bytes:
    """Return what is in a file; - is standard input. Raises `WrongInput` if it is too long.

    Raises a usage error if there is no such file.
    """
    if str(path) == "-":
        return _bounded(sys.stdin.buffer, _STDIN)
    with _opened(path) as file:
        return _bounded(file, str(path))


def _bounded(source: BinaryIO, name: str) -> bytes:
    try:
        content = source.read(LINE_BYTES_MAX + 1)
    except OSError as error:
        raise WrongInput(f"{name} cannot be read: {error.strerror}") from None
    if len(content) > LINE_BYTES_MAX:
        raise WrongInput(f"{name} is longer than {LINE_BYTES_MAX} bytes")
    return content


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
