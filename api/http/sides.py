"""The two sides of an exchange: the connection that it came on, and its endpoint.

`api.http.connection` and `api.http.endpoint` fulfil these. They make exchanges, so an exchange does
not import them.
"""

from typing import TYPE_CHECKING, Protocol

from api.http.context import Context
from api.http.peer import Peer
from tms.security.quotas import OpenCount

if TYPE_CHECKING:
    from api.http.operation import Operation


class ClientSide(Protocol):
    """The connection of an exchange, while that is at work."""

    open_count: OpenCount | None
    """Where it is counted among the connections of a principal; None if it is not."""
    is_write_paused: bool
    """Whether the client has to read before more is written."""
    is_of_server: bool
    """Whether a server of the cluster has made it."""

    peer: Peer
    """Who is at its other end."""

    @property
    def is_lost(self) -> bool:
        """Whether the client is gone."""
        ...

    @property
    def is_body_read(self) -> bool:
        """Whether all of the body has been received."""
        ...

    async def receive(self) -> bytes | None:
        """Return the next part of the body, nothing behind its end; None if the client is gone."""
        ...

    async def drained(self) -> None:
        """Return when the client has read enough of what was written, or is gone."""
        ...

    async def closed(self) -> None:
        """Return when the client is gone."""
        ...

    async def ended(self) -> None:
        """Return when the client has ended its side, or is gone."""
        ...

    def start_stream(self) -> bool:
        """Begin an answer of unknown length; return whether the client is there to get it."""
        ...

    def head_start(self, status: int, content_type: bytes | None, more: bytes) -> bytes:
        """Return the head of an answer as far as it does not depend on the body."""
        ...

    def close_after(self) -> None:
        """Close the connection behind the answer."""
        ...

    def write_later(self, head: bytes) -> None:
        """Write the head of an answer together with what is written next."""
        ...

    def write(self, data: bytes) -> None:
        """Write a part of an answer."""
        ...

    def write_last(self, data: bytes) -> None:
        """Write the end of an answer, and go on with the next request."""
        ...


class ServerSide(Protocol):
    """The endpoint of an exchange."""

    @property
    def context(self) -> Context:
        """The context of the handlers."""
        ...

    @property
    def is_compressed(self) -> bool:
        """Whether answers are compressed for those who take gzip."""
        ...

    @property
    def operation(self) -> "Operation | None":
        """The operation that was asked for; None if it is none, or done elsewhere."""
        ...
