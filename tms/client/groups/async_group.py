"""A group of a topic, for asyncio: many members share its messages.

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
"""A place in a topic: behind a message, at a publish time, or an end."""
Participants = Callable[[], Iterable[TransactionAware]]
F = TypeVar("F", bound=Callable[..., Any])
KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


def shows_options(method: F) -> F:
    """Show the options of a group with their defaults where `method` takes `**options`."""
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

    Any number of tasks may use it at once. Besides the errors named, each method may raise
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
        """Name it; nothing is sent. Raises `InvalidRequest` (invalid_subscription_name)."""
        self._parts = parts
        self._services = parts.services
        self._topic_id = topic_id
        self._name = check_subscription_name(name)
        self.begin = begin
        """Makes a transaction of its client."""
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
        settings = GroupSettings(_order_of(order), **options)
        if exist_ok:
            try:
                return self._as_asked(await self.show(), {"order": settings.order, **options})
            except SubscriptionNotFound:
                pass
        group = await self._services.groups.create_group(
            self._topic_id, self._name, settings, _position_of(after)
        )
        found, asked = asdict(group.settings), asdict(settings)
        asked["dead_letter"] = settings.dead_letter or found["dead_letter"]
        kept = {name: found[name] for name in found if found[name] != asked[name]}
        if kept.keys() - {"paused"}:
            _log.info(
                "Group %s of %s exists already; its settings are not changed: %s",
                self._name,
                self._topic_id,
                ", ".join(f"{name} {value}" for name, value in kept.items()),
            )
        return group

    def _as_asked(self, group: Group, asked: Mapping[str, Any]) -> Group:
        found = asdict(group.settings)
        differ = [
            f"{name} is {found[name]}, not {value}"
            for name, value in asked.items()
            if found[name] != value
        ]
        if differ:
            raise SubscriptionExists(
                topic=str(self._topic_id), subscription=self._name, reason=", ".join(differ)
            )
        return group

    async def show(self) -> Group:
        """Return its settings, and where it stands."""
        return await self._services.groups.group(self._topic_id, self._name)

    async def set(
        self, *, expected_version: int | None = None, **changes: Unpack[GroupOptions]
    ) -> Group:
        """Change some settings, any but the order; return the group.

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
        """Return who holds messages, or was seen of late, by name."""
        return list(await self._services.groups.members(self._topic_id, self._name))

    async def open(
        self, *, after: WhichMessage | None = None, limit: int = 100
    ) -> list[OpenMessage]:
        """Return open messages behind `after`: who has them, and how often they failed."""
        behind = None if after is None else id_of(after)
        return list(
            await self._services.groups.open_messages(
                self._topic_id, self._name, after=behind, limit=limit
            )
        )

    async def seek(self, to: Place) -> Group:
        """Drop all that is open, and go on behind a message, at a publish time, or at an end.

        Acks of what was taken before are refused. Returns the group.
        """
        return await self._services.groups.seek(self._topic_id, self._name, _position_of(to))

    async def skip(self, messages: Iterable[WhichMessage]) -> int:
        """Settle open messages, whoever has them; return how many were open.

        Raises `InvalidRequest` (invalid_group, invalid_message_id), as do the methods below.
        """
        ids = [id_of(each) for each in messages]
        return await self._services.groups.skip(self._topic_id, self._name, ids)

    async def take_back(
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
        ids = [id_of(each) for each in messages]
        return await self._services.groups.take_back(
            self._topic_id, self._name, ids, member=member, failed=failed
        )

    async def dead_letters(
        self, *, after: WhichMessage | None = None, limit: int = 100
    ) -> DeadLetters:
        """Return dead letters that were neither redriven nor dropped, the oldest first.

        At most `limit` of them, behind `after`. If `next` is not None, go on behind that.
        """
        behind = None if after is None else id_of(after)
        return await self._services.groups.dead_letters(
            self._topic_id, self._name, after=behind, limit=limit
        )

    async def redrive(
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
        ids = None if letters is None else [id_of(each) for each in letters]
        return await self._services.groups.redrive(
            self._topic_id, self._name, ids, limit=limit, publish=publish
        )

    async def drop_dead_letters(self, letters: Iterable[WhichMessage]) -> int:
        """Take dead letters off the list; return how many were there."""
        ids = [id_of(each) for each in letters]
        return await self._services.groups.drop_dead_letters(self._topic_id, self._name, ids)

    def take(
        self,
        *,
        prefetch: int = PREFETCH,
        lease_s: int | None = None,
        hold_s_max: float = HOLD_S_MAX,
    ) -> AsyncMessages[AsyncGroupMessage]:
        """Give messages for ever, each leased to this loop alone; wait where there are none.

            async for message in group.take():
                async with message:
                    …

        Up to `prefetch` messages are taken ahead; with 0, one is taken when the program asks for
        the next one. The leases, by default as long as the group's
        settings say, are extended as long as the loop runs, but not for a message that is held for
        longer than `hold_s_max` seconds. When the loop ends, what was not given is given back. What
        was given and not settled is given again to somebody when its lease ends, or at once when
        the client is closed. While the server is away, this waits for it.
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
        """Give what `take` gives, each in a list: whether it is still held is asked as it goes."""
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
        """Take at most so many messages by one request; wait up to `wait_s` seconds for the first.

        Returns an empty list if there are none by then. For a framework that asks by itself; a loop
        is better served by `take`. The leases, by default as long as the group's settings say, are
        not extended: ask for as long as the work takes. Settle each message. What is not settled is
        given again when its lease ends, or at once when the client is closed. Repeated while the
        server is unavailable; `timeout_s`, as that of `AsyncTopic.publish`, includes the wait.
        Raises `InvalidRequest` (invalid_group).
        """
        check_number("messages", messages, 1, TAKE_MESSAGES_MAX)
        settings = TakeSettings(messages, lease_s)
        with deadline(timeout_s):
            return await self._parts.takers.take_once(self._topic_id, self._name, settings, wait_s)

    async def hold(self, settings: TakeSettings) -> HeldMessages:
        """Return a new member of the group, which has taken nothing yet."""
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
        """Make a worker of a function, which is then called with each message.

            @billing.worker(concurrency=8, transaction=True)
            async def bill(message, tx):
                await bills.publish(b"…", tx)

            await bill.run()

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
