"""`Subscription` for threads, made from `tms.client.topics.async_subscription`.

Do not edit it: change that, and run `python -m dev.sync_client`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Unpack

from tms.client.reading.poll import SubscriptionPollOptions, with_options
from tms.client.reading.start import WhichMessage
from tms.client.threads.bridge import Bridge
from tms.client.threads.messages import Messages
from tms.client.topics.async_subscription import AsyncSubscription
from tms.client.topics.subscription_loop import run_in_thread
from tms.client.transactions.participants import TransactionAware
from tms.client.transactions.transaction import TransactionContext
from tms.client.transactions.transaction_work import OpenTransaction
from tms.core.values.message import Message
from tms.core.values.subscriptions import SubscriptionPosition


class Subscription:
    """A subscription, whether it exists or not, as one consumer uses it.

    Made by `Topic.subscription`. It remembers the last version of the position that it has seen;
    `advance` moves only from that one. In addition to the errors named, each method may raise
    `TopicNotFound`, `SubscriptionNotFound`, `SubscriptionIsShared` if the name is a group's,
    `Unavailable`, `InternalError`, and those that change something `OutcomeUnknown`.
    """

    def __init__(self, subscription: AsyncSubscription, bridge: Bridge) -> None:
        """Use `subscription`, called through `bridge`."""
        self._subscription = subscription
        self._bridge = bridge

    def __repr__(self) -> str:
        """Return the class, `namespace:topic` and the name."""
        return repr(self._subscription).replace("Async", "", 1)

    @property
    def name(self) -> str:
        """The subscription's name within its topic."""
        return self._subscription.name

    @property
    def passed(self) -> bytes | None:
        """The id up to which the last poll with a filter has read; None if it has read nothing.

        Once you have taken all its messages, `advance` to it: no poll reads again what did not
        match.
        """
        return self._subscription.passed

    def create(
        self, after: WhichMessage | None = None, *, exist_ok: bool = False
    ) -> SubscriptionPosition:
        """Create it after a message, by default before the oldest; return the position.

        With `exist_ok`, an existing subscription stays where it is, and no right to create one is
        needed. Raises `SubscriptionExists`, `InvalidRequest` (invalid_message_id), `TooLarge`
        (too_many_subscriptions).
        """
        return self._bridge.call(self._subscription.create, after, exist_ok=exist_ok)

    def position(self) -> SubscriptionPosition:
        """Return its position: `after`, an id or None, and `version`."""
        return self._bridge.call(self._subscription.position)

    @with_options
    def poll(
        self, limit: int | None = None, **options: Unpack[SubscriptionPollOptions]
    ) -> Messages[Message]:
        """Iterate over the messages after the position, which is read first and not moved.

        In a transaction that has moved it, they begin after the new position. The options are those
        of `Topic.poll`.
        """
        return self._bridge.iterate(self._subscription.poll_runs(limit, **options))

    def advance(self, to: WhichMessage, tx: OpenTransaction | None = None) -> None:
        """Move it after a message, from the version last seen, or from where it is if none was.

        Without `tx` it moves at once. With `tx` it moves when that commits: the last move counts,
        and nothing moves if it does not commit. Raises `SubscriptionMoved` if another consumer has
        moved it in the meantime; with `tx` the commit raises that. After `OutcomeUnknown`,
        `position` returns where it is.
        """
        self._bridge.call(self._subscription.advance, to, tx)

    def run(
        self,
        handler: Callable[[Message, TransactionContext], Any],
        *,
        limit: int = 100,
        participants: Callable[[], Iterable[TransactionAware]] = tuple,
        filter: str | None = None,
    ) -> None:
        """Call `handler` with each message and a transaction, without end, as the only reader.

        Up to `limit` messages share one transaction, which also moves the position: the handler's
        work in the transaction and with its `participants` takes effect if and only if the position
        moves. While there are no messages, nothing is written. With a `filter` it also moves past
        messages that do not match, about each 20 seconds.

        An exception of the handler rolls the transaction back and is raised, except `tms.Retry`,
        after which the handler is called again with the same messages. While the server is
        unavailable, this waits for it. Raises `SubscriptionMoved` if another reader uses the name.
        """

        def begin(participants: Iterable[TransactionAware]) -> TransactionContext:
            made = self._subscription.begin(participants=participants)
            return TransactionContext(made, self._bridge)

        run_in_thread(self, handler, begin, participants, limit, chosen=filter)

    def delete(self) -> None:
        """Delete it."""
        self._bridge.call(self._subscription.delete)
