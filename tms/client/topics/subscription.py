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

    Made by `Topic.subscription`. It remembers which version of the position it has last seen;
    `advance` moves from that one only. Besides the errors named, each method may raise
    `TopicNotFound`, `SubscriptionNotFound`, `SubscriptionIsShared` if the name is a group's,
    `Unavailable`, `InternalError`, and those that change something `OutcomeUnknown`.
    """

    def __init__(self, subscription: AsyncSubscription, bridge: Bridge) -> None:
        """Stand on `subscription`, called through `bridge`."""
        self._subscription = subscription
        self._bridge = bridge

    def __repr__(self) -> str:
        """Return the class, `namespace:topic` and the name."""
        return repr(self._subscription).replace("Async", "", 1)

    @property
    def name(self) -> str:
        """The subscription's name within its topic."""
        return self._subscription.name

    def create(
        self, after: WhichMessage | None = None, *, exist_ok: bool = False
    ) -> SubscriptionPosition:
        """Create it behind a message, by default before the oldest; return the position.

        With `exist_ok`, a subscription that exists stays where it is, and no right to create one is
        needed then. Raises `SubscriptionExists`, `InvalidRequest` (invalid_message_id), `TooLarge`
        (too_many_subscriptions).
        """
        return self._bridge.call(self._subscription.create, after, exist_ok=exist_ok)

    def position(self) -> SubscriptionPosition:
        """Return where it stands: `after`, an id or None, and `version`."""
        return self._bridge.call(self._subscription.position)

    @with_options
    def poll(
        self, limit: int | None = None, **options: Unpack[SubscriptionPollOptions]
    ) -> Messages[Message]:
        """Give the messages behind the position, which is asked for first; it is not moved.

        In a transaction that has moved it, they begin there. The options are those of `Topic.poll`.
        """
        return self._bridge.iterate(self._subscription.poll_runs(limit, **options))

    def advance(self, to: WhichMessage, tx: OpenTransaction | None = None) -> None:
        """Move it behind a message, from the version last seen, or else from where it is.

        Without `tx` it moves at once. With `tx` it moves when that commits: the last move counts,
        and nothing moves if it does not commit. Raises `SubscriptionMoved` if another consumer has
        moved it meanwhile; with `tx` the commit raises that. After `OutcomeUnknown`, `position`
        tells where it is.
        """
        self._bridge.call(self._subscription.advance, to, tx)

    def run(
        self,
        handler: Callable[[Message, TransactionContext], Any],
        *,
        limit: int = 100,
        participants: Callable[[], Iterable[TransactionAware]] = tuple,
    ) -> None:
        """Call `handler` with each message and a transaction, for ever, as the only reader.

        Up to `limit` messages are one transaction, which moves the position too: what the handler
        does with the transaction, and with those that `participants` returns for it, is done if and
        only if the position moves. While there are no messages, nothing is written.

        What the handler raises rolls the transaction back, and is raised, but for `tms.Retry`,
        after which it is called again with the same messages. While the server is away this waits
        for it. Raises `SubscriptionMoved` if another reader uses the name.
        """

        def begin(participants: Iterable[TransactionAware]) -> TransactionContext:
            made = self._subscription.begin(participants=participants)
            return TransactionContext(made, self._bridge)

        run_in_thread(self, handler, begin, participants, limit)

    def delete(self) -> None:
        """Delete it."""
        self._bridge.call(self._subscription.delete)
