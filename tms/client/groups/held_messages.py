"""The messages that one member of a group holds: taken ahead, extended, settled in batches.

One task takes messages ahead of the program. Another extends all held leases by one request each
third of a lease. Settles made while a request is in progress go with the next one.

A message whose lease has expired by this process's clock is dropped before the program gets it: the
process may have been suspended. With order `key`, a failed message takes the later ones of its key
with it, as on the server. While the server is unavailable, everything waits for it.

A message that is held for longer than `hold_s_max` is nacked, and messages taken ahead are given
back if the program requests none for that time; the rest of their deliveries is extended. A nack or
a release without an answer is sent again with the next extension.

Works in one event loop of one process. A child of `os.fork()` raises `RuntimeError`, because the
messages belong to the parent.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any

from anyio import CancelScope, move_on_after

from tms.client.groups.async_group_message import AsyncGroupMessage, Settling
from tms.client.groups.held_deliveries import HeldDeliveries
from tms.client.groups.settle_batches import SETTLED_AT_ONCE_MAX, SettleBatches
from tms.client.groups.take_settings import TakeSettings, member_name
from tms.client.remote.retry import may_pass, repeat
from tms.core.errors import InvalidRequest, LeaseLost, TmsError
from tms.core.runtime.deadlines import without_deadline
from tms.core.services.server_services import Services
from tms.core.values.group_settings import Order
from tms.core.values.groups import (
    TAKE_MESSAGES_MAX,
    Acks,
    CommitAcks,
    LimitedBy,
    Nacks,
    Refusal,
    Releases,
    Settle,
    Settled,
    Take,
    Taken,
)
from tms.core.values.topic import TopicId

WAIT_S = 20.0
"""How long one take waits for messages before the next one."""
EMPTY_S_MIN = 0.1
"""An empty answer sooner than this comes from a server that is stopping; do not keep it busy."""
CLOSE_S_MAX = 5.0
"""How long `close` waits for a server to take messages back."""

_log = logging.getLogger("tms.client")


class HeldMessages:
    """One member, from its first take to `close`. Made in the event loop that uses it."""

    def __init__(
        self,
        services: Services,
        topic_id: TopicId,
        name: str,
        order: Order,
        settings: TakeSettings,
        *,
        is_closed: Callable[[], bool],
    ) -> None:
        """Take nothing yet."""
        self._services = services
        self._topic_id = topic_id
        self._name = name
        self._by_key = order is Order.KEY
        self._settings = settings
        self._is_closed = is_closed
        self.member = member_name()
        self._pid = os.getpid()
        self._sequence = 0
        self._under_way: Take | None = None
        self._buffer: dict[bytes, AsyncGroupMessage] = {}
        self._busy: dict[bytes, AsyncGroupMessage] = {}
        """The message in progress of each key, even after its lease is lost."""
        self._held = HeldDeliveries()
        self._owed: list[Nacks | Releases] = []
        """Nacks and releases that go with the next extension."""
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._leased = asyncio.Event()
        self._asking = 0
        """How many calls of `next` wait."""
        self._is_asked = False
        """Whether the program has requested a message since those taken ahead were given back."""
        self._is_closed_here = False
        self._failure: Exception | None = None
        self._batches = SettleBatches(self._send)
        self._tasks: list[asyncio.Task[None]] = []
        self._limited_by: LimitedBy | None = None
        self._is_dead_letter_known = False
        """Whether the group is known to have a topic of dead letters."""

    async def next(self) -> AsyncGroupMessage:
        """Wait for the next message and return it. Raises the error of a take."""
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._run(work), context=without_deadline())
                for work in (self._fetch, self._extend)
            ]
        self._is_asked = True
        self._asking += 1
        self._room.set()
        try:
            while True:
                if self._failure is not None:
                    raise self._failure
                self._lose_ended()
                for message in self._buffer.values():
                    if message.key is None or message.key not in self._busy:
                        return self._give(message)
                self._changed.clear()
                await self._changed.wait()
        finally:
            self._asking -= 1

    def _give(self, message: AsyncGroupMessage) -> AsyncGroupMessage:
        del self._buffer[message.id]
        self._room.set()
        self._held.give(message, monotonic())
        if self._settings.one_of_a_key and self._by_key and message.key is not None:
            self._busy[message.key] = message
        return message

    def worked(self, message: AsyncGroupMessage) -> None:
        """Allow the next message of its key: the work on it has ended, settled or not."""
        if message.key is not None and self._busy.get(message.key) is message:
            del self._busy[message.key]
            self._changed.set()

    async def _run(self, work: Callable[[], Any]) -> None:
        """Run a background task; the next call of `next` raises its error."""
        try:
            await work()
        except Exception as error:
            self._failure = error
            self._changed.set()

    # -- taking

    async def _fetch(self) -> None:
        while True:
            while not (count := self._wanted()):
                self._room.clear()
                await self._room.wait()
            self._sequence += 1
            take = Take(
                self.member,
                count,
                lease_s=self._settings.lease_s,
                sequence=self._sequence,
            )
            asked_s, self._under_way = monotonic(), take
            taken = await repeat(partial(self._take, take), when=self._goes_on, for_s=None)
            self._under_way = None
            self._hold(taken)
            if taken.delivery is None:
                self._tell_limit(taken)
                if monotonic() < asked_s + EMPTY_S_MIN:
                    await asyncio.sleep(EMPTY_S_MIN)

    def _wanted(self) -> int:
        """Return how many messages are to be taken now."""
        prefetch, here = self._settings.prefetch, len(self._buffer)
        if not prefetch:
            return max(0, min(self._asking, TAKE_MESSAGES_MAX) - here)
        return prefetch - here if self._is_asked and here <= prefetch // 2 else 0

    async def _take(self, take: Take, wait_s: float = WAIT_S) -> Taken:
        groups = self._services.groups
        return await groups.take(self._topic_id, self._name, take, wait_s=wait_s)

    def _goes_on(self, error: BaseException) -> bool:
        return may_pass(error) and not self._is_closed()

    def _hold(self, taken: Taken) -> None:
        held = self._messages_of(taken)
        self._buffer.update((each.id, each) for each in held)
        self._leased.set()
        self._changed.set()

    def _messages_of(self, taken: Taken) -> list[AsyncGroupMessage]:
        number = taken.delivery
        if number is None:
            return []
        messages = [message for block in taken.blocks for message in block]
        attempts = taken.attempts or [1] * len(messages)
        held = [
            AsyncGroupMessage(self, message, number, attempt)
            for message, attempt in zip(messages, attempts, strict=True)
        ]
        self._held.add(number, taken.lease_s, held, monotonic())
        return held

    def _tell_limit(self, taken: Taken) -> None:
        limit = taken.limited_by
        if limit is not None and limit is not self._limited_by:
            at = "" if taken.stopped_at is None else f" {taken.stopped_at}"
            _log.warning(
                "Group %s of %s delivers no more for now: %s%s",
                self._name,
                self._topic_id,
                limit.value,
                at,
            )
        self._limited_by = limit

    # -- leases

    async def _extend(self) -> None:
        while True:
            self._leased.clear()  # a take with a shorter lease may arrive
            with move_on_after(self._held.extend_s(monotonic())):
                await self._leased.wait()
                continue
            self._lose_ended()
            self._leave_what_is_held_too_long()
            numbers = self._held.numbers
            for at in range(0, max(1, len(numbers)), SETTLED_AT_ONCE_MAX):
                await self._extend_once(numbers[at : at + SETTLED_AT_ONCE_MAX])

    async def _extend_once(self, numbers: Sequence[int]) -> None:
        now_s, owed = monotonic(), self._take_owed()
        self._held.extension_sent(numbers, now_s)
        settle = replace(owed, extend=numbers or None, lease_s=self._settings.lease_s)
        if not (numbers or owed.nacks or owed.releases):
            return
        try:
            settled = await self._send(settle)
        except TmsError as error:
            if not may_pass(error):
                raise
            self._owed += (*owed.nacks, *owed.releases)
            return
        self._held.extended(numbers, settled.lease_s, now_s)
        lost = {each.delivery for each in settled.refused if each.id is None}
        self._lose(self._held.messages(lost))

    def _take_owed(self) -> Settle:
        owed = self._owed[:SETTLED_AT_ONCE_MAX]
        del self._owed[:SETTLED_AT_ONCE_MAX]
        return Settle(
            nacks=[each for each in owed if isinstance(each, Nacks)],
            releases=[each for each in owed if isinstance(each, Releases)],
        )

    def _leave_what_is_held_too_long(self) -> None:
        for message in self._held.held_for(self._settings.hold_s_max, monotonic()):
            if self._buffer.get(message.id) is message:
                self._is_asked = False
                continue
            _log.warning(
                "Group %s of %s: a message was held for more than %g s, so its lease is no "
                "longer extended: %s",
                self._name,
                self._topic_id,
                self._settings.hold_s_max,
                message,
            )
            self._lose_later(message)
            reason = f"held for more than {self._settings.hold_s_max:g} s"
            self._owe(Nacks(message.delivery, [message.id], None, reason), message)
        if not self._is_asked:
            for message in list(self._buffer.values()):
                self._owe(Releases(message.delivery, [message.id]), message)

    def _owe(self, part: Nacks | Releases, message: AsyncGroupMessage) -> None:
        """Give it back with the next extension, and stop holding it."""
        self._owed.append(part)
        self.forget(message)

    def _lose_ended(self) -> None:
        """Drop messages that the program does not have yet and whose leases have expired."""
        ended = self._held.ended(monotonic())
        self._lose(each for each in ended if self._buffer.get(each.id) is each)

    def _lose(self, messages: Iterable[AsyncGroupMessage]) -> None:
        for message in list(messages):
            message.settle_as(Settling.LOST)
            self.forget(message)

    def give_up(self, message: AsyncGroupMessage) -> None:
        """Hold it no longer, settled or not; with order `key`, nor later ones of its key."""
        if message in self._held:
            self._lose_later(message)
            self._owe(Releases(message.delivery, [message.id]), message)

    def _lose_later(self, message: AsyncGroupMessage) -> None:
        if self._by_key and message.key is not None:
            later = [each for each in self._buffer.values() if each.key == message.key]
            self._lose(each for each in later if each.id > message.id)

    def forget(self, message: AsyncGroupMessage) -> None:
        """Hold it no longer: its lease expires, unless it is settled."""
        if self._buffer.get(message.id) is message:  # not the one of a later take
            del self._buffer[message.id]
        self._held.forget(message)
        self._changed.set()
        self._room.set()

    # -- settling

    async def ack(self, message: AsyncGroupMessage) -> None:
        """Acknowledge it. Raises `LeaseLost`."""
        refusal = await self._settle(Acks(message.delivery, [message.id]))
        is_done = refusal in (None, Refusal.SETTLED)  # settled: an earlier attempt did it
        message.settle_as(Settling.SETTLED if is_done else Settling.LOST)
        if not is_done:
            self._lose_later(message)
        self.forget(message)
        if refusal is not None and not is_done:
            raise LeaseLost(id=message.id.hex(), delivery=message.delivery, reason=refusal.value)

    async def fail(
        self,
        message: AsyncGroupMessage,
        delay_s: float | None,
        reason: str,
        *,
        dead: bool = False,
    ) -> None:
        """Nack it, or make it a dead letter; drop the later messages of its key."""
        part = Nacks(message.delivery, [message.id], delay_s, reason, dead)
        if dead and not await self._has_dead_letters():
            raise InvalidRequest(
                "invalid_group", dead_letter="", reason="the group has no topic of dead letters"
            )
        self._lose_later(message)
        await self._return(message, part)

    async def _has_dead_letters(self) -> bool:
        """Whether the group has a topic of dead letters, which it keeps once it has one."""
        if not self._is_dead_letter_known:
            group = await self._services.groups.group(self._topic_id, self._name)
            self._is_dead_letter_known = bool(group.settings.dead_letter)
        return self._is_dead_letter_known

    async def release(self, message: AsyncGroupMessage) -> None:
        """Give it back; no attempt is counted."""
        await self._return(message, Releases(message.delivery, [message.id]))

    async def _return(self, message: AsyncGroupMessage, part: Nacks | Releases) -> None:
        """Send a nack or release; if the server does not answer, again with the next extension."""
        try:
            await self._settle(part)
            message.settle_as(Settling.SETTLED)
        except (TmsError, asyncio.CancelledError) as error:
            if not isinstance(error, TmsError) or may_pass(error):
                self._owed.append(part)
            raise
        finally:
            self.forget(message)

    def acks_of(self, message: AsyncGroupMessage) -> CommitAcks:
        """Return what a commit carries of it."""
        self._check_process()
        return CommitAcks(self._topic_id, self._name, self.member, message.delivery, [message.id])

    async def _settle(self, part: Acks | Nacks | Releases) -> Refusal | None:
        self._check_process()
        return await self._batches.settle(part)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("the message was taken before os.fork() and is the parent's")

    async def _send(self, settle: Settle) -> Settled:
        groups = self._services.groups
        return await groups.settle(self._topic_id, self._name, self.member, settle)

    async def stop_taking(self) -> None:
        """Take no more, and give back messages that the program did not get."""
        await self._end(self._tasks[:1])
        if self._under_way is not None and os.getpid() == self._pid:
            # It may have taken messages: the same take again returns them.
            with (
                move_on_after(CLOSE_S_MAX),
                suppress(TmsError, RuntimeError),
            ):  # the client is closed
                groups, take = self._services.groups, self._under_way
                self._hold(await groups.take(self._topic_id, self._name, take))
        given_back = list(self._buffer.values())
        self._lose(given_back)
        self._owed += [Releases(each.delivery, [each.id]) for each in given_back]
        while self._owed:
            await self._give_back(self._take_owed())

    async def close(self, *, leave: bool = False) -> None:
        """Give back unused messages and stop extending leases; with `leave`, give all back.

        It gives up soon, because leases expire anyway. Closing again with `leave` gives back the
        messages kept the first time.
        """
        if os.getpid() != self._pid:
            return
        with CancelScope(shield=True):
            if not self._is_closed_here:
                self._is_closed_here = True
                await self.stop_taking()
                await self._end(self._tasks)
            if leave and (self._held or self._owed):
                self._lose(self._held.messages())
                await self._give_back(Settle(leave=True))

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _give_back(self, settle: Settle) -> None:
        if os.getpid() != self._pid or not (settle.nacks or settle.releases or settle.leave):
            return
        with move_on_after(CLOSE_S_MAX):
            try:
                await self._send(settle)
            except (TmsError, RuntimeError) as error:  # the client may be closed
                _log.info("Cannot give back held messages; their lease will expire: %s", error)
