"""The other work of a commit: all of it in the commit's flush, or none.

A commit has a list of carriers. Each takes its own part of a `CommitRequest` and turns it into a
part of the write. To carry one more thing, add a field to `CommitRequest` and a carrier to the list
in `tms.server.shard`; the other carriers and the callers do not change.

Order within a flush: the transaction is decided, each part is checked, each adds its rows, and only
then the transaction ends. So if any part is refused, nothing changes.
"""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from tms.core.errors import StoreUnavailable
from tms.core.services.group_commit import Write
from tms.core.values.batch import Batch
from tms.core.values.caller import Caller
from tms.core.values.groups import CommitAcks
from tms.core.values.schedules import CommitSchedule
from tms.core.values.subscriptions import Advance
from tms.core.values.topic import TopicId

T = TypeVar("T")


class Stored(NamedTuple):
    """Stored messages of a topic, under one write pointer."""

    topic_id: TopicId
    write_pointer: int


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """The other work of a commit."""

    advances: Sequence[Advance] = ()
    """Positions of subscriptions that move."""
    publish: Sequence[Stored] = ()
    """Stored messages of the transaction to publish, in this order."""
    acks: Sequence[CommitAcks] = ()
    """Messages of groups that the commit acknowledges."""
    schedule: Sequence[CommitSchedule] = ()
    """Messages to publish later, in this order if they are due at once."""

    @property
    def topics(self) -> Sequence[TopicId]:
        """The topics of the whole request."""
        moved = [advance.topic_id for advance in self.advances]
        published = [each.topic_id for each in self.publish]
        scheduled = [each.topic_id for each in self.schedule]
        return [*moved, *published, *(each.topic_id for each in self.acks), *scheduled]


NOTHING = CommitRequest()
"""A commit without other work."""


class Carried(Write):
    """A part of a commit, made by its carrier."""

    @abstractmethod
    def check(self, write_pointers: Collection[int]) -> None:
        """Raise a `TmsError` if it cannot be done with the transaction that has `write_pointers`.

        It is called within the flush, before `add_rows` of any part. After it, `add_rows` must not
        refuse.
        """


class Carrier(Protocol):
    """Carries one kind of thing with commits."""

    def carry(
        self, request: CommitRequest, caller: Caller
    ) -> AbstractAsyncContextManager[Carried] | None:
        """Return this carrier's part of a request, or None if the request has none.

        The part must be submitted within the context, which holds the topics that it needs. Raises
        a `TmsError` if the part cannot be done.
        """
        ...


class CarryAgain(StoreUnavailable):
    """Raised by `Carried.check` if what the part holds was loaded again; nothing has changed.

    It never leaves `submit_carried`.
    """


async def submit_carried(
    carriers: Sequence[Carrier],
    request: CommitRequest,
    caller: Caller,
    submit: Callable[[Sequence[Carried]], Awaitable[T]],
) -> T:
    """Return what `submit` returns for the parts of a request, in the order of the carriers.

    What the parts hold is held until then. If one of them was loaded again in the meantime, the
    parts are made and submitted once more. Raises as `Carrier.carry` and `submit`.
    """
    if request is NOTHING:
        return await submit(())
    while True:
        carried = [carrier.carry(request, caller) for carrier in carriers]
        try:
            async with AsyncExitStack() as held:
                parts = [
                    await held.enter_async_context(each) for each in carried if each is not None
                ]
                return await submit(parts)
        except CarryAgain:
            continue


class JointWrite(Carried):
    """Several parts as one request to the writer: all of them are done, or none."""

    def __init__(self, parts: Sequence[Carried], size_bytes: int = 0) -> None:
        """Make one request with `size_bytes` beyond those of the parts."""
        self._parts = parts
        self.size_bytes = size_bytes + sum(part.size_bytes for part in parts)

    def on_queued(self) -> None:
        """Hold what the parts need."""
        for part in self._parts:
            part.on_queued()

    def check(self, write_pointers: Collection[int]) -> None:
        """Raise the first error of a part's check."""
        for part in self._parts:
            part.check(write_pointers)

    def add_parts(self, batch: Batch, now_ms: int) -> None:
        """Add the rows of the parts, which were checked."""
        if self._parts:
            batch.require_atomic()
        for part in self._parts:
            part.add_rows(batch, now_ms)

    def add_rows(self, batch: Batch, now_ms: int) -> None:
        """Check the parts and add their rows, with no transaction."""
        self.check(())
        self.add_parts(batch, now_ms)

    def on_durable(self) -> None:
        """Let the parts take effect in memory."""
        for part in self._parts:
            part.on_durable()

    def on_failed(self) -> None:
        """Let the parts forget what they did."""
        for part in self._parts:
            part.on_failed()

    def release(self) -> None:
        """Release what the parts needed."""
        for part in self._parts:
            part.release()
