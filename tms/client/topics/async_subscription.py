"""A consumer's named position in a topic, for asyncio.

`tms.client.topics.subscription` is made from it.
"""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from typing import Any, Unpack

from tms.client.groups.client_parts import ClientParts
from tms.client.reading.half_read import AsyncMessages, HalfRead
from tms.client.reading.poll import (
    Blocks,
    SubscriptionPollOptions,
    Tx,
    blocks_of,
    polled,
    reading,
    with_options,
)
from tms.client.reading.start import WhichMessage, id_of
from tms.client.topics.subscription_loop import run_in_loop
from tms.client.transactions.async_transaction import AsyncTransactionContext
from tms.client.transactions.participants import TransactionAware
from tms.client.transactions.transaction_work import OpenTransaction
from tms.core.errors import SubscriptionExists, SubscriptionNotFound
from tms.core.values.message import Message, id_before, position_of
from tms.core.values.reading import Reading
from tms.core.values.subscriptions import Advance, SubscriptionPosition, check_subscription_name
from tms.core.values.topic import TopicId
from tms.core.values.transaction import Transaction


class AsyncSubscription:
    """A subscription, whether it exists or not, as one consumer uses it.

    Made by `AsyncTopic.subscription`. It remembers the last version of the position that it has
    seen; `advance` moves only from that one. In addition to the errors named, each method may raise
    `TopicNotFound`, `SubscriptionNotFound`, `SubscriptionIsShared` if the name is a group's,
    `Unavailable`, `InternalError`, and those that change something `OutcomeUnknown`.
    """

    def __init__(
        self,
        parts: ClientParts,
        topic_id: TopicId,
        name: str,
        begin: Callable[..., AsyncTransactionContext],
    ) -> None:
        """Store its name; nothing is sent. Raises `InvalidRequest` (invalid_subscription_name)."""
        self._parts = parts
        self._services = parts.services
        self._topic_id = topic_id
        self._name = check_subscription_name(name)
        self.begin = begin
        """Makes a transaction of the subscription's client."""
        self._seen: SubscriptionPosition | None = None
        self._passed: bytes | None = None

    def __repr__(self) -> str:
        """Return the class, `namespace:topic` and the name."""
        return f"{type(self).__name__}({self._topic_id}, {self._name})"

    @property
    def name(self) -> str:
        """The subscription's name within its topic."""
        return self._name

    @property
    def passed(self) -> bytes | None:
        """The id up to which the last poll with a filter has read; None if it has read nothing.

        Once you have taken all its messages, `advance` to it: no poll reads again what did not
        match.
        """
        return self._passed

    async def create(
        self, after: WhichMessage | None = None, *, exist_ok: bool = False
    ) -> SubscriptionPosition:
        """Create it after a message, by default before the oldest; return the position.

        With `exist_ok`, an existing subscription stays where it is, and no right to create one is
        needed. Raises `SubscriptionExists`, `InvalidRequest` (invalid_message_id), `TooLarge`
        (too_many_subscriptions).
        """
        first = None if after is None else id_of(after)
        if exist_ok:
            with suppress(SubscriptionNotFound):
                return await self.position()
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
        """Return its position: `after`, an id or None, and `version`."""
        self._seen = await self._services.subscriptions.subscription(self._topic_id, self._name)
        return self._seen

    @with_options
    def poll(
        self, limit: int | None = None, **options: Unpack[SubscriptionPollOptions]
    ) -> AsyncMessages[Message]:
        """Iterate over the messages after the position, which is read first and not moved.

        In a transaction that has moved it, they begin after the new position. The options are those
        of `AsyncTopic.poll`.
        """
        return AsyncMessages(self.poll_runs(limit, **options), self._parts.readers)

    def poll_runs(
        self, limit: int | None = None, **options: Unpack[SubscriptionPollOptions]
    ) -> HalfRead:
        """Read the messages of `poll` in runs, as they arrive."""
        unplaced = reading(limit=limit, **options)
        move = self._move_in(options.get("tx"))
        return polled(self._blocks(unplaced, move, options.get("wait_s", 0.0)), **options)

    async def _blocks(self, unplaced: Reading, move: Advance | None, wait_s: float) -> Blocks:
        after = (await self.position()).after if move is None else move.after
        reading = unplaced._replace(position=position_of(after, inclusive=False))
        messaging = self._services.messaging
        self._passed = None

        def pass_to(position: bytes) -> None:
            if position > reading.position:
                self._passed = id_before(position)

        passed = None if reading.filter is None else pass_to
        answer = blocks_of(
            messaging, self._topic_id, reading, self._parts.stops, wait_s, passed=passed
        )
        async with aclosing(answer) as blocks:
            async for block in blocks:
                yield block

    async def advance(self, to: WhichMessage, tx: OpenTransaction | None = None) -> None:
        """Move it after a message, from the version last seen, or from where it is if none was.

        Without `tx` it moves at once. With `tx` it moves when that commits: the last move counts,
        and nothing moves if it does not commit. Raises `SubscriptionMoved` if another consumer has
        moved it in the meantime; with `tx` the commit raises that. After `OutcomeUnknown`,
        `position` returns where it is.
        """
        after = id_of(to)
        move = self._move_in(tx)
        if move is not None:
            version = move.expected_version
        else:
            version = (self._seen or await self.position()).version
        advance = Advance(self._topic_id, self._name, after, version)
        if tx is None:
            self._seen = None  # unknown if the answer is lost
            self._seen = await self._services.subscriptions.advance(advance)
        else:
            tx.gathered.advances[self._topic_id, self._name] = advance
            self._seen = None  # it depends on how the transaction ends

    async def run(
        self,
        handler: Callable[[Message, AsyncTransactionContext], Awaitable[Any]],
        *,
        limit: int = 100,
        participants: Callable[[], Iterable[TransactionAware]] = tuple,
        filter: str | None = None,
    ) -> None:
        """Call `handler` with each message and a transaction, without end, as the only reader.

        Up to `limit` messages share one transaction, which also moves the position: the handler's
        work in the transaction and with its `participants` takes effect if and only if the position
        moves. While there are no messages, nothing is written. With a `filter` it also
        moves past messages that do not match, about each 20 seconds.

        An exception of the handler rolls the transaction back and is raised, except `tms.Retry`,
        after which the handler is called again with the same messages. While the server is
        unavailable, this waits for it. Raises `SubscriptionMoved` if another reader uses the name.
        """
        await run_in_loop(self, handler, self.begin, participants, limit, chosen=filter)

    async def delete(self) -> None:
        """Delete it."""
        self._seen = None
        await self._services.subscriptions.delete_subscription(self._topic_id, self._name)

    def _move_in(self, tx: Tx | None) -> Advance | None:
        """Return the move that the transaction's commit will make."""
        if tx is None or isinstance(tx, int | Transaction):
            return None
        return tx.gathered.advances.get((self._topic_id, self._name))
