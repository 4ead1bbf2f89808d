"""A reader of server-sent events on a bare socket, as the HTML standard has them.

Its connections may be cut after any number of bytes; it then continues with `Last-Event-ID`.
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.api.rest import TOPIC
from tests.waiting import in_time

PART_BYTES = 64 * 1024


class StreamReader:
    """Reads one topic."""

    def __init__(self, port: int, query: str = "", fields: Mapping[str, str] | None = None) -> None:
        """Read from a port of this machine; nothing is sent."""
        self.port = port
        self.query = query
        self.fields = dict(fields or {})
        self.seen = ""
        """The id of the last event."""
        self.messages: list[dict[str, Any]] = []
        self._body = b""

    @property
    def ids(self) -> list[str]:
        return [message["id"] for message in self.messages]

    async def read(self, cut: int | None = None, until: int | None = None) -> bytes:
        """Read one answer to its end, up to `cut` bytes, or until there are `until` messages.

        Return its head.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        seen = {"last-event-id": self.seen} if self.seen else {}
        fields = {"host": "localhost", "connection": "close", **self.fields, **seen}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"GET {TOPIC}/stream{self.query} HTTP/1.1\r\n{lines}\r\n".encode())
        answer, self._body = b"", b""
        before = len(self.messages)
        try:
            async with in_time():
                while until is None or len(self.messages) < until:
                    left = PART_BYTES if cut is None else min(PART_BYTES, cut - len(answer))
                    part = b""
                    with suppress(ConnectionError):
                        part = await reader.read(left)
                    answer += part
                    del self.messages[before:]
                    self._take(answer.partition(b"\r\n\r\n")[2])
                    if not part:
                        break
        finally:
            writer.transport.abort()
        return answer.partition(b"\r\n\r\n")[0]

    def _take(self, chunks: bytes) -> None:
        """Take the events of a chunked body that are complete."""
        body = b""
        while chunks:
            size, _, rest = chunks.partition(b"\r\n")
            if not rest:
                break
            body += rest[: int(size, 16)]
            chunks = rest[int(size, 16) + 2 :]
        for event in body.split(b"\n\n")[:-1]:
            fields = dict(line.split(b":", 1) for line in event.split(b"\n"))
            if b"id" in fields:
                self.seen = fields[b"id"].strip().decode()
            if b"data" in fields and b"event" not in fields:
                self.messages.append(json.loads(fields[b"data"]))
                assert self.messages[-1]["id"] == self.seen
