"""`TopicGroup` for threads, made from `tms.client.groups.async_group`.

Do not edit it: change that, and run `python -m dev.sync_client`.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, Unpack

from tms.client.groups.async_group import AsyncTopicGroup, Participants, Place, shows_options
from tms.client.groups.async_worker import WorkerSettings, transactions_of
from tms.client.groups.group_message import GroupMessage
from tms.client.groups.take_settings import HOLD_S_MAX, PREFETCH
from tms.client.groups.work_limit import work_limit_of
from tms.client.groups.worker import GroupWorker
from tms.client.reading.start import WhichMessage
from tms.client.threads.bridge import Bridge
from tms.client.threads.messages import Messages
from tms.core.text.durations import Duration
from tms.core.values.group_settings import GroupOptions, Order
from tms.core.values.groups import DeadLetters, Group, GroupMember, OpenMessage, Redriven, SeekTo


class TopicGroup:
    """A group, whether it exists or not. Made by `Topic.group`.

    Any number of threads may use it at once. Besides the errors named, each method may raise
    `TopicNotFound`, `SubscriptionNotFound`, `SubscriptionIsSingle`, `Unavailable`, `InternalError`,
    and those that change something `OutcomeUnknown`.
    """

    def __init__(self, group: AsyncTopicGroup, bridge: Bridge) -> None:
        """Stand on `group`, called through `bridge`."""
        self._group = group
        self._bridge = bridge

    def __repr__(self) -> str:
        """Return the class, `namespace:topic` and the name."""
        return repr(self._group).replace("Async", "", 1)

    @property
    def name(self) -> str:
        """The group's name within its topic."""
        return self._group.name

    @shows_options
    def create(
        self,
        order: Order | Literal["none", "key"] = Order.NONE,
        *,
        after: Place = SeekTo.START,
        exist_ok: bool = False,
        **options: Unpack[GroupOptions],
    ) -> Group:
        """Create the group, and return it, or the one that exists, as it is.

        So programs may create it whenever they start, also after somebody has paused or changed it:
        settings that differ are logged, and change by `set` alone.

        With `exist_ok` a program needs no right to create it if it exists: to `take` is enough. If
        one of the options that you give differs, `SubscriptionExists` says which. Options that you
        do not give, and `after`, may be anything.

        With the order `key` the messages of one key are given one after another. It begins behind
        the message `after`, at a publish time, or by default at the oldest message. The options are
        the other settings of `GroupSettings`. Raises `SubscriptionExists` if one of another order,
        or a position, has the name; `InvalidRequest` (invalid_group), `TooLarge`
        (too_many_subscriptions), `TransactionsElsewhere`.
        """
        return self._bridge.call(
            self._group.create, order, after=after, exist_ok=exist_ok, **options
        )

    def show(self) -> Group:
        """Return its settings, and where it stands."""
        return self._bridge.call(self._group.show)

    def set(self, *, expected_version: int | None = None, **changes: Unpack[GroupOptions]) -> Group:
        """Change some settings, any but the order; return the group.

        Raises `InvalidRequest` (invalid_group), `SubscriptionMoved` if it does not have the
        expected version.
        """
        return self._bridge.call(self._group.set, expected_version=expected_version, **changes)

    def delete(self) -> None:
        """Delete it; the messages stay."""
        self._bridge.call(self._group.delete)

    def members(self) -> list[GroupMember]:
        """Return who holds messages, or was seen of late, by name."""
        return self._bridge.call(self._group.members)

    def open(self, *, after: WhichMessage | None = None, limit: int = 100) -> list[OpenMessage]:
        """Return open messages behind `after`: who has them, and how often they failed."""
        return self._bridge.call(self._group.open, after=after, limit=limit)

    def seek(self, to: Place) -> Group:
        """Drop all that is open, and go on behind a message, at a publish time, or at an end.

        Acks of what was taken before are refused. Returns the group.
        """
        return self._bridge.call(self._group.seek, to)

    def skip(self, messages: Iterable[WhichMessage]) -> int:
        """Settle open messages, whoever has them; return how many were open.

        Raises `InvalidRequest` (invalid_group, invalid_message_id), as do the methods below.
        """
        return self._bridge.call(self._group.skip, messages)

    def take_back(
        self,
        messages: Iterable[WhichMessage] = (),
        *,
        member: str | None = None,
        failed: bool = False,
    ) -> int:
        """Take leased messages back from their members; return how many.

        These are `messages`, and all that a `member` holds. Others get them at once, and no attempt
        is counted, unless they `failed`.
        """
        return self._bridge.call(self._group.take_back, messages, member=member, failed=failed)

    def dead_letters(self, *, after: WhichMessage | None = None, limit: int = 100) -> DeadLetters:
        """Return dead letters that were neither redriven nor dropped, the oldest first.

        At most `limit` of them, behind `after`. If `next` is not None, go on behind that.
        """
        return self._bridge.call(self._group.dead_letters, after=after, limit=limit)

    def redrive(
        self,
        letters: Iterable[WhichMessage] | None = None,
        *,
        limit: int = 100,
        publish: bool = False,
    ) -> Redriven:
        """Give the messages of dead letters to this group again, from the first attempt.

        These are `letters`, or the oldest `limit`, at most 1,000. With `publish` they are published
        to the topic anew, for all its readers. `expired` has the dead letters whose messages have
        expired in the topic; these stay.
        """
        return self._bridge.call(self._group.redrive, letters, limit=limit, publish=publish)

    def drop_dead_letters(self, letters: Iterable[WhichMessage]) -> int:
        """Take dead letters off the list; return how many were there."""
        return self._bridge.call(self._group.drop_dead_letters, letters)

    def take(
        self,
        *,
        prefetch: int = PREFETCH,
        lease_s: int | None = None,
        hold_s_max: float = HOLD_S_MAX,
    ) -> Messages[GroupMessage]:
        """Give messages for ever, each leased to this loop alone; wait where there are none.

            for message in group.take():
                with message:
                    …

        Up to `prefetch` messages are taken ahead; with 0, one is taken when the program asks for
        the next one. The leases, by default as long as the group's settings say, are extended as
        long as the loop runs, but not for a message that is held for longer than `hold_s_max`
        seconds. When the loop ends, what was not given is given back. What was given and not
        settled is given again to somebody when its lease ends, or at once when the client is
        closed. While the server is away, this waits for it.
        """
        runs = self._group.take_runs(prefetch=prefetch, lease_s=lease_s, hold_s_max=hold_s_max)
        return self._bridge.iterate(runs, partial(GroupMessage, bridge=self._bridge))

    def take_once(
        self,
        messages: int = 1,
        wait_s: float = 0.0,
        *,
        lease_s: int | None = None,
        timeout_s: Duration | None = None,
    ) -> list[GroupMessage]:
        """Take at most so many messages by one request; wait up to `wait_s` seconds for the first.

        Returns an empty list if there are none by then. For a framework that asks by itself; a loop
        is better served by `take`. The leases, by default as long as the group's settings say, are
        not extended: ask for as long as the work takes. Settle each message. What is not settled is
        given again when its lease ends, or at once when the client is closed. Repeated while the
        server is unavailable; `timeout_s`, as that of `Topic.publish`, includes the wait. Raises
        `InvalidRequest` (invalid_group).
        """
        taken = self._bridge.call(
            self._group.take_once, messages, wait_s, lease_s=lease_s, timeout_s=timeout_s
        )
        return [GroupMessage(each, self._bridge) for each in taken]

    def worker(
        self,
        *,
        concurrency: int = 1,
        timeout_s: Duration | None = None,
        transaction: bool = False,
        transaction_timeout_s: Duration | None = None,
        participants: Participants = tuple,
        stop_s: float = 30.0,
        lease_s: int | None = None,
        hold_s_max: float = HOLD_S_MAX,
    ) -> Callable[[Callable[..., Any]], GroupWorker]:
        """Make a worker of a function, which is then called with each message.

            @billing.worker(concurrency=8, transaction=True)
            def bill(message, tx):
                bills.publish(b"…", tx)

            bill.run()

        When the function returns, its message is acknowledged. If it raises, whatever that is, the
        message is nacked, with the exception as the reason; `tms.Retry(delay_s=…)` says when it is
        given again, and `tms.Reject(reason)` makes it a dead letter. `SystemExit` and
        `KeyboardInterrupt` stop the worker too, and `run` raises them then. Up to `concurrency`
        messages are worked on at a time, at most 500; with the order `key`, one of a key.

        A call that takes longer than `timeout_s`, in seconds or as `"5m"`, is cancelled, and its
        message is nacked, with that as the reason.

        With `transaction`, the function is called with a transaction too, which begins after the
        message was taken and acknowledges it. The transaction may last `transaction_timeout_s`; by
        default a little longer than `timeout_s`, else as long as the server lets transactions last.
        If only `transaction_timeout_s` is given, it is the `timeout_s` of the call, too.
        `participants` is called for each and returns those that take part.

        SIGTERM stops `run`: it takes no more, waits `stop_s` seconds for what is worked on, and
        gives the rest back. A second SIGTERM, a second later or more, ends that wait. `lease_s` and
        `hold_s_max` are those of `take`. Raises `ValueError` and `InvalidRequest` for what cannot
        be.
        """
        limit = work_limit_of(timeout_s, transaction_timeout_s, transaction=transaction)
        begin = transactions_of(self._group.begin, limit, transaction=transaction)
        settings = WorkerSettings(concurrency, stop_s, lease_s, hold_s_max, limit)

        def worker_of(function: Callable[..., Any]) -> GroupWorker:
            hold = self._group.hold
            transactions = self._group.transactions
            return GroupWorker(
                hold,
                self._bridge,
                function,
                begin,
                participants,
                settings=settings,
                transactions=transactions,
            )

        return worker_of
