"""The key and headers of messages that options of `tms publish` set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import typer

from tms.cli.batches import WrongMessage
from tms.client.reading.given_messages import GivenMessage
from tms.core.values.message import Message, tombstone


@dataclass(frozen=True, slots=True)
class Frames:
    """The key and the headers of each message."""

    key: bytes | None
    headers: Mapping[str, bytes]
    key_separator: bytes | None

    def around(self, payloads: list[bytes]) -> Sequence[GivenMessage]:
        """Return messages with these payloads. Raises `WrongMessage` if a line has no separator."""
        if self.key_separator is not None:
            separator = self.key_separator
            return [self._split(index, line, separator) for index, line in enumerate(payloads)]
        if self.key is None and not self.headers:
            return payloads
        return [Message(payload, self.key, self.headers) for payload in payloads]

    def _split(self, index: int, line: bytes, separator: bytes) -> Message:
        key, parts, payload = line.partition(separator)
        if not parts:
            shown = shown_of(line)
            raise WrongMessage(index, f"there is no {shown_of(separator)!r} in it: {shown}")
        return Message(payload, key, self.headers)

    def tombstone(self) -> Message:
        """Return a message without a payload."""
        assert self.key is not None
        return tombstone(self.key, self.headers)


_SHOWN_BYTES = 80


def shown_of(text: bytes) -> str:
    """Shorten a text for an error message."""
    return text[:_SHOWN_BYTES].decode(errors="backslashreplace")


def frames_of(key: bytes | None, headers: list[bytes], key_separator: bytes | None) -> Frames:
    """Return the key and headers that the options set. Raises a usage error."""
    if key is not None and key_separator is not None:
        raise typer.BadParameter("give either --key or --key-separator")
    if key_separator == b"":
        raise typer.BadParameter("--key-separator must not be empty")
    named: dict[str, bytes] = {}
    for text in headers:
        name, parts, value = text.partition(b"=")
        wrong = None if parts else "it is not NAME=VALUE"
        try:
            decoded = name.decode()
        except UnicodeDecodeError:
            wrong = "its name is not UTF-8"
        else:
            wrong = "its name occurs twice" if decoded in named else wrong
        if wrong is not None:
            raise typer.BadParameter(f"--header {shown_of(text)!r}: {wrong}")
        named[decoded] = value
    return Frames(key, named, key_separator)
