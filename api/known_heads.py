"""Keeps what the heads of simple requests said, so that one that comes again is not parsed again.

A client repeats itself, byte for byte: all its publishes of one size to a topic have the same head,
and all its polls of it. A head says the same wherever it stands behind the end of another request,
so what is kept serves all connections.
"""

from dataclasses import dataclass
from typing import Any

from api.endpoint import Endpoint

HEAD_END = b"\r\n\r\n"
HEAD_BYTES_MAX = 1024
"""Larger ones are parsed each time."""
_HEADS_MAX = 1024


@dataclass(frozen=True, slots=True)
class SimpleHead:
    """What a head says whose request is whole with so many bytes behind it, and its endpoint."""

    endpoint: Endpoint
    scope: dict[str, Any]
    """As of ASGI, as far as endpoints look at it. Not to be changed."""
    fields: dict[bytes, bytes]
    """Its headers by their names in lower case. Not to be changed."""
    body_bytes: int
    keep_alive: bool


class KnownHeads:
    """Heads that were parsed, by their bytes without the empty line that ends them."""

    def __init__(self) -> None:
        self._heads: dict[bytes, SimpleHead] = {}
        self.find = self._heads.get

    def __len__(self) -> int:
        return len(self._heads)

    def keep(self, head: bytes, said: SimpleHead) -> None:
        """Keep what a head said; where there are too many, begin anew."""
        if len(self._heads) >= _HEADS_MAX:
            self._heads.clear()
        self._heads[head] = said
