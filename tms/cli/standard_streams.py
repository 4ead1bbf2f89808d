"""Standard input, output and error for a command, even if they are closed or broken.

1. A closed stream fails when it is used. It is not None, and no file that is opened later gets its
   number: printed text would go into that file.
2. A failure to read or write is a `StreamFailed`, which says which stream failed and why. A pipe
   without a reader is still a `BrokenPipeError`.
3. All output of a command, for people or as JSON, is printable (`tms.core.text.printable`), except
   for line ends and tabs. Code that draws on a terminal itself uses `terminal`.
4. A character that the output cannot encode is printed as a JSON escape, so that no message ends a
   command, and JSON stays valid.
"""

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from tms.core.text.printable import printable

_ESCAPED = "tms-escaped"
_INPUT, _OUTPUT, _ERROR = 0, 1, 2


class StreamFailed(Exception):
    """Raised if standard input cannot be read or standard output cannot be written."""


def open_streams() -> None:
    """Set up the streams of this process as above. Called once, before anything else is opened."""
    codecs.register_error(_ESCAPED, _escape)
    closed = {_INPUT: os.O_WRONLY, _OUTPUT: os.O_RDONLY, _ERROR: os.O_WRONLY}
    for number, flags in closed.items():
        _occupy(number, flags)
    if sys.stderr is None:
        sys.stderr = open(_ERROR, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    encoding, errors = "utf-8", "surrogateescape"
    if sys.stdin is not None:
        encoding, errors = sys.stdin.encoding, sys.stdin.errors or errors
    reader = io.BufferedReader(_Input(_INPUT, "r", closefd=False))
    sys.stdin = io.TextIOWrapper(reader, encoding, errors)
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    writer = io.BufferedWriter(_Output(_OUTPUT, "w", closefd=False))
    encoding = "utf-8" if sys.stdout is None else sys.stdout.encoding
    sys.stdout = io.TextIOWrapper(writer, encoding, _ESCAPED, line_buffering=is_terminal)


class _Printable:
    """A text stream that makes written text printable."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text; return how long it is."""
        self.stream.write(text if text == "\n" else printable(text, allowed="\n\t"))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def printing() -> Iterator[None]:
    """Make all text written to output and error within the context printable."""
    output, error = sys.stdout, sys.stderr
    sys.stdout = shown = cast("TextIO", _Printable(output))
    sys.stderr = shown_error = cast("TextIO", _Printable(error))
    try:
        yield
    finally:  # click replaces them if no reader is left
        if sys.stdout is shown:
            sys.stdout = output
        if sys.stderr is shown_error:
            sys.stderr = error


def terminal() -> TextIO:
    """Return standard error unfiltered, to draw on it."""
    return sys.stderr.stream if isinstance(sys.stderr, _Printable) else sys.stderr


def give_up_output() -> None:
    """Discard text that could not be written, so that the process does not try again at exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _occupy(number: int, flags: int) -> None:
    """Open the null device under a closed file number, in a mode in which using it fails."""
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, flags)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StreamFailed(f"{what}: {error.strerror}.") from None


class _Input(io.FileIO):
    def readinto(self, buffer: Any) -> int:
        with _told("Standard input cannot be read"):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with _told("Standard input cannot be read"):
            return super().readall()


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        with _told("Standard output cannot be written"):
            return super().write(data)


def _escape(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    escaped = (f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
    return "".join(escaped), error.end
