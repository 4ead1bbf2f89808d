"""Subscriptions: named positions of consumers (`tms.core.subscriptions.Subscriptions`).

Positions go through the writer like messages, so that a transaction's commit can move them in the
same durable step (`moves`).
"""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from tms.core.errors import InvalidRequest, TooLarge
from tms.core.message import ID_BYTES
from tms.core.subscriptions import Advance, SubscriptionPosition, check_subscription_name
from tms.core.topic import TopicId
from tms.messaging.engine import Engine
from tms.messaging.lags import SubscriptionLags
from tms.messaging.positions import Creation, Deletion, Moves, Positions, PositionsWriting
from tms.messaging.topic_state import TopicState, TopicStates
from tms.messaging.versions import Versions


class SubscriptionService:
    """The subscriptions of one store's topics."""

    def __init__(self, engine: Engine, states: TopicStates) -> None:
        """Write through `engine`; topics are known by `states`."""
        self._tables = engine.tables
        self._writer = engine.writer
        self._lanes = engine.lanes
        self._limits = engine.limits
        self._states = states
        self._lags = SubscriptionLags(engine, states)
        engine.metrics.include(self._lags)
        self._writing = PositionsWriting(engine.tables, states, Versions())
        self._positions: WeakKeyDictionary[TopicState, Positions] = WeakKeyDictionary()

    async def create_subscription(
        self, topic_id: TopicId, name: str, after: bytes | None = None
    ) -> SubscriptionPosition:
        """Create a position, by default before the oldest message."""
        check_subscription_name(name)
        if after is not None:
            _check_id(after)
        async with self._held((topic_id,)) as [positions]:
            if len(positions.current) >= self._limits.topic_subscriptions_max:
                raise TooLarge(
                    "too_many_subscriptions",
                    topic=str(topic_id),
                    topic_subscriptions_max=self._limits.topic_subscriptions_max,
                )
            created: SubscriptionPosition = await self._writer.submit(
                Creation(self._writing, positions, name, after)
            )
        return created

    async def subscription(self, topic_id: TopicId, name: str) -> SubscriptionPosition:
        """Return a position."""
        check_subscription_name(name)
        async with self._held((topic_id,)) as [positions]:
            return positions.of(name)

    async def subscriptions(self, topic_id: TopicId) -> Sequence[SubscriptionPosition]:
        """Return a topic's positions in the order of their names."""
        async with self._held((topic_id,)) as [positions]:
            durable = positions.durable
            return [durable[name] for name in sorted(durable)]

    async def refresh_lags(self) -> None:
        """Look how far subscriptions are behind, for the metrics; takes a bounded time."""
        await self._lags.refresh()

    async def advance(self, advance: Advance) -> SubscriptionPosition:
        """Move a position; durable when it returns."""
        async with self.moves([advance]) as moves:
            [moved] = await self._writer.submit(moves)
        found: SubscriptionPosition = moved
        return found

    async def delete_subscription(self, topic_id: TopicId, name: str) -> None:
        """Delete a position."""
        check_subscription_name(name)
        async with self._held((topic_id,)) as [positions]:
            await self._writer.submit(Deletion(self._writing, positions, name))

    @asynccontextmanager
    async def moves(self, advances: Sequence[Advance]) -> AsyncIterator[Moves]:
        """Give the moves as one write, to be submitted within; their topics are held meanwhile.

        Raises `TopicNotFound`, `InvalidRequest`, `TooLarge` (too_many_topics_at_once).
        """
        for advance in advances:
            check_subscription_name(advance.name)
            _check_id(advance.after)
        async with self._held([advance.topic_id for advance in advances]) as positions:
            yield Moves(self._writing, positions, advances)

    @asynccontextmanager
    async def _held(self, topic_ids: Collection[TopicId]) -> AsyncIterator[list[Positions]]:
        async with self._states.held(topic_ids) as states:
            yield [await self._of(state) for state in states]

    async def _of(self, state: TopicState) -> Positions:
        positions = self._positions.get(state)
        if positions is None:
            found = await self._lanes.read(
                self._tables.subscriptions.read, state.topic.id, state.prefix
            )
            by_name = {subscription.name: subscription for subscription in found}
            for subscription in found:
                self._writing.versions.known(subscription.version)
            # Another request may have loaded them meanwhile, and moved one.
            positions = self._positions.setdefault(
                state, Positions(state, dict(by_name), dict(by_name))
            )
        return positions


def _check_id(after: bytes) -> None:
    if len(after) != ID_BYTES:
        raise InvalidRequest("invalid_message_id", id=after.hex())
