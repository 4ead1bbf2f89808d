"""The key and headers that options of `tms publish` give to messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import typer

from tms.client.given_messages import GivenMessage
from tms.core.message import Message, tombstone


@dataclass(frozen=True, slots=True)
class Frames:
    """What each message is given."""

    key: bytes | None
    headers: Mapping[str, bytes]
    key_separator: bytes | None

    def around(self, payloads: list[bytes]) -> Sequence[GivenMessage]:
        """Return messages of payloads. Raises a usage error if a line has no separator."""
        if self.key_separator is not None:
            return [self._split(line, self.key_separator) for line in payloads]
        if self.key is None and not self.headers:
            return payloads
        return [Message(payload, self.key, self.headers) for payload in payloads]

    def _split(self, line: bytes, separator: bytes) -> Message:
        key, found, payload = line.partition(separator)
        if not found:
            shown = line[:_SHOWN_BYTES].decode(errors="backslashreplace")
            raise typer.BadParameter(f"a line without {separator.decode()!r}: {shown}")
        return Message(payload, key, self.headers)

    def tombstone(self) -> Message:
        """Return a message without a payload."""
        assert self.key is not None
        return tombstone(self.key, self.headers)


_SHOWN_BYTES = 80


def frames_of(key: str | None, headers: list[str], key_separator: str | None) -> Frames:
    """Return what the options give. Raises a usage error."""
    if key is not None and key_separator is not None:
        raise typer.BadParameter("give either --key or --key-separator")
    if key_separator == "":
        raise typer.BadParameter("--key-separator must not be empty")
    named: dict[str, bytes] = {}
    for text in headers:
        name, found, value = text.partition("=")
        if not found or name in named or not _is_text(name):
            raise typer.BadParameter(
                f"--header {text!r} is not NAME=VALUE, or its name stands twice or is not UTF-8"
            )
        named[name] = _raw(value)
    separator = None if key_separator is None else _raw(key_separator)
    return Frames(None if key is None else _raw(key), named, separator)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _raw(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
