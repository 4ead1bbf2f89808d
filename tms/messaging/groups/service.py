"""Groups (`tms.core.values.groups.Groups`), over the tables of one store.

A take never waits for a flush: the group reads the next messages of its topic if it needs more,
leases in memory, and answers. A settle waits for its flush. Takes that get nothing wait in a queue,
which one task of their group serves in order. Used from the event loop's thread alone.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import replace
from functools import wraps
from time import monotonic
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from tms.core.errors import (
    InvalidRequest,
    OutcomeUnknown,
    SubscriptionExists,
    SubscriptionNotFound,
    TransactionsElsewhere,
    Unavailable,
)
from tms.core.services.commits import CommitRequest
from tms.core.values.caller import ANYBODY, Caller
from tms.core.values.dead_letters import DeadLetter
from tms.core.values.group_settings import DEFAULTS, SETTABLE, GroupSettings, check_settings
from tms.core.values.groups import (
    NO_SETTLE,
    REDRIVEN_MAX,
    CommitAcks,
    DeadLetters,
    Group,
    GroupMember,
    OpenMessage,
    Position,
    Redriven,
    SeekTo,
    Settle,
    Settled,
    Take,
    Taken,
    check_member,
)
from tms.core.values.message import (
    NO_PAYLOAD_KEY,
    check_id,
    first_id_at,
    id_before,
    published_ms,
)
from tms.core.values.store_features import FILTERS, GROUPS
from tms.core.values.subscriptions import SharedSubscription, check_subscription_name
from tms.core.values.topic import TopicId
from tms.messaging.groups.burial import Burials
from tms.messaging.groups.checks import check_commit_acks, check_ids, check_settle, check_take
from tms.messaging.groups.commands import GroupCommands
from tms.messaging.groups.dead_letters import DeadLetterService
from tms.messaging.groups.lags import GroupLags
from tms.messaging.groups.loaded import HeldGroup, LoadedGroups
from tms.messaging.groups.loaded_group import GroupLeftMemory
from tms.messaging.groups.open_entries import Taker
from tms.messaging.groups.shown import group_shown, open_message_shown
from tms.messaging.groups.takes import CommittedReader, Takes
from tms.messaging.groups.writes import (
    CarriedAcks,
    GroupChange,
    GroupCreation,
    GroupDeletion,
    GroupIntervention,
    GroupSeek,
    GroupSettle,
)
from tms.messaging.loaded_topics import TopicState
from tms.messaging.subscriptions import SubscriptionService
from tms.messaging.topics import Topics
from tms.messaging.write_requests import Writing
from tms.transactions.journal import TransactionJournal

_AHEAD_MS_MAX: Final = 60_000
"""How far the clock of a caller that seeks to a time may be ahead."""
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


def _retried(
    method: Callable[Concatenate["GroupService", Arguments], Awaitable[Result]],
) -> Callable[Concatenate["GroupService", Arguments], Coroutine[Any, Any, Result]]:
    """Call a method again if its group has left memory in the meantime; it has changed nothing."""

    @wraps(method)
    async def call(
        self: "GroupService", /, *args: Arguments.args, **more: Arguments.kwargs
    ) -> Result:
        while True:
            try:
                return await method(self, *args, **more)
            except GroupLeftMemory:
                continue

    return call


class GroupService:
    """The groups of one store's topics."""

    def __init__(
        self,
        writing: Writing,
        topics: Topics,
        subscriptions: SubscriptionService,
        transactions: TransactionJournal | None,
    ) -> None:
        """Write with `writing`; `transactions` are this server's, if it has any."""
        engine = self._engine = writing.engine
        self._limits = engine.limits
        self._writer = engine.writer
        self._subscriptions = subscriptions
        self._transactions = transactions
        read = CommittedReader(engine, transactions).read
        burials = Burials(writing, subscriptions, read)
        self._groups = LoadedGroups(engine, subscriptions, burials.attend)
        self._dead_letters = DeadLetterService(writing, topics, subscriptions, self._groups, read)
        self.lags = GroupLags(engine, subscriptions.lags, self._groups)
        self._takes = Takes(engine, self._groups, read)
        self._read = read

    # -- groups

    async def create_group(
        self,
        topic_id: TopicId,
        name: str,
        settings: GroupSettings = DEFAULTS,
        after: Position = SeekTo.START,
    ) -> Group:
        """Create a group, or return the present one if its order is the same."""
        check_subscription_name(name)
        check_settings(settings)
        if self._transactions is None:
            raise TransactionsElsewhere
        settings = await self._dead_letters.prepared(topic_id, settings)
        while True:
            await self._create(topic_id, name, settings, after)
            with suppress(SubscriptionNotFound):  # it existed, and was being deleted
                return await self.group(topic_id, name)

    async def _create(
        self, topic_id: TopicId, name: str, settings: GroupSettings, after: Position
    ) -> None:
        """Create a group, unless one of that order exists."""
        async with self._subscriptions.held((topic_id,)) as [positions]:
            through = self._through(positions.state, after)
            await self._engine.features.use(GROUPS)
            if settings.filter:
                await self._engine.features.use(FILTERS)
            write = GroupCreation(
                self._subscriptions.writing,
                self._engine.tables,
                positions,
                name=name,
                settings=settings,
                after=through,
                count_max=self._limits.topic_subscriptions_max,
            )
            try:
                await self._subscriptions.carry_out(write)
            except SubscriptionExists:
                present = positions.durable.get(name)
                # Its settings may have been changed since, but never its order.
                if not isinstance(present, SharedSubscription) or (
                    present.settings.order is not settings.order
                ):
                    raise

    @_retried
    async def group(self, topic_id: TopicId, name: str) -> Group:
        """Return a group."""
        async with self._held(topic_id, name) as group:
            self._takes.end_leases(group)
            await self._groups.expire_all(group)
            return await group_shown(group, self._read, self._groups.time.now_ms())

    async def groups(self, topic_id: TopicId) -> Sequence[Group]:
        """Return a topic's groups, by name."""
        async with self._subscriptions.held((topic_id,)) as [positions]:
            names = sorted(
                name
                for name, position in positions.durable.items()
                if isinstance(position, SharedSubscription)
            )
        return [await self.group(topic_id, name) for name in names]

    @_retried
    async def set_group(
        self,
        topic_id: TopicId,
        name: str,
        changes: Mapping[str, Any],
        expected_version: int | None = None,
    ) -> Group:
        """Change some settings; the change is durable when this returns."""
        unknown = sorted(set(changes) - set(SETTABLE))
        if unknown:
            raise InvalidRequest("invalid_group", unknown=unknown, settable=list(SETTABLE))
        async with self._held(topic_id, name) as group:
            settings = replace(group.commands.settings, **changes)
            check_settings(settings)
            if "dead_letter" in changes or "attempts_max" in changes:
                changes = await self._with_dead_letter(topic_id, changes, settings)
            if settings.filter:
                await self._engine.features.use(FILTERS)
            async with self._subscriptions.held((topic_id,)) as [positions]:
                write = GroupChange(
                    self._subscriptions.writing, positions, group, changes, expected_version
                )
                await self._writer.submit(write)
        return await self._changed(topic_id, name)

    async def _changed(self, topic_id: TopicId, name: str) -> Group:
        """Return a group after a change, which is durable even if the group cannot be read."""
        try:
            return await self.group(topic_id, name)
        except Unavailable as error:
            raise OutcomeUnknown(**error.detail) from error

    async def _with_dead_letter(
        self, topic_id: TopicId, changes: Mapping[str, Any], settings: GroupSettings
    ) -> Mapping[str, Any]:
        """Return changes with the topic of dead letters, if the settings need one."""
        if changes.get("dead_letter") == "":
            raise InvalidRequest(
                "invalid_group",
                dead_letter="",
                reason="a group keeps its topic of dead letters: name another one, or set "
                "attempts_max to 0",
            )
        prepared = await self._dead_letters.prepared(topic_id, settings)
        return {**changes, "dead_letter": prepared.dead_letter}

    @_retried
    async def delete_group(self, topic_id: TopicId, name: str) -> None:
        """Delete a group; the messages stay."""
        async with self._held(topic_id, name) as group:
            group.is_kept_still = True
            try:
                while (snapshotting := group.snapshotting) is not None:
                    await asyncio.wait([snapshotting])
                async with self._subscriptions.held((topic_id,)) as [positions]:
                    writing = self._subscriptions.writing
                    write = GroupDeletion(writing, positions, group, self._groups)
                    await self._writer.submit(write)
            finally:
                group.is_kept_still = False

    @_retried
    async def seek(self, topic_id: TopicId, name: str, to: Position) -> Group:
        """Forget all open messages, and continue from `to`; later acks of them are refused."""
        async with self._held(topic_id, name) as group:
            through = self._through(group.state, to)
            await self._writer.submit(GroupSeek(group, self._groups, through))
        return await self._changed(topic_id, name)

    @_retried
    async def members(self, topic_id: TopicId, name: str) -> Sequence[GroupMember]:
        """Return the members by name."""
        async with self._held(topic_id, name) as group:
            held = group.commands.state.held
            for taker in held:
                if taker not in group.seen:
                    group.saw(taker, self._groups.time.now_ms())
            by_name = sorted(
                group.seen.items(), key=lambda one: (one[0].name, one[0].principal or "")
            )
            return [replace(member, holds=held.get(taker, 0)) for taker, member in by_name]

    @_retried
    async def open_messages(
        self, topic_id: TopicId, name: str, *, after: bytes | None = None, limit: int = 100
    ) -> Sequence[OpenMessage]:
        """Return open messages after the id `after`, ascending."""
        async with self._held(topic_id, name) as group:
            self._takes.end_leases(group)
            now_ms = self._groups.time.now_ms()
            messages: list[OpenMessage] = []
            for message_id in group.commands.state.open:
                if len(messages) >= limit:
                    break
                if after is None or message_id > after:
                    messages.append(open_message_shown(group, message_id, now_ms))
            return messages

    # -- interventions of operators

    @_retried
    async def skip(self, topic_id: TopicId, name: str, ids: Sequence[bytes]) -> int:
        """Settle open messages, even leased ones; return how many there were."""
        check_ids(ids)
        async with self._held(topic_id, name) as group:

            def act(commands: GroupCommands, now_ms: int) -> int:
                return commands.skip(ids, now_ms)

            count: int = await self._writer.submit(GroupIntervention(group, self._groups, act))
            return count

    @_retried
    async def take_back(
        self,
        topic_id: TopicId,
        name: str,
        ids: Sequence[bytes] = (),
        *,
        member: str | None = None,
        failed: bool = False,
    ) -> int:
        """Take leased messages back from their members; return how many."""
        check_ids(ids)
        async with self._held(topic_id, name) as group:

            def act(commands: GroupCommands, now_ms: int) -> int:
                return commands.take_back(ids, member, now_ms, failed=failed)

            count: int = await self._writer.submit(GroupIntervention(group, self._groups, act))
            return count

    # -- dead letters

    @_retried
    async def dead_letters(
        self, topic_id: TopicId, name: str, *, after: bytes | None = None, limit: int = 100
    ) -> DeadLetters:
        """Return unhandled dead letters after the id `after`."""
        async with self._held(topic_id, name) as group:
            return await self._dead_letters.listed(group, after, min(limit, REDRIVEN_MAX))

    @_retried
    async def letter_of(
        self, topic_id: TopicId, name: str, message_id: bytes
    ) -> tuple[DeadLetter, bool] | None:
        """Return the last dead letter of a message, and whether it was redriven or dropped."""
        async with self._held(topic_id, name) as group:
            return await self._dead_letters.letter_of(group, message_id)

    @_retried
    async def redrive(
        self,
        topic_id: TopicId,
        name: str,
        ids: Sequence[bytes] | None = None,
        *,
        after: bytes | None = None,
        limit: int = 100,
        publish: bool = False,
    ) -> Redriven:
        """Reopen the messages of dead letters, or publish them again."""
        check_ids(ids or (), REDRIVEN_MAX)
        async with self._held(topic_id, name) as group:
            return await self._dead_letters.redrive(group, ids, after, limit, publish=publish)

    @_retried
    async def drop_dead_letters(self, topic_id: TopicId, name: str, ids: Sequence[bytes]) -> int:
        """Mark dead letters as handled and do nothing else; return how many there were."""
        check_ids(ids, REDRIVEN_MAX)
        async with self._held(topic_id, name) as group:
            return await self._dead_letters.drop(group, ids)

    # -- taking and settling

    async def take(
        self,
        topic_id: TopicId,
        name: str,
        take: Take,
        *,
        wait_s: float = 0,
        caller: Caller = ANYBODY,
    ) -> Taken:
        """Lease messages to a member; wait up to `wait_s` seconds for the first one."""
        taker = Taker(check_member(take.member), caller.principal)
        check_take(take, wait_s)
        settled = None
        if take.settle != NO_SETTLE:
            settled = await self.settle(topic_id, name, take.member, take.settle, caller=caller)
        try:
            taken = await self._take(topic_id, name, take, taker, wait_s)
        except Unavailable:
            # A repeated settle would be refused. If all of it was refused, the take may be a
            # repeated one, whose messages the member holds.
            if settled is None or (settled.refused and not settled.settled):
                raise
            taken = Taken()
        return taken if settled is None else taken.with_settled(settled)

    async def _take(
        self, topic_id: TopicId, name: str, take: Take, taker: Taker, wait_s: float
    ) -> Taken:
        deadline = monotonic() + min(wait_s, self._limits.poll_wait_s_max)
        is_anew = take.anew
        while True:
            try:
                async with self._held(topic_id, name) as group:
                    now_ms = self._groups.time.now_ms()
                    group.saw(taker, now_ms)
                    if is_anew:
                        group.commands.release_all(taker, now_ms)
                        self._groups.edited(group)
                        is_anew = False
                    taken = await self._takes.take(group, take, taker, deadline - monotonic())
            except GroupLeftMemory:
                continue
            if taken is not None:
                if taken.limited_by is not None:
                    group.commands.counts.limited += 1
                return taken

    async def settle(
        self, topic_id: TopicId, name: str, member: str, settle: Settle, *, caller: Caller = ANYBODY
    ) -> Settled:
        """Acknowledge, fail, release or extend; only an extension is not durable then."""
        taker = Taker(check_member(member), caller.principal)
        check_settle(settle)
        while True:
            try:
                async with self._held(topic_id, name) as group:
                    group.saw(taker, self._groups.time.now_ms())
                    if not (settle.acks or settle.nacks or settle.releases or settle.leave):
                        self._takes.end_leases(group)
                        return group.commands.settle(taker, settle, self._groups.time.now_ms())
                    write = GroupSettle(group, self._groups, taker, settle)
                    done: Settled = await self._writer.submit(write, caller)
                    return done
            except GroupLeftMemory:
                continue

    def carry(
        self, request: CommitRequest, caller: Caller
    ) -> AbstractAsyncContextManager[CarriedAcks] | None:
        """Return the acks that a commit carries (`tms.core.services.commits.Carrier`)."""
        return self._carried(request.acks, caller) if request.acks else None

    @asynccontextmanager
    async def _carried(
        self, acks: Sequence[CommitAcks], caller: Caller
    ) -> AsyncIterator[CarriedAcks]:
        check_commit_acks(acks)
        by_group: dict[tuple[TopicId, str], list[CommitAcks]] = {}
        for ack in acks:
            by_group.setdefault((ack.topic_id, ack.name), []).append(ack)
        async with AsyncExitStack() as held:
            parts = [
                (await held.enter_async_context(self._held(*place)), ack)
                for place, ack in by_group.items()
            ]
            yield CarriedAcks(self._groups, parts, caller.principal)

    # -- helpers

    def _held(self, topic_id: TopicId, name: str) -> HeldGroup:
        return HeldGroup(self._groups, topic_id, check_subscription_name(name))

    def _through(self, state: TopicState, to: Position) -> bytes | None:
        """Return the id after which the group continues. Raises `InvalidRequest`.

        A time far after both the present and the newest message is refused. It is a mistake, such
        as a time in microseconds: the group would get nothing until then.
        """
        last = state.last_key
        if to is SeekTo.START:
            return None
        if to is SeekTo.END:
            return None if last is None else last + NO_PAYLOAD_KEY
        now_ms = self._engine.clock.keys_ms()
        most_ms = max(now_ms + _AHEAD_MS_MAX, 0 if last is None else published_ms(last))
        if isinstance(to, bytes):
            if published_ms(check_id(to)) > most_ms:
                raise InvalidRequest("invalid_group", after=to.hex(), now_ms=now_ms)
            return to
        assert isinstance(to, int)
        if not 0 <= to <= most_ms:
            raise InvalidRequest("invalid_group", time_ms=to, now_ms=now_ms)
        return id_before(first_id_at(to)) if to else None

    def stop_waiting(self) -> None:
        """Answer the waiting takes now; later takes do not wait."""
        self._takes.stop_waiting()

    async def close(self) -> None:
        """Write the edits of takes, and forget the groups; the writer must still be open."""
        self.stop_waiting()
        await self._groups.close()
