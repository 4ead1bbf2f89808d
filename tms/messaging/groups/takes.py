"""Takes: they lease messages in memory; takes that get nothing wait, and are served in order.

One task of a group serves its waiting takes in the order in which they arrived, whenever something
changes. Each gets its share of the messages. If its caller has gone, the messages leased to it are
released. A take that is repeated while the first one still waits replaces it. Messages that no
longer exist are settled and skipped. Before it delivers messages, a take checks this server's
lease: it writes nothing at once that the store could refuse.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tms.core.errors import TmsError, TransactionsElsewhere
from tms.core.runtime.shared_work import shared
from tms.core.runtime.shares import share_of
from tms.core.services.messaging import Page
from tms.core.values.groups import TAKE_MESSAGES_MAX, LimitedBy, Releases, Settle, Take, Taken
from tms.core.values.message import first_id_at
from tms.core.values.reading import Reading
from tms.messaging.groups.feed import AtHand, Fed, ReadPage, bodies_of, read_on
from tms.messaging.groups.loaded import LoadedGroups
from tms.messaging.groups.loaded_group import LoadedGroup, WaitingTake
from tms.messaging.groups.open_entries import Taker
from tms.messaging.loaded_topics import TopicState
from tms.messaging.reader import Reader
from tms.messaging.store_runtime import StoreRuntime
from tms.transactions.journal import TransactionJournal


class CommittedReader:
    """Reads committed messages."""

    def __init__(self, engine: StoreRuntime, transactions: TransactionJournal | None) -> None:
        self._transactions = transactions
        self._clock = engine.clock
        self._reader = Reader(
            engine.tables, engine.threads, engine.clock, engine.limits, engine.metrics
        )

    async def read(self, state: TopicState, reading: Reading) -> Page:
        """Return a page of committed messages."""
        transactions = self._transactions
        if transactions is None:
            raise TransactionsElsewhere
        # A group passes and settles what it does not find, so this finds all that is not deleted.
        expiry_ms = self._clock.deletion_ms()
        page = await self._reader.page(state, reading, transactions.latest(), expiry_ms)
        if page.stopped_at is None:
            return page
        return replace(page, stopped_at=transactions.id_of(page.stopped_at))


class Takes:
    """The takes of all groups of one store."""

    def __init__(self, engine: StoreRuntime, groups: LoadedGroups, read: ReadPage) -> None:
        self._engine = engine
        self._limits = engine.limits
        self._groups = groups
        self._read = read
        self.is_stopping = False

    def end_leases(self, group: LoadedGroup) -> None:
        """Fail the messages whose leases have ended."""
        group.check_current()
        self._groups.end_leases(group)

    async def take(
        self, group: LoadedGroup, take: Take, taker: Taker, left_s: float
    ) -> Taken | None:
        """Lease messages, and wait up to `left_s` seconds for the first one.

        Return None if the group must be looked up again.
        """
        if take.sequence is None:
            return await self._take(group, take, taker, left_s)
        place = taker, take.sequence
        while (earlier := group.repeatable.get(place)) is not None:
            for waiting in group.waiting:
                if (waiting.taker, waiting.take.sequence) == place and not waiting.served.done():
                    waiting.served.set_result(Taken())
            await shared(earlier)
        over = group.repeatable[place] = asyncio.get_running_loop().create_future()
        try:
            return await self._take(group, take, taker, left_s)
        finally:
            del group.repeatable[place]
            over.set_result(None)

    async def _take(
        self, group: LoadedGroup, take: Take, taker: Taker, left_s: float
    ) -> Taken | None:
        number = group.commands.repeated(taker, take.sequence)
        if number is not None:
            taken = await self.again(group, number)
        elif group.waiting and left_s > 0:
            taken = Taken()  # the waiting takes come first
        else:
            taken = await self.serve(group, take, taker, take.messages)
        if taken.delivery is None and left_s > 0 and not self.is_stopping:
            return await self._wait(group, take, taker, left_s)
        return taken

    async def _wait(
        self, group: LoadedGroup, take: Take, taker: Taker, left_s: float
    ) -> Taken | None:
        """Wait until the take is served; return None if the group must be looked up again."""
        waiting = WaitingTake(taker, take)
        group.waiting.append(waiting)
        if group.attendant is None:
            group.attendant = self._groups.start(self._attend(group))
        else:
            group.ring()
        try:
            async with asyncio.timeout(left_s):
                return await shared(waiting.served)
        except TimeoutError:
            if waiting.served.done():
                return waiting.served.result()
            waiting.is_gone = True
            return waiting.short
        except asyncio.CancelledError:
            self._give_back(group, waiting)
            raise
        finally:
            with suppress(ValueError):
                group.waiting.remove(waiting)

    def _give_back(self, group: LoadedGroup, waiting: WaitingTake) -> None:
        """Release the messages that were leased to a caller that has gone."""
        served = waiting.served
        taken = served.result() if served.done() and not served.exception() else None
        waiting.is_gone = True
        if taken is not None and taken.delivery is not None:
            self._release(group, waiting.taker, taken.delivery)

    def _release(self, group: LoadedGroup, taker: Taker, delivery: int) -> None:
        released = Settle(releases=[Releases(delivery)])
        group.commands.settle(taker, released, self._groups.time.now_ms())
        self._groups.edited(group)
        group.ring()

    async def _attend(self, group: LoadedGroup) -> None:
        """Serve the waiting takes in order, whenever something changes."""
        try:
            while group.waiting and not group.is_dropped:
                group.bell = group.state.next_change()
                try:
                    await self._serve_waiting(group)
                    self._groups.ring_next()
                    if self.is_stopping or not group.waiting or group.is_dropped:
                        break
                    self._groups.arm(group)
                    await group.bell
                finally:
                    group.state.forget_waiter(group.bell)
                    self._groups.short_of_room.pop(group, None)
            for waiting in group.waiting:
                if not waiting.served.done():
                    waiting.served.set_result(waiting.short if self.is_stopping else None)
        except TmsError as error:
            for waiting in group.waiting:
                if not waiting.served.done():
                    waiting.served.set_exception(error.with_traceback(None))
        finally:
            group.attendant = None

    async def _serve_waiting(self, group: LoadedGroup) -> None:
        fed = await self._read_for_waiting(group) if len(group.waiting) > 1 else None
        for waiting in tuple(group.waiting):
            if waiting.served.done() or waiting.is_gone:
                continue
            free = len(group.commands.state.open) - group.commands.state.leased
            is_last = len(group.waiting) == 1
            share = waiting.take.messages if is_last else max(1, free // len(group.waiting))
            limit = min(waiting.take.messages, share)
            taken = await self.serve(group, waiting.take, waiting.taker, limit, fed)
            if taken.delivery is None:
                waiting.short = taken
                if taken.limited_by is LimitedBy.MEMBER_MAX:
                    continue
                return
            if waiting.served.done() or waiting.is_gone:
                self._release(group, waiting.taker, taken.delivery)
            else:
                waiting.served.set_result(taken)
                group.waiting.remove(waiting)

    async def _read_for_waiting(self, group: LoadedGroup) -> Fed | None:
        """Read as many messages as the waiting takes ask for, so that each gets its share."""
        count = min(sum(waiting.take.messages for waiting in group.waiting), TAKE_MESSAGES_MAX)
        free = len(group.commands.state.open) - group.commands.state.leased
        if free >= count or group.commands.settings.paused:
            return None
        return await self._feed(group, count - free)

    async def serve(
        self, group: LoadedGroup, take: Take, taker: Taker, limit: int, fed: Fed | None = None
    ) -> Taken:
        """Lease up to `limit` messages to a member, if there are any.

        `fed` are the messages that were just read for this take and others.
        """
        while True:
            self.end_leases(group)
            if group.commands.settings.rate:
                taken = await self._serve_at_rate(group, take, taker, limit, fed)
            else:
                taken = await self._serve_once(group, take, taker, limit, fed)
            if taken is not None:
                return taken
            fed = None
            await self._drop_gone(group)

    async def _serve_at_rate(
        self, group: LoadedGroup, take: Take, taker: Taker, limit: int, fed: Fed | None
    ) -> Taken | None:
        """Serve a take like `_serve_once`, within the rate of its group."""
        commands = group.commands
        count = min(limit, commands.room(taker))
        if commands.settings.paused or count <= 0:
            return await self._serve_once(group, take, taker, limit, fed)  # which says why
        allowed = commands.pace.allow(commands.settings.rate, count, self._groups.time.now_ms())
        if not allowed:
            return Taken(limited_by=LimitedBy.RATE)
        unused = allowed
        try:
            taken = await self._serve_once(group, take, taker, allowed, fed)
            if taken is not None and taken.delivery is not None:
                unused -= commands.state.deliveries[taken.delivery].held_count
        finally:
            commands.pace.take_less(unused, self._groups.time.now_ms())
        if taken is None or unused or allowed == count:
            return taken
        return replace(taken, limited_by=LimitedBy.RATE, stopped_at=None)

    async def _serve_once(
        self, group: LoadedGroup, take: Take, taker: Taker, limit: int, fed: Fed | None
    ) -> Taken | None:
        """Serve a take; return None if its messages no longer exist and later ones may."""
        commands = group.commands
        if commands.settings.paused:
            return Taken(limited_by=LimitedBy.PAUSED)
        requested, limit = limit, min(limit, commands.room(taker))
        if limit <= 0:
            return Taken(limited_by=LimitedBy.MEMBER_MAX)
        now_ms = self._groups.time.now_ms()
        reserved = commands.reserve(limit, now_ms)
        try:
            if len(reserved.ids) < limit and fed is None:
                before = len(reserved.ids)
                fed = await self._feed(group, limit - before)
                more = commands.reserve(limit - before, now_ms)
                reserved = commands.joined(reserved, more)
            ids = commands.still_open(reserved)
            if not ids:
                return None if self._groups.expire(group) else self._short(group, taker, fed)
            bytes_max = min(
                take.bytes_max or self._limits.take_bytes_default, self._limits.take_bytes_max
            )
            bodies = await bodies_of(group, self._read, ids, bytes_max, self._at_hand(group, fed))
            group.check_current()
            self._groups.check_open()
            if self._engine.lease is not None:
                self._engine.lease.check()
            commands.gone(bodies.gone, now_ms)
            if bodies.gone or commands.still_open(reserved)[: len(bodies.ids)] != list(bodies.ids):
                return None  # the group was moved, or some were acknowledged or are gone
            lease_s = take.lease_s or commands.settings.lease_s
            number = commands.lease(
                reserved,
                bodies.ids,
                taker,
                lease_ms=lease_s * 1000,
                sequence=take.sequence,
                now_ms=now_ms,
            )
            reserved = commands.joined()
        finally:
            if not group.is_dropped:
                commands.give_up(reserved)
            self._groups.edited(group)
        attempts: Sequence[int] = [commands.state.open[e].attempts + 1 for e in bodies.ids]
        retried = len(attempts) - attempts.count(1)
        if retried:
            commands.counts.retried += retried
        short = Taken()
        if len(bodies.ids) == len(ids) < requested:
            short = self._short(group, taker, fed)
        return Taken(
            number,
            lease_s,
            bodies.blocks,
            attempts if retried else (),
            short.limited_by,
            short.stopped_at,
        )

    async def _drop_gone(self, group: LoadedGroup) -> None:
        """Settle those of the next messages that no longer exist."""
        await self._groups.expire_all(group)
        commands, now_ms = group.commands, self._groups.time.now_ms()
        reserved = commands.reserve(TAKE_MESSAGES_MAX, now_ms)
        try:
            ids = commands.still_open(reserved)
            if ids:
                at_hand, bytes_max = self._at_hand(group, None), self._limits.take_bytes_max
                bodies = await bodies_of(group, self._read, ids, bytes_max, at_hand)
                group.check_current()
                commands.gone(bodies.gone, now_ms)
        finally:
            if not group.is_dropped:
                commands.give_up(reserved)
            self._groups.edited(group)
            group.ring()

    async def again(self, group: LoadedGroup, number: int) -> Taken:
        """Return the messages of a delivery again that its member still holds."""
        delivery = group.commands.state.deliveries[number]
        ids = group.commands.state.ids_of(number)
        bytes_max, at_hand = self._limits.take_bytes_max, self._at_hand(group, None)
        bodies = await bodies_of(group, self._read, ids, bytes_max, at_hand)
        attempts = [
            opened.attempts + 1
            for message_id in bodies.ids
            if (opened := group.commands.state.open.get(message_id)) is not None
        ]
        left_s = max(0, delivery.end_ms - self._groups.time.now_ms()) / 1000
        return Taken(number, left_s, bodies.blocks, attempts)

    async def _feed(self, group: LoadedGroup, count: int) -> Fed:
        async with group.reading:
            mine = len(group.commands.state.open)
            room = share_of(self._limits.groups_open_max, mine, self._groups.open_count - mine)
            fed = await read_on(group, self._read, count, room, self._groups.time.now_ms())
        if fed.is_cut:
            group.ring()  # waiting takes continue
        if fed.limited_by is LimitedBy.SERVER and group.attendant is not None:
            self._groups.short_of_room[group] = None
        return fed

    def _at_hand(self, group: LoadedGroup, fed: Fed | None) -> AtHand:
        clock = self._engine.clock
        deleted_ms = max(clock.expiry_ms(), clock.deleted_ms)  # the clock may have gone back
        oldest = first_id_at(group.state.topic.first_live_ms(deleted_ms))
        return AtHand(fed, oldest, self._groups.time.now_ms())

    def _short(self, group: LoadedGroup, taker: Taker, fed: Fed | None) -> Taken:
        """Return an answer without messages that says why."""
        if fed is not None and fed.limited_by is not None:
            return Taken(limited_by=fed.limited_by, stopped_at=fed.stopped_at)
        return Taken(limited_by=group.commands.short_because(taker))

    def stop_waiting(self) -> None:
        """Answer the waiting takes now; later takes do not wait."""
        self.is_stopping = True
        for group in self._groups.loaded:
            group.ring()
