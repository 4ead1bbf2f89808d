"""Subscriptions: named positions of consumers (`tms.core.subscriptions.Subscriptions`).

Positions go through the writer like messages, so that a transaction's commit can move them in the
same durable step (`moves`).
"""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from tms.core.errors import InvalidRequest, TooLarge
from tms.core.message import ID_BYTES
from tms.core.subscriptions import Advance, Subscription, check_subscription_name
from tms.core.topic import TopicId
from tms.messaging.engine import Engine
from tms.messaging.positions import Creation, Deletion, Moves, Positions
from tms.messaging.topic_state import TopicState, TopicStates


class SubscriptionService:
    """The subscriptions of one store's topics."""

    def __init__(self, engine: Engine, states: TopicStates) -> None:
        """Write through `engine`; topics are known by `states`."""
        self._tables = engine.tables
        self._writer = engine.writer
        self._lanes = engine.lanes
        self._limits = engine.limits
        self._states = states
        self._positions: WeakKeyDictionary[TopicState, Positions] = WeakKeyDictionary()

    async def create_subscription(
        self, topic_id: TopicId, name: str, after: bytes | None = None
    ) -> Subscription:
        """Create a position, by default before the oldest message."""
        check_subscription_name(name)
        if after is not None:
            _check_id(after)
        positions = await self._of(topic_id)
        if len(positions.current) >= self._limits.topic_subscriptions_max:
            raise TooLarge(
                "too_many_subscriptions",
                topic=str(topic_id),
                topic_subscriptions_max=self._limits.topic_subscriptions_max,
            )
        subscription = Subscription(topic_id, name, after, 0)
        created: Subscription = await self._writer.submit(
            Creation(self._tables, positions, subscription)
        )
        return created

    async def subscription(self, topic_id: TopicId, name: str) -> Subscription:
        """Return a position."""
        return (await self._of(topic_id)).of(check_subscription_name(name))

    async def subscriptions(self, topic_id: TopicId) -> Sequence[Subscription]:
        """Return a topic's positions in the order of their names."""
        durable = (await self._of(topic_id)).durable
        return [durable[name] for name in sorted(durable)]

    async def advance(self, advance: Advance) -> Subscription:
        """Move a position; durable when it returns."""
        [moved] = await self._writer.submit(await self.moves([advance]))
        found: Subscription = moved
        return found

    async def delete_subscription(self, topic_id: TopicId, name: str) -> None:
        """Delete a position."""
        positions = await self._of(topic_id)
        await self._writer.submit(Deletion(self._tables, positions, check_subscription_name(name)))

    async def moves(self, advances: Sequence[Advance]) -> Moves:
        """Return the moves as one write. Raises `TopicNotFound`, `InvalidRequest`."""
        for advance in advances:
            check_subscription_name(advance.name)
            _check_id(advance.after)
        positions = [await self._of(advance.topic_id) for advance in advances]
        return Moves(self._tables, positions, advances)

    async def _of(self, topic_id: TopicId) -> Positions:
        state = self._states.loaded(topic_id) or await self._states.get(topic_id)
        positions = self._positions.get(state)
        if positions is None:
            found = await self._lanes.read(self._tables.subscriptions.read, topic_id, state.prefix)
            by_name = {subscription.name: subscription for subscription in found}
            # Another request may have loaded them meanwhile, and moved one.
            positions = self._positions.setdefault(
                state, Positions(state, dict(by_name), dict(by_name))
            )
        return positions


def _check_id(after: bytes) -> None:
    if len(after) != ID_BYTES:
        raise InvalidRequest("invalid_message_id", id=after.hex())
