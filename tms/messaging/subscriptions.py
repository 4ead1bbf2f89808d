"""Subscriptions: named positions of consumers (`tms.core.values.subscriptions.Subscriptions`).

All positions of a topic are loaded when one is first requested, and belong to the topic's state: if
the topic is deleted or reloaded, so are they. Moves go through the writer like messages, so a
transaction's commit moves positions in the same durable step (`carry`). A move is checked, and
takes effect, within the flush that writes it: of two moves from one version the second is refused,
even in the same flush. Readers see a move once it is durable.

Used from the event loop's thread alone.
"""

import weakref
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace

from tms.core.errors import (
    InvalidRequest,
    SubscriptionExists,
    SubscriptionIsShared,
    SubscriptionIsSingle,
    SubscriptionMoved,
    SubscriptionNotFound,
    TooLarge,
)
from tms.core.services.commits import Carried, CommitRequest, JointWrite
from tms.core.services.group_commit import Write
from tms.core.values.batch import Batch
from tms.core.values.caller import Caller
from tms.core.values.message import ID_BYTES
from tms.core.values.subscriptions import (
    Advance,
    SharedSubscription,
    SubscriptionKind,
    SubscriptionPosition,
    check_subscription_name,
)
from tms.core.values.topic import TopicId
from tms.messaging.lags import SubscriptionLags
from tms.messaging.loaded_topics import TopicState
from tms.messaging.store_runtime import StoreRuntime
from tms.messaging.versions import Versions
from tms.transactions.journal import TransactionJournal

_ROW_BYTES = 200
"""The approximate weight of a queued move."""


@dataclass(slots=True)
class Positions:
    """The positions of one generation of a topic, by name."""

    _state: weakref.ref[TopicState]
    current: dict[str, SubscriptionPosition] = field(default_factory=dict)
    """The positions including the moves being written; moves are checked against these."""
    durable: dict[str, SubscriptionPosition] = field(default_factory=dict)
    """The positions that readers see."""

    @property
    def state(self) -> TopicState:
        """The topic's state; a user of the positions holds it, and they are dropped with it."""
        state = self._state()
        assert state is not None
        return state

    def of(self, name: str) -> SubscriptionPosition:
        """Return the durable position. Raises `SubscriptionNotFound`, `SubscriptionIsShared`."""
        return _single(self.durable, self.state, name)

    def group(self, name: str) -> SharedSubscription:
        """Return a group's durable row. Raises `SubscriptionNotFound`, `SubscriptionIsSingle`."""
        row = _found(self.durable, self.state, name)
        if not isinstance(row, SharedSubscription):
            raise SubscriptionIsSingle(topic=str(self.state.topic.id), subscription=name)
        return row


def _found(
    by_name: dict[str, SubscriptionPosition], state: TopicState, name: str
) -> SubscriptionPosition:
    row = by_name.get(name)
    if row is None:
        raise SubscriptionNotFound(topic=str(state.topic.id), subscription=name)
    return row


def _single(
    by_name: dict[str, SubscriptionPosition], state: TopicState, name: str
) -> SubscriptionPosition:
    row = _found(by_name, state, name)
    if row.kind is not SubscriptionKind.SINGLE:
        raise SubscriptionIsShared(topic=str(state.topic.id), subscription=name)
    return row


class PositionsWriting:
    """The shared parts of all writes to positions of one service."""

    def __init__(self, engine: StoreRuntime) -> None:
        self.table = engine.tables.subscriptions
        self.states = engine.states
        self.mark = engine.mark
        self.versions = Versions(0 if engine.mark is None else engine.mark.high)


class PositionsWrite(Write):
    """A write to positions, whose topics it holds.

    After a failed write the topics' states are reloaded, and the positions with them.
    """

    def __init__(self, writing: PositionsWriting, positions: Sequence[Positions]) -> None:
        self.size_bytes = _ROW_BYTES * len(positions)
        self._table = writing.table
        self._mark = writing.mark
        self._states = writing.states
        self._versions = writing.versions
        self._positions = positions

    def on_queued(self) -> None:
        """Keep the topics' states in memory."""
        for positions in self._positions:
            self._states.hold(positions.state)

    def release(self) -> None:
        """Release the topics' states."""
        for positions in self._positions:
            self._states.release(positions.state)


class Moves(PositionsWrite, Carried):
    """Moves of positions in any topics, one after another, all or none."""

    def __init__(
        self,
        writing: PositionsWriting,
        positions: Sequence[Positions],
        advances: Sequence[Advance],
    ) -> None:
        super().__init__(writing, positions)
        self._advances = advances
        self._moved: list[SubscriptionPosition] = []

    def check(self, write_pointers: Collection[int]) -> None:  # noqa: ARG002
        """Raise as `Subscriptions.advance` if one of the moves cannot be made."""
        versions: dict[tuple[TopicId, str], int] = {}
        for positions, advance in zip(self._positions, self._advances, strict=True):
            positions.state.check_current()
            self._table.check_unanswered(positions.state.prefix, advance.name)
            now = _single(positions.current, positions.state, advance.name)
            version = versions.get((now.topic_id, now.name), now.version)
            if version != advance.expected_version:
                raise SubscriptionMoved(
                    topic=str(now.topic_id),
                    subscription=now.name,
                    expected_version=advance.expected_version,
                    version=version,
                )
            versions[now.topic_id, now.name] = version + 1

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Add the rows; `check` has passed in this flush."""
        for positions, advance in zip(self._positions, self._advances, strict=True):
            now = positions.current[advance.name]
            moved = replace(now, after=advance.after, version=now.version + 1)
            positions.current[advance.name] = moved
            self._versions.record(moved.version)
            self._moved.append(moved)
            self._table.put(batch, positions.state.prefix, moved)

    def on_durable(self) -> None:
        """Show the moves to readers."""
        for positions, moved in zip(self._positions, self._moved, strict=True):
            positions.durable[moved.name] = moved

    def result(self) -> list[SubscriptionPosition]:
        """Return where the positions are now."""
        return self._moved


class Creation(PositionsWrite):
    """A new position."""

    def __init__(
        self,
        writing: PositionsWriting,
        positions: Positions,
        name: str,
        after: bytes | None,
        count_max: int,
    ) -> None:
        """Create a position, if the topic has fewer than `count_max`."""
        super().__init__(writing, [positions])
        self._name = name
        self._after = after
        self._count_max = count_max
        self._created: SubscriptionPosition | None = None

    def add_rows(self, batch: Batch, now_ms: int) -> None:
        """Add the rows, unless the position exists, or there are too many others."""
        [positions], name = self._positions, self._name
        state = positions.state
        state.check_current()
        if len(positions.current) >= self._count_max:
            raise TooLarge(
                "too_many_subscriptions",
                topic=str(state.topic.id),
                topic_subscriptions_max=self._count_max,
            )
        if name in positions.current:
            raise SubscriptionExists(topic=str(state.topic.id), subscription=name)
        self._table.check_unanswered(state.prefix, name)
        version = self._versions.first(now_ms)
        created = self._create(batch, state, version)
        self._created = positions.current[name] = created
        self._table.put(batch, state.prefix, created)
        if self._mark is not None:
            self._mark.cover(batch, version)

    @property
    def is_durable(self) -> bool:
        """Whether readers see a position with its name."""
        return self._name in self._positions[0].durable

    def on_durable(self) -> None:
        """Show it to readers."""
        assert self._created is not None
        if self._mark is not None:
            self._mark.is_durable(self._created.version)
        self._positions[0].durable[self._name] = self._created

    def _create(self, batch: Batch, state: TopicState, version: int) -> SubscriptionPosition:  # noqa: ARG002
        """Return the position; anything stored with it is added to the batch."""
        return SubscriptionPosition(state.topic.id, self._name, self._after, version)

    def result(self) -> SubscriptionPosition | None:
        """Return the position."""
        return self._created


class Deletion(PositionsWrite):
    """The end of a position."""

    def __init__(self, writing: PositionsWriting, positions: Positions, name: str) -> None:
        super().__init__(writing, [positions])
        self._name = name

    def add_rows(self, batch: Batch, now_ms: int) -> None:  # noqa: ARG002
        """Delete the row. Raises `SubscriptionNotFound`, `SubscriptionIsShared`."""
        [positions] = self._positions
        positions.state.check_current()
        now = _single(positions.current, positions.state, self._name)
        self._table.check_unanswered(positions.state.prefix, self._name)
        del positions.current[self._name]
        self._versions.record(now.version + 1)
        self._table.delete(batch, positions.state.prefix, now)

    def on_durable(self) -> None:
        """Hide it from readers."""
        self._positions[0].durable.pop(self._name, None)


class SubscriptionService:
    """The subscriptions of one store's topics."""

    def __init__(
        self, engine: StoreRuntime, transactions: TransactionJournal | None = None
    ) -> None:
        """Write through `engine`.

        `transactions` are those of this server, None if others manage them.
        """
        self._tables = engine.tables
        self._writer = engine.writer
        self._threads = engine.threads
        self._limits = engine.limits
        self._states = engine.states
        self.lags = SubscriptionLags(engine, transactions)
        engine.metrics.include(self.lags)
        self.writing = PositionsWriting(engine)
        self._positions: weakref.WeakKeyDictionary[TopicState, Positions] = (
            weakref.WeakKeyDictionary()
        )

    async def create_subscription(
        self, topic_id: TopicId, name: str, after: bytes | None = None
    ) -> SubscriptionPosition:
        """Create a position, by default before the oldest message."""
        check_subscription_name(name)
        if after is not None:
            _check_id(after)
        async with self.held((topic_id,)) as [positions]:
            count_max = self._limits.topic_subscriptions_max
            return await self.carry_out(Creation(self.writing, positions, name, after, count_max))

    async def carry_out(self, creation: Creation) -> SubscriptionPosition:
        """Create it. Raises `SubscriptionExists` if readers see one with its name."""
        try:
            created: SubscriptionPosition = await self._writer.submit(creation)
        except SubscriptionExists:
            if creation.is_durable:
                raise
            # A request of the same flush created it; its outcome is known in the next flush.
            created = await self._writer.submit(creation)
        return created

    async def subscription(self, topic_id: TopicId, name: str) -> SubscriptionPosition:
        """Return a position."""
        check_subscription_name(name)
        async with self.held((topic_id,)) as [positions]:
            return positions.of(name)

    async def subscriptions(self, topic_id: TopicId) -> Sequence[SubscriptionPosition]:
        """Return a topic's subscriptions in the order of their names, groups too."""
        async with self.held((topic_id,)) as [positions]:
            durable = positions.durable
            return [durable[name] for name in sorted(durable)]

    async def advance(self, advance: Advance) -> SubscriptionPosition:
        """Move a position; durable when it returns."""
        async with self._moves([advance]) as moves:
            await self._writer.submit(JointWrite([moves]))
        [moved] = moves.result()
        return moved

    async def delete_subscription(self, topic_id: TopicId, name: str) -> None:
        """Delete a position."""
        check_subscription_name(name)
        async with self.held((topic_id,)) as [positions]:
            await self._writer.submit(Deletion(self.writing, positions, name))

    def carry(
        self,
        request: CommitRequest,
        caller: Caller,  # noqa: ARG002
    ) -> AbstractAsyncContextManager[Moves] | None:
        """Return the moves that a commit carries (`tms.core.services.commits.Carrier`).

        Raises `TopicNotFound`, `InvalidRequest`, `TooLarge` (too_many_topics_at_once).
        """
        return self._moves(request.advances) if request.advances else None

    @asynccontextmanager
    async def _moves(self, advances: Sequence[Advance]) -> AsyncIterator[Moves]:
        for advance in advances:
            check_subscription_name(advance.name)
            _check_id(advance.after)
        async with self.held([advance.topic_id for advance in advances]) as positions:
            yield Moves(self.writing, positions, advances)

    @asynccontextmanager
    async def held(self, topic_ids: Collection[TopicId]) -> AsyncIterator[list[Positions]]:
        """Hold the states of topics in memory, and yield their positions."""
        async with self._states.held(topic_ids) as states:
            yield [await self._of(state) for state in states]

    async def _of(self, state: TopicState) -> Positions:
        positions = self._positions.get(state)
        if positions is None:
            rows = await self._threads.read(
                self._tables.subscriptions.read, state.topic.id, state.prefix
            )
            by_name = {subscription.name: subscription for subscription in rows}
            for subscription in rows:
                self.writing.versions.record(subscription.version)
            # Another request may have loaded them in the meantime, and moved one.
            positions = self._positions.setdefault(
                state, Positions(weakref.ref(state), dict(by_name), dict(by_name))
            )
        return positions


def _check_id(after: bytes) -> None:
    if len(after) != ID_BYTES:
        raise InvalidRequest("invalid_message_id", id=after.hex())
