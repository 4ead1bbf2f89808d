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

    Any number of threads may use it at once. In addition to the errors named, each method may raise
    `TopicNotFound`, `SubscriptionNotFound`, `SubscriptionIsSingle`, `Unavailable`, `InternalError`,
    and those that change something `OutcomeUnknown`.
    """

    def __init__(self, group: AsyncTopicGroup, bridge: Bridge) -> None:
        """Use `group`, called through `bridge`."""
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
        """Create the group and return it; return an existing group unchanged.

        So programs may create it each time they start, even if an operator has paused or changed
        it: settings that differ are logged, and only `set` changes them.

        With `exist_ok`, a program needs no right to create a group that exists: the right to `take`
        is enough. If one of the options that you give differs, `SubscriptionExists` says which.
        Options that you do not give, and `after`, are not compared.

        With the order `key`, the messages of one key are delivered one after another. The group
        begins after the message `after`, at a publish time, or by default at the oldest message.
        The options are the other settings of `GroupSettings`. Raises `SubscriptionExists` if a
        group with another order, or a position, has the name; `InvalidRequest` (invalid_group),
        `TooLarge` (too_many_subscriptions), `TransactionsElsewhere`.
        """
        return self._bridge.call(
            self._group.create, order, after=after, exist_ok=exist_ok, **options
        )

    def show(self) -> Group:
        """Return its settings and its progress."""
        return self._bridge.call(self._group.show)

    def set(self, *, expected_version: int | None = None, **changes: Unpack[GroupOptions]) -> Group:
        """Change some settings, but not the order; return the group.

        Raises `InvalidRequest` (invalid_group), `SubscriptionMoved` if it does not have the
        expected version.
        """
        return self._bridge.call(self._group.set, expected_version=expected_version, **changes)

    def delete(self) -> None:
        """Delete it; the messages stay."""
        self._bridge.call(self._group.delete)

    def members(self) -> list[GroupMember]:
        """Return the members that hold messages, or were seen recently, by name."""
        return self._bridge.call(self._group.members)

    def open(self, *, after: WhichMessage | None = None, limit: int = 100) -> list[OpenMessage]:
        """Return open messages after `after`: their members, and how often they failed."""
        return self._bridge.call(self._group.open, after=after, limit=limit)

    def seek(self, to: Place) -> Group:
        """Drop all open messages; continue after a message, at a publish time, or at an end.

        Acks of messages taken earlier are refused. Returns the group.
        """
        return self._bridge.call(self._group.seek, to)

    def skip(self, messages: Iterable[WhichMessage]) -> int:
        """Settle open messages, whichever member has them; return how many were open.

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

        These are `messages`, and all that `member` holds. Other members get them at once, and no
        attempt is counted unless `failed` is true.
        """
        return self._bridge.call(self._group.take_back, messages, member=member, failed=failed)

    def dead_letters(self, *, after: WhichMessage | None = None, limit: int = 100) -> DeadLetters:
        """Return dead letters that were neither redriven nor dropped, the oldest first.

        At most `limit` of them, after `after`. If `next` is not None, pass it as the next `after`.
        """
        return self._bridge.call(self._group.dead_letters, after=after, limit=limit)

    def redrive(
        self,
        letters: Iterable[WhichMessage] | None = None,
        *,
        after: WhichMessage | None = None,
        limit: int = 100,
        publish: bool = False,
    ) -> Redriven:
        """Deliver the messages of dead letters to this group again, from the first attempt.

        These are `letters`, or the oldest `limit` after `after`, at most 1,000. With `publish`,
        they are published to the topic again, for all its readers. `expired` has the dead letters
        whose messages have expired in the topic; these stay on the list, and do not count towards
        `limit`. If `next` is not None, more may follow: pass it as the next `after`. A redrive
        stops at the limit of open messages (`limited_by`), and raises `TooLarge` (too_many_open) if
        the group may not open any.
        """
        return self._bridge.call(
            self._group.redrive, letters, after=after, limit=limit, publish=publish
        )

    def drop_dead_letters(self, letters: Iterable[WhichMessage]) -> int:
        """Remove dead letters from the list; return how many were on it."""
        return self._bridge.call(self._group.drop_dead_letters, letters)

    def take(
        self,
        *,
        prefetch: int = PREFETCH,
        lease_s: int | None = None,
        hold_s_max: float = HOLD_S_MAX,
    ) -> Messages[GroupMessage]:
        """Iterate over messages without end, each leased to this loop; wait while there are none.

            for message in group.take():
                with message:
                    …

        Up to `prefetch` messages are taken ahead; with 0, one is taken when the program asks for
        the next one. The leases, by default as long as the group's settings say, are extended while
        the loop runs, except for a message that is held for longer than `hold_s_max` seconds. When
        the loop ends, messages that you have not received are given back. Those that you received
        and did not settle are delivered again when their leases expire, or at once when the client
        is closed. While the server is unavailable, this waits for it.
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
        """Take at most `messages` by one request; wait up to `wait_s` seconds for the first.

        Returns an empty list if there are none by then. This is for frameworks that poll; a loop
        should use `take`. The leases, by default as long as the group's settings say, are not
        extended: request leases as long as the work takes. Settle each message. A message that is
        not settled is delivered again when its lease expires, or at once when the client is closed.
        Repeated while the server is unavailable; `timeout_s`, as in `Topic.publish`, includes the
        wait. Raises `InvalidRequest` (invalid_group).
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
        """Make a worker from a function, which is then called with each message.

            @billing.worker(concurrency=8, transaction=True)
            def bill(message, tx):
                bills.publish(b"…", tx)

            bill.run()

        When the function returns, its message is acknowledged. If it raises anything, the message
        is nacked, with the exception as the reason; `tms.Retry(delay_s=…)` says when it is
        delivered again, and `tms.Reject(reason)` makes it a dead letter. `SystemExit` and
        `KeyboardInterrupt` also stop the worker, and `run` then raises them. Up to `concurrency`
        messages are processed at a time, at most 500; with the order `key`, one of each key.

        A call that takes longer than `timeout_s`, in seconds or as `"5m"`, is cancelled, and its
        message is nacked, with that as the reason.

        With `transaction`, the function also gets a transaction, which begins after the message was
        taken and acknowledges it. The transaction may last `transaction_timeout_s`; by default a
        little longer than `timeout_s`, else as long as the server lets transactions last. If only
        `transaction_timeout_s` is given, it is also the `timeout_s` of the call. `participants` is
        called for each transaction and returns its participants.

        SIGTERM stops `run`: it takes no more messages, waits `stop_s` seconds for those in
        progress, and gives the rest back. A second SIGTERM, a second later or more, ends that wait.
        `lease_s` and `hold_s_max` are those of `take`. Raises `ValueError` and `InvalidRequest` for
        invalid arguments.
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
