"""Long input as batches of messages: bounded in bytes and in count, and never held back.

Lines are published as they arrive: a batch is the result of one read, so that a slow pipe
(`tail -f log | tms publish --stdin`) does not delay lines until a batch is full.
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
"""The longest line or whole file that is read: no server accepts a longer message."""
_STDIN = "standard input"


class ByteSource(Protocol):
    """Bytes that arrive over time."""

    def read1(self, size: int, /) -> bytes:
        """Return up to `size` available bytes, after waiting for the first; none at the end."""
        ...


class WrongInput(Exception):
    """Raised for input that cannot be published; says where and why."""


class WrongMessage(Exception):
    """Raised for one of several messages that cannot be published."""

    def __init__(self, index: int, reason: str) -> None:
        """Store the index of the message, from 0, and the reason."""
        super().__init__(reason)
        self.index = index


class InputBatch(NamedTuple):
    """Messages to publish together."""

    messages: list[bytes]
    input_bytes: int
    """Their size in the input, including line ends."""
    source: str = _STDIN
    first_line: int | None = 1
    """The line number of the first message; None for a whole file."""

    def place(self, index: int) -> str:
        """Return the place of the message with an index, from 0."""
        if self.first_line is None:
            return self.source
        return f"line {self.first_line + index} of {self.source}"


def of_lines(source: ByteSource, name: str = _STDIN) -> Iterator[InputBatch]:
    """Yield each line of `source`, without its line feed, as a message; the last may have none.

    The work is linear in the input, however long a line is. Raises `WrongInput` for a line that is
    too long, after yielding all before it.
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
    """Yield the lines of each file in turn."""
    for path in paths:
        with _opened(path) as file:
            yield from of_lines(file, str(path))


def of_whole_files(paths: list[Path]) -> Iterator[InputBatch]:
    """Yield each file as one message. Raises `WrongInput` for one that is too long."""
    for path in paths:
        with _opened(path) as file:
            content = _bounded(file, str(path))
        yield InputBatch([content], len(content), str(path), None)


def read_whole(path: Path) -> bytes:
    """Return the content of a file; - is standard input. Raises `WrongInput` if it is too long.

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
    """Return the total size of files in bytes. Raises a usage error if one cannot be read."""
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
