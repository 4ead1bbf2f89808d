"""The interface of the writer: requests of all kinds share its flushes.

A flush adds the requests in the order in which they were submitted to one batch, writes that
durably, lets them take effect, and answers them. One flush at a time: what `add_rows` sees is what
all requests before it have done.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

from tms.core.values.batch import Batch
from tms.core.values.caller import ANYBODY, Caller

P = ParamSpec("P")
T = TypeVar("T")


class _Steps:
    """The steps of a request in which it may have nothing to do."""

    def on_queued(self) -> None:
        """Hold what must stay until `release`: the request is in the queue."""

    def on_durable(self) -> None:
        """Take effect in memory: the batch is durable."""

    def on_failed(self) -> None:
        """Forget what `add_rows` did, if it was called: the batch may have been written, or not."""

    def release(self) -> None:
        """Let go of what it held since `on_queued`; called last, whatever happened."""

    def result(self) -> Any:
        """Return what the caller is answered."""
        return None


class Write(_Steps, ABC):
    """A request to the writer."""

    size_bytes: int
    """About how much memory it holds while it waits."""

    @abstractmethod
    def add_rows(self, batch: Batch, now_ms: int) -> None:
        """Add rows to the batch. May raise a `TmsError`, for this request alone, adding nothing."""


class Participant:
    """A part of each flush with a state of its own. Steps that do nothing may be missing."""

    def before_flush(self) -> None:
        """Before a flush: if one failed before, read again what may have changed."""

    def add_rows(self, batch: Batch) -> None:
        """Add the rows of the flush that no single request has."""

    def after_flush(self) -> None:
        """After a flush: all its requests have taken effect."""

    def flush_failed(self) -> None:
        """After a flush that failed: it may have been written, or not."""


class GroupCommit(Protocol):
    """The writer."""

    def submit(
        self, write: Write, caller: Caller = ANYBODY, *, goes_on: bool = False
    ) -> asyncio.Future[Any]:
        """Queue a request and return the future of its answer. Raises `QueueFull`, `Stopping`.

        Nothing may have changed for the request before it is queued. One that `goes_on` is a later
        part of work whose first part was queued: it is queued however full the queue is.
        """
        ...

    def join(self, participant: Participant) -> None:
        """Let `participant` take part from now on."""
        ...


class BlockingCalls(Protocol):
    """Threads for calls that block."""

    def write(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "asyncio.Future[T]":
        """Return what `call` returns, made after all writes asked for before."""
        ...

    def read(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "asyncio.Future[T]":
        """Return what `call` returns."""
        ...
