"""The interface of the writer: requests of all kinds share its flushes.

A flush adds the requests in the order in which they were submitted to one batch, writes that
durably, lets them take effect, and answers them. One flush at a time: what `add_to` sees is what
all requests before it have done.
"""

import asyncio
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

from tms.core.tables import Batch

P = ParamSpec("P")
T = TypeVar("T")


class Write(Protocol):
    """A request to the writer."""

    @property
    def size_bytes(self) -> int:
        """About how much memory it holds while it waits."""
        ...

    def accepted(self) -> None:
        """Hold what must stay until `finished`: the request is in the queue."""
        ...

    def add_to(self, batch: Batch, now_ms: int) -> None:
        """Add rows to the batch. May raise a `TmsError`, for this request alone, adding nothing."""
        ...

    def apply(self) -> None:
        """Take effect in memory: the batch is durable."""
        ...

    def failed(self) -> None:
        """Forget what `add_to` did, if it was called: the batch may have been written, or not."""
        ...

    def finished(self) -> None:
        """Let go of what it held since `accepted`; called last, whatever happened."""
        ...

    def result(self) -> Any:
        """Return what the caller is answered."""
        ...


class Participant(Protocol):
    """What takes part in each flush with a state of its own."""

    def settle(self) -> None:
        """Before a flush: make good a `failed` one; the store takes writes again."""
        ...

    def complete(self, batch: Batch) -> None:
        """Add the rows of the flush that no single request has."""
        ...

    def applied(self) -> None:
        """After a flush: all its requests have taken effect."""
        ...

    def unsettle(self) -> None:
        """After a flush that failed: it may have been written, or not."""
        ...


class GroupCommit(Protocol):
    """The writer."""

    def submit(self, write: Write) -> asyncio.Future[Any]:
        """Queue a request and return the future of its answer. Raises `QueueFull`, `Stopping`."""
        ...

    def join(self, participant: Participant) -> None:
        """Let `participant` take part from now on."""
        ...


class Lanes(Protocol):
    """Threads for calls that block."""

    def write(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "asyncio.Future[T]":
        """Return what `call` returns, made after all writes asked for before."""
        ...

    def read(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "asyncio.Future[T]":
        """Return what `call` returns."""
        ...
