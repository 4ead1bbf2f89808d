"""A consumer's named position in a topic, for asyncio.

`tms.client.subscription` is the same without `await`.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from tms.client.poll import Blocks, Tx, blocks_of, reading, singly
from tms.client.start import WhichMessage, id_of
from tms.client.stops import Stops
from tms.client.transaction_work import OpenTransaction
from tms.core.errors import SubscriptionExists
from tms.core.message import FIRST_ID, Message, position_of
from tms.core.reading import Reading
from tms.core.services import Services
from tms.core.subscriptions import Advance, SubscriptionPosition, check_subscription_name
from tms.core.topic import TopicId
from tms.core.transaction import Transaction


class AsyncSubscription:
    """A subscription, which exists or not, as one consumer uses it. Made by `AsyncTopic`.

    It remembers which version of the position it has last seen; `advance` moves from that one only.
    """

    def __init__(self, services: Services, stops: Stops, topic_id: TopicId, name: str) -> None:
        """Name it; nothing is sent. Raises `InvalidRequest` (invalid_subscription_name)."""
        self._services = services
        self._stops = stops
        self._topic_id = topic_id
        self._name = check_subscription_name(name)
        self._seen: SubscriptionPosition | None = None

    def __repr__(self) -> str:
        """Return the class, `namespace:topic` and the name."""
        return f"{type(self).__name__}({self._topic_id}, {self._name})"

    @property
    def name(self) -> str:
        """The subscription's name within its topic."""
        return self._name

    async def create(
        self, after: WhichMessage | None = None, *, exist_ok: bool = False
    ) -> SubscriptionPosition:
        """Create it, as `tms.Subscription.create`."""
        first = None if after is None else id_of(after)
        try:
            self._seen = await self._services.subscriptions.create_subscription(
                self._topic_id, self._name, first
            )
        except SubscriptionExists:
            if not exist_ok:
                raise
            return await self.position()
        return self._seen

    async def position(self) -> SubscriptionPosition:
        """Return where it stands, as `tms.Subscription.position`."""
        self._seen = await self._services.subscriptions.subscription(self._topic_id, self._name)
        return self._seen

    def poll(
        self,
        limit: int | None = None,
        *,
        tx: Tx | None = None,
        committed: bool = False,
        wait_s: float = 0.0,
    ) -> AsyncGenerator[Message, None]:
        """Give the messages behind the position, as `tms.Subscription.poll`."""
        return singly(self.poll_blocks(limit, tx=tx, committed=committed, wait_s=wait_s))

    def poll_blocks(
        self, limit: int | None, *, tx: Tx | None, committed: bool, wait_s: float
    ) -> Blocks:
        """Give what `poll` gives, in runs as they arrive."""
        unplaced = reading(FIRST_ID, limit, tx=tx, committed=committed, wait_s=wait_s)
        return self._blocks(unplaced, self._move_in(tx), wait_s)

    async def _blocks(self, unplaced: Reading, move: Advance | None, wait_s: float) -> Blocks:
        after = (await self.position()).after if move is None else move.after
        asked = unplaced._replace(position=position_of(after, inclusive=False))
        messaging = self._services.messaging
        answer = blocks_of(messaging, self._topic_id, asked, self._stops, wait_s)
        async with aclosing(answer) as blocks:
            async for block in blocks:
                yield block

    async def advance(self, to: WhichMessage, tx: OpenTransaction | None = None) -> None:
        """Move it, as `tms.Subscription.advance`."""
        after = id_of(to)
        move = self._move_in(tx)
        if move is not None:
            version = move.expected_version
        else:
            version = (self._seen or await self.position()).version
        advance = Advance(self._topic_id, self._name, after, version)
        if tx is None:
            self._seen = None  # unknown, should the answer be lost
            self._seen = await self._services.subscriptions.advance(advance)
        else:
            tx.gathered.advances[self._topic_id, self._name] = advance
            self._seen = None  # it depends on how the transaction ends

    async def delete(self) -> None:
        """Delete it, as `tms.Subscription.delete`."""
        self._seen = None
        await self._services.subscriptions.delete_subscription(self._topic_id, self._name)

    def _move_in(self, tx: Tx | None) -> Advance | None:
        """Return the move that is to be made with the transaction's commit."""
        if tx is None or isinstance(tx, int | Transaction):
            return None
        return tx.gathered.advances.get((self._topic_id, self._name))
