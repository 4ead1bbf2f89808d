"""Takes of a group: continuously by one member, or once for each call."""

import os
from collections.abc import Awaitable, Callable
from time import monotonic
from weakref import WeakSet

from tms.client.groups.async_group_message import AsyncGroupMessage
from tms.client.groups.held_messages import HeldMessages
from tms.client.groups.take_settings import TakeSettings
from tms.core.services.server_services import Services
from tms.core.values.group_settings import Order
from tms.core.values.groups import Take
from tms.core.values.topic import TopicId


class Taking:
    """The messages of one member, as a `tms.client.reading.half_read.RunSource`."""

    def __init__(self, hold: Callable[[], Awaitable[HeldMessages]]) -> None:
        """Create no member yet."""
        self._hold = hold
        self._held: HeldMessages | None = None

    async def next(self) -> list[AsyncGroupMessage]:
        """Wait for the next message and return it."""
        if self._held is None:
            self._held = await self._hold()
        return [await self._held.next()]

    async def aclose(self) -> None:
        """Give back messages that the program did not get."""
        if self._held is not None:
            await self._held.close()


class OnceTaking(HeldMessages):
    """A member that takes only when called, and extends no leases."""

    async def take_once(self, how: TakeSettings, wait_s: float) -> list[AsyncGroupMessage]:
        """Take by one request; without an answer it is repeated, and returns the same."""
        for ended in self._held.ended(monotonic()):
            self._held.forget(ended)  # an ack may still succeed
        self._sequence += self._under_way is None
        owed = self._take_owed()
        self._under_way = Take(
            self.member, how.prefetch, lease_s=how.lease_s, sequence=self._sequence, settle=owed
        )
        try:
            taken = await self._take(self._under_way, wait_s)
        except BaseException:
            self._owed += (*owed.nacks, *owed.releases)
            raise
        self._under_way = None
        self._tell_limit(taken)
        return self._messages_of(taken)


class Takers:
    """The members of a client that take once: one for each group, and more while they wait."""

    def __init__(
        self, services: Services, members: WeakSet[HeldMessages], is_closed: Callable[[], bool]
    ) -> None:
        """Create no member yet."""
        self._services = services
        self._members = members
        self._is_closed = is_closed
        self._idle: dict[tuple[int, TopicId, str], list[OnceTaking]] = {}
        """By process and group."""

    async def take_once(
        self, topic_id: TopicId, name: str, settings: TakeSettings, wait_s: float
    ) -> list[AsyncGroupMessage]:
        """Take by one request."""
        idle = self._idle.setdefault((os.getpid(), topic_id, name), [])
        held = idle.pop() if idle else self._member(topic_id, name)
        try:
            return await held.take_once(settings, wait_s)
        finally:
            idle.append(held)

    def _member(self, topic_id: TopicId, name: str) -> OnceTaking:
        # The order does not matter here: it takes nothing ahead, and the server says which
        # messages are lost by key.
        held = OnceTaking(
            self._services,
            topic_id,
            name,
            Order.NONE,
            TakeSettings(),
            is_closed=self._is_closed,
        )
        self._members.add(held)
        return held
