"""The interface of the writer: requests of all kinds share its flushes.

A flush adds the requests to one batch in the order of their submission, writes it durably, lets
them take effect, and answers them. There is one flush at a time: `add_rows` sees the effects of all
requests before it.
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
    """The steps that a request may leave out."""

    def on_queued(self) -> None:
        """Hold what must stay until `release`: the request is queued."""

    def on_durable(self) -> None:
        """Take effect in memory: the batch is durable."""

    def on_failed(self) -> None:
        """Forget what `add_rows` did, if it was called: the batch may or may not be written."""

    def release(self) -> None:
        """Release what it has held since `on_queued`; called last, whatever happened."""

    def result(self) -> Any:
        """Return the answer to the caller."""
        return None


class Write(_Steps, ABC):
    """A request to the writer."""

    size_bytes: int
    """Approximate memory that it uses while it waits."""

    @abstractmethod
    def add_rows(self, batch: Batch, now_ms: int) -> None:
        """Add rows to the batch, or raise a `TmsError` for this request alone and add nothing."""


class Participant:
    """A part of each flush with state of its own. It may leave out steps."""

    def before_flush(self) -> None:
        """Before a flush: after a failed one, read again what may have changed."""

    def add_rows(self, batch: Batch) -> None:
        """Add the flush's rows that belong to no single request."""

    def after_flush(self) -> None:
        """After a flush: all its requests have taken effect."""

    def flush_failed(self) -> None:
        """After a failed flush, which may or may not be written."""


class GroupCommit(Protocol):
    """The writer."""

    def submit(
        self, write: Write, caller: Caller = ANYBODY, *, goes_on: bool = False
    ) -> asyncio.Future[Any]:
        """Queue a request and return the future of its answer. Raises `QueueFull`, `Stopping`.

        The request must change nothing before it is queued. With `goes_on` it continues work whose
        first part was queued, and is queued even if the queue is full.
        """
        ...

    def join(self, participant: Participant) -> None:
        """Let `participant` take part in each flush from now on."""
        ...


class BlockingCalls(Protocol):
    """Threads for calls that block."""

    def write(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "asyncio.Future[T]":
        """Return what `call` returns, called after all writes submitted earlier."""
        ...

    def read(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "asyncio.Future[T]":
        """Return what `call` returns."""
        ...
