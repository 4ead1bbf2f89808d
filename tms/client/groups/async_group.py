"""A group of a topic, for asyncio: its members share the topic's messages.

`tms.client.groups.group` is made from it.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Literal, TypeVar, Unpack, get_type_hints

from tms.client.groups.async_group_message import AsyncGroupMessage
from tms.client.groups.async_worker import (
    AsyncGroupWorker,
    WorkerSettings,
    handling,
    limited,
    transactions_of,
)
from tms.client.groups.client_parts import ClientParts
from tms.client.groups.database_recovery import Recover
from tms.client.groups.held_messages import HeldMessages
from tms.client.groups.take_settings import HOLD_S_MAX, PREFETCH, TakeSettings
from tms.client.groups.taking import Taking
from tms.client.groups.work_limit import work_limit_of
from tms.client.groups.worker_recovery import WorkerRecovery, recoveries_of
from tms.client.reading.half_read import AsyncMessages, HalfRead
from tms.client.reading.start import Start, WhichMessage, id_of, id_or_ms
from tms.client.transactions.async_transaction import AsyncTransactionContext
from tms.client.transactions.participants import TransactionAware
from tms.core.errors import InvalidRequest, SubscriptionExists, SubscriptionNotFound
from tms.core.runtime.deadlines import deadline
from tms.core.text.durations import Duration
from tms.core.values.group_settings import (
    DEFAULTS,
    GroupOptions,
    GroupSettings,
    Order,
    check_number,
)
from tms.core.values.groups import (
    TAKE_MESSAGES_MAX,
    DeadLetters,
    Group,
    GroupMember,
    OpenMessage,
    Position,
    Redriven,
    SeekTo,
)
from tms.core.values.subscriptions import check_subscription_name
from tms.core.values.topic import TopicId

_log = logging.getLogger("tms.client")

Place = Start | SeekTo | Literal["start", "end"]
"""A place in a topic: after a message, at a publish time, or at an end."""
Participants = Callable[[], Iterable[TransactionAware]]
F = TypeVar("F", bound=Callable[..., Any])
KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


def shows_options(method: F) -> F:
    """Show a group's options with their defaults in place of the `**options` of `method`."""
    shown = inspect.signature(method)
    named = [
        inspect.Parameter(name, KEYWORD_ONLY, default=getattr(DEFAULTS, name), annotation=kind)
        for name, kind in get_type_hints(GroupOptions).items()
    ]
    parameters = [*list(shown.parameters.values())[:-1], *named]
    vars(method)["__signature__"] = shown.replace(parameters=parameters)
    return method


class AsyncTopicGroup:
    """A group, whether it exists or not. Made by `AsyncTopic.group`.

    Any number of tasks may use it at once. In addition to the errors named, each method may raise
    `TopicNotFound`, `SubscriptionNotFound`, `SubscriptionIsSingle`, `Unavailable`, `InternalError`,
    and those that change something `OutcomeUnknown`.
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
        """Makes a transaction of the group's client."""
        self.transactions = parts.services.transactions
        """All transactions of the server or store."""

    def __repr__(self) -> str:
        """Return the class, `namespace:topic` and the name."""
        return f"{type(self).__name__}({self._topic_id}, {self._name})"

    @property
    def name(self) -> str:
        """The group's name within its topic."""
        return self._name

    @shows_options
    async def create(
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
        settings = GroupSettings(_order_of(order), **options)
        if exist_ok:
            try:
                return self._check_options(await self.show(), {"order": settings.order, **options})
            except SubscriptionNotFound:
                pass
        group = await self._services.groups.create_group(
            self._topic_id, self._name, settings, _position_of(after)
        )
        present, requested = asdict(group.settings), asdict(settings)
        requested["dead_letter"] = settings.dead_letter or present["dead_letter"]
        kept = {name: present[name] for name in present if present[name] != requested[name]}
        if kept.keys() - {"paused"}:
            _log.info(
                "Group %s of %s exists already; its settings are not changed: %s",
                self._name,
                self._topic_id,
                ", ".join(f"{name} {value}" for name, value in kept.items()),
            )
        return group

    def _check_options(self, group: Group, options: Mapping[str, Any]) -> Group:
        present = asdict(group.settings)
        differ = [
            f"{name} is {present[name]}, not {value}"
            for name, value in options.items()
            if present[name] != value
        ]
        if differ:
            raise SubscriptionExists(
                topic=str(self._topic_id), subscription=self._name, reason=", ".join(differ)
            )
        return group

    async def show(self) -> Group:
        """Return its settings and its progress."""
        return await self._services.groups.group(self._topic_id, self._name)

    async def set(
        self, *, expected_version: int | None = None, **changes: Unpack[GroupOptions]
    ) -> Group:
        """Change some settings, but not the order; return the group.

        Raises `InvalidRequest` (invalid_group), `SubscriptionMoved` if it does not have the
        expected version.
        """
        return await self._services.groups.set_group(
            self._topic_id, self._name, changes, expected_version
        )

    async def delete(self) -> None:
        """Delete it; the messages stay."""
        await self._services.groups.delete_group(self._topic_id, self._name)

    async def members(self) -> list[GroupMember]:
        """Return the members that hold messages, or were seen recently, by name."""
        return list(await self._services.groups.members(self._topic_id, self._name))

    async def open(
        self, *, after: WhichMessage | None = None, limit: int = 100
    ) -> list[OpenMessage]:
        """Return open messages after `after`: their members, and how often they failed."""
        behind = None if after is None else id_of(after)
        return list(
            await self._services.groups.open_messages(
                self._topic_id, self._name, after=behind, limit=limit
            )
        )

    async def seek(self, to: Place) -> Group:
        """Drop all open messages; continue after a message, at a publish time, or at an end.

        Acks of messages taken earlier are refused. Returns the group.
        """
        return await self._services.groups.seek(self._topic_id, self._name, _position_of(to))

    async def skip(self, messages: Iterable[WhichMessage]) -> int:
        """Settle open messages, whichever member has them; return how many were open.

        Raises `InvalidRequest` (invalid_group, invalid_message_id), as do the methods below.
        """
        ids = [id_of(message) for message in messages]
        return await self._services.groups.skip(self._topic_id, self._name, ids)

    async def take_back(
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
        ids = [id_of(message) for message in messages]
        return await self._services.groups.take_back(
            self._topic_id, self._name, ids, member=member, failed=failed
        )

    async def dead_letters(
        self, *, after: WhichMessage | None = None, limit: int = 100
    ) -> DeadLetters:
        """Return dead letters that were neither redriven nor dropped, the oldest first.

        At most `limit` of them, after `after`. If `next` is not None, pass it as the next `after`.
        """
        behind = None if after is None else id_of(after)
        return await self._services.groups.dead_letters(
            self._topic_id, self._name, after=behind, limit=limit
        )

    async def redrive(
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
        ids = None if letters is None else [id_of(letter) for letter in letters]
        behind = None if after is None else id_of(after)
        return await self._services.groups.redrive(
            self._topic_id, self._name, ids, after=behind, limit=limit, publish=publish
        )

    async def drop_dead_letters(self, letters: Iterable[WhichMessage]) -> int:
        """Remove dead letters from the list; return how many were on it."""
        ids = [id_of(letter) for letter in letters]
        return await self._services.groups.drop_dead_letters(self._topic_id, self._name, ids)

    def take(
        self,
        *,
        prefetch: int = PREFETCH,
        lease_s: int | None = None,
        hold_s_max: float = HOLD_S_MAX,
    ) -> AsyncMessages[AsyncGroupMessage]:
        """Iterate over messages without end, each leased to this loop; wait while there are none.

            async for message in group.take():
                async with message:
                    …

        Up to `prefetch` messages are taken ahead; with 0, one is taken when the program asks for
        the next one. The leases, by default as long as the group's settings say, are extended while
        the loop runs, except for a message that is held for longer than `hold_s_max` seconds. When
        the loop ends, messages that you have not received are given back. Those that you received
        and did not settle are delivered again when their leases expire, or at once when the client
        is closed. While the server is unavailable, this waits for it.
        """
        runs = self.take_runs(prefetch=prefetch, lease_s=lease_s, hold_s_max=hold_s_max)
        return AsyncMessages(runs, self._parts.readers)

    def take_runs(
        self,
        *,
        prefetch: int = PREFETCH,
        lease_s: int | None = None,
        hold_s_max: float = HOLD_S_MAX,
    ) -> HalfRead:
        """Yield the messages of `take` in lists of one: each is still held when it is given."""
        settings = TakeSettings(prefetch, lease_s, hold_s_max)
        return HalfRead(Taking(partial(self.hold, settings)), is_endless=True)

    async def take_once(
        self,
        messages: int = 1,
        wait_s: float = 0.0,
        *,
        lease_s: int | None = None,
        timeout_s: Duration | None = None,
    ) -> list[AsyncGroupMessage]:
        """Take at most `messages` by one request; wait up to `wait_s` seconds for the first.

        Returns an empty list if there are none by then. This is for frameworks that poll; a loop
        should use `take`. The leases, by default as long as the group's settings say, are not
        extended: request leases as long as the work takes. Settle each message. A message that is
        not settled is delivered again when its lease expires, or at once when the client is closed.
        Repeated while the server is unavailable; `timeout_s`, as in `AsyncTopic.publish`, includes
        the wait. Raises `InvalidRequest` (invalid_group).
        """
        check_number("messages", messages, 1, TAKE_MESSAGES_MAX)
        settings = TakeSettings(messages, lease_s)
        with deadline(timeout_s):
            return await self._parts.takers.take_once(self._topic_id, self._name, settings, wait_s)

    async def hold(self, settings: TakeSettings) -> HeldMessages:
        """Return a new member of the group, without messages."""
        order = (await self.show()).settings.order
        parts = self._parts
        held = HeldMessages(
            parts.services, self._topic_id, self._name, order, settings, is_closed=parts.is_closed
        )
        parts.members.add(held)
        return held

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
    ) -> Callable[[Callable[..., Awaitable[Any]]], AsyncGroupWorker]:
        """Make a worker from a function, which is then called with each message.

            @billing.worker(concurrency=8, transaction=True)
            async def bill(message, tx):
                await bills.publish(b"…", tx)

            await bill.run()

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
        begin = transactions_of(self.begin, limit, transaction=transaction)
        settings = WorkerSettings(concurrency, stop_s, lease_s, hold_s_max, limit)

        async def recoveries() -> list[Recover]:
            return recoveries_of(participants())

        recovery = WorkerRecovery(self.transactions, recoveries) if transaction else None

        def worker_of(function: Callable[..., Awaitable[Any]]) -> AsyncGroupWorker:
            handle = handling(limited(function, limit), begin, participants, recovery)
            return AsyncGroupWorker(self.hold, handle, settings, recovery)

        return worker_of


def _order_of(order: str) -> Order:
    try:
        return Order(order)
    except ValueError:
        raise InvalidRequest("invalid_group", order=order) from None


def _position_of(place: Place) -> Position:
    if isinstance(place, str) and place in tuple(SeekTo):
        return SeekTo(place)
    return id_or_ms(place)
