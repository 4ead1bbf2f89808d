"""The messages that one member of a group holds: taken ahead, extended, settled in batches.

One task takes ahead of whoever asks for the next message. One extends all that is held by one
request each third of a lease. What is settled while a request is under way goes with the next one.

A message whose lease has ended by the clock here is not given, and nothing is done with it: the
process may have stood still. By key, a failed message takes the later ones of its key with it, as
the server does. While the server is away all of it waits, and goes on.

Works in one event loop of one process. A child of `os.fork()` raises `RuntimeError`: what was taken
is the parent's.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from anyio import CancelScope, move_on_after

from tms.client.async_group_message import AsyncGroupMessage, Settling
from tms.client.retry import may_pass, repeat
from tms.client.settle_batches import SettleBatches
from tms.core.errors import LeaseLost, TmsError
from tms.core.groups import (
    Acks,
    CommitAcks,
    LimitedBy,
    Nacks,
    Order,
    Refusal,
    Releases,
    Settle,
    Settled,
    Take,
    Taken,
)
from tms.core.services import Services
from tms.core.topic import TopicId

WAIT_S = 20.0
"""How long one take waits for messages; then it asks again."""
EMPTY_S_MIN = 0.1
"""An empty answer that comes sooner is from a server that is stopping: it must not be kept busy."""
CLOSE_S_MAX = 5.0
"""How long the end waits for a server, to give back what is held."""
EXTENDS_PER_LEASE = 3

_log = logging.getLogger("tms.client")


def member_name() -> str:
    """Return a name that no other member has: host, process, and 64 random bits."""
    host = "".join(char if char.isascii() and char.isalnum() else "-" for char in _HOST)
    return f"{host[:64]}:{os.getpid()}:{secrets.token_hex(8)}"


_HOST = socket.gethostname()


@dataclass(frozen=True, slots=True)
class TakeSettings:
    """How a member takes."""

    prefetch: int
    """How many messages are taken ahead."""
    lease_s: int | None
    hold_s_max: float
    one_of_a_key: bool = False
    """Whether a message waits here while an earlier one of its key is worked on."""


@dataclass(slots=True)
class _Delivery:
    """The messages of one take that are held."""

    number: int
    lease_s: float
    end_s: float
    """When the lease ends, by the monotonic clock here."""
    held: dict[bytes, AsyncGroupMessage] = field(default_factory=dict)
    given_s: float | None = None
    """When its first message was given to the program."""
    is_left: bool = False
    """Whether it is extended no more, because a message of it was held for too long."""


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
        self._busy: set[bytes] = set()
        """Keys of messages that are worked on."""
        self._deliveries: dict[int, _Delivery] = {}
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._failure: Exception | None = None
        self._batches = SettleBatches(self._send)
        self._tasks: list[asyncio.Task[None]] = []
        self._limited_by: LimitedBy | None = None

    async def next(self) -> AsyncGroupMessage:
        """Return the next message, when there is one. Raises what a take raises."""
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._run(work)) for work in (self._fetch, self._extend)
            ]
        while True:
            if self._failure is not None:
                raise self._failure
            self._lose_ended()
            for message in self._buffer.values():
                if message.key is None or message.key not in self._busy:
                    return self._give(message)
            self._changed.clear()
            await self._changed.wait()

    def _give(self, message: AsyncGroupMessage) -> AsyncGroupMessage:
        del self._buffer[message.id]
        self._room.set()
        delivery = self._deliveries[message.delivery]
        delivery.given_s = delivery.given_s or monotonic()
        if self._settings.one_of_a_key and self._by_key and message.key is not None:
            self._busy.add(message.key)
        return message

    async def _run(self, work: Callable[[], Any]) -> None:
        """Do one task's work; its error is for whoever asks for the next message."""
        try:
            await work()
        except Exception as error:
            self._failure = error
            self._changed.set()

    # -- taking

    async def _fetch(self) -> None:
        prefetch = self._settings.prefetch
        while True:
            while len(self._buffer) > prefetch // 2:
                self._room.clear()
                await self._room.wait()
            self._sequence += 1
            take = Take(
                self.member,
                prefetch - len(self._buffer),
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

    async def _take(self, take: Take) -> Taken:
        groups = self._services.groups
        return await groups.take(self._topic_id, self._name, take, wait_s=WAIT_S)

    def _goes_on(self, error: BaseException) -> bool:
        return may_pass(error) and not self._is_closed()

    def _hold(self, taken: Taken) -> None:
        number = taken.delivery
        if number is None:
            return
        messages = [message for block in taken.blocks for message in block]
        attempts = taken.attempts or [1] * len(messages)
        delivery = _Delivery(number, taken.lease_s, monotonic() + taken.lease_s)
        for message, attempt in zip(messages, attempts, strict=True):
            held = AsyncGroupMessage(self, message, number, attempt)
            delivery.held[message.id] = self._buffer[message.id] = held
        if delivery.held:
            self._deliveries[number] = delivery
        self._changed.set()

    def _tell_limit(self, taken: Taken) -> None:
        limit = taken.limited_by
        if limit is not None and limit is not self._limited_by:
            at = "" if taken.stopped_at is None else f" {taken.stopped_at}"
            _log.warning(
                "Group %s of %s gives no more now: %s%s",
                self._name,
                self._topic_id,
                limit.value,
                at,
            )
        self._limited_by = limit

    # -- leases

    async def _extend(self) -> None:
        while True:
            leases_s = [each.lease_s for each in self._deliveries.values()]
            await asyncio.sleep(min(leases_s, default=1.0) / EXTENDS_PER_LEASE)
            self._lose_ended()
            now_s = monotonic()
            extended = [each for each in self._deliveries.values() if self._goes_on_with(each)]
            if not extended:
                continue
            numbers = [each.number for each in extended]
            settle = Settle(extend=numbers, lease_s=self._settings.lease_s)
            try:
                settled = await self._send(settle)
            except TmsError as error:
                if not may_pass(error):
                    raise
                continue
            lost = {each.delivery for each in settled.refused}
            for each in extended:
                each.end_s = now_s + each.lease_s
                if each.number in lost:
                    self._lose(each.held.values())

    def _goes_on_with(self, delivery: _Delivery) -> bool:
        """Whether a delivery is extended: no message of it is held for too long."""
        held_s = 0.0 if delivery.given_s is None else monotonic() - delivery.given_s
        if held_s > self._settings.hold_s_max and not delivery.is_left:
            delivery.is_left = True
            _log.warning(
                "Group %s of %s: a message is held for more than %g s, so its lease is not "
                "extended any more: %s",
                self._name,
                self._topic_id,
                self._settings.hold_s_max,
                next(iter(delivery.held.values())),
            )
        return not delivery.is_left

    def _lose_ended(self) -> None:
        """Give up what is not given yet, and whose lease has ended."""
        now_s = monotonic()
        for delivery in list(self._deliveries.values()):
            if delivery.end_s <= now_s:
                self._lose(each for each in delivery.held.values() if each.id in self._buffer)

    def _lose(self, messages: Iterable[AsyncGroupMessage]) -> None:
        for message in list(messages):
            message.settle_as(Settling.LOST)
            self.forget(message)

    def give_up(self, message: AsyncGroupMessage) -> None:
        """Hold it no more, though it may not be settled; nor, by key, the later ones of its key."""
        self._lose_later(message)
        self.forget(message)

    def _lose_later(self, message: AsyncGroupMessage) -> None:
        if self._by_key and message.key is not None:
            later = [each for each in self._buffer.values() if each.key == message.key]
            self._lose(each for each in later if each.id > message.id)

    def forget(self, message: AsyncGroupMessage) -> None:
        """Hold it no more: its lease ends, unless it is settled."""
        if self._buffer.get(message.id) is message:  # not what a later take got
            del self._buffer[message.id]
        delivery = self._deliveries.get(message.delivery)
        if delivery is not None:
            delivery.held.pop(message.id, None)
            if not delivery.held:
                del self._deliveries[message.delivery]
        if message.key is not None:
            self._busy.discard(message.key)
        self._changed.set()
        self._room.set()

    # -- settling

    async def ack(self, message: AsyncGroupMessage) -> None:
        """Acknowledge it. Raises `LeaseLost`."""
        refusal = await self._settle(Acks(message.delivery, [message.id]))
        is_done = refusal in (None, Refusal.SETTLED)  # settled: by a request that was repeated
        message.settle_as(Settling.SETTLED if is_done else Settling.LOST)
        if not is_done:
            self._lose_later(message)
        self.forget(message)
        if refusal is not None and not is_done:
            raise LeaseLost(id=message.id.hex(), delivery=message.delivery, reason=refusal.value)

    async def fail(self, message: AsyncGroupMessage, delay_s: float | None, reason: str) -> None:
        """Have it given again later; by key, give up the later ones of its key."""
        self._lose_later(message)
        await self._return(message, Nacks(message.delivery, [message.id], delay_s, reason))

    async def release(self, message: AsyncGroupMessage) -> None:
        """Give it back; no attempt is counted."""
        await self._return(message, Releases(message.delivery, [message.id]))

    async def _return(self, message: AsyncGroupMessage, part: Nacks | Releases) -> None:
        """Have it given again: by the server, or if that does not answer, by its lease's end."""
        try:
            await self._settle(part)
            message.settle_as(Settling.SETTLED)
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
        """Take no more, and give back what nobody was given."""
        await self._end(self._tasks[:1])
        if self._under_way is not None and os.getpid() == self._pid:
            # It may have been answered all the same: the same again tells.
            with (
                move_on_after(CLOSE_S_MAX),
                suppress(TmsError, RuntimeError),
            ):  # the client is closed
                groups, take = self._services.groups, self._under_way
                self._hold(await groups.take(self._topic_id, self._name, take))
        given_back = list(self._buffer.values())
        self._lose(given_back)
        await self._give_back(
            Settle(releases=[Releases(each.delivery, [each.id]) for each in given_back])
        )

    async def close(self, *, leave: bool = False) -> None:
        """Give back what nobody was given, and extend no more; with `leave`, give all back.

        It is tried for a moment only: leases end by themselves.
        """
        with CancelScope(shield=True):
            await self.stop_taking()
            await self._end(self._tasks)
            if leave:
                for delivery in list(self._deliveries.values()):
                    self._lose(delivery.held.values())
                await self._give_back(Settle(leave=True))

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _give_back(self, settle: Settle) -> None:
        if os.getpid() != self._pid or not (settle.releases or settle.leave):
            return
        with move_on_after(CLOSE_S_MAX):
            try:
                await self._send(settle)
            except (TmsError, RuntimeError) as error:  # the client may be closed
                _log.info("What is held is not given back; its lease ends: %s", error)
