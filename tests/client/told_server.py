"""A member of a group, in virtual time, and a scripted server."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

import tms
from tests.waiting import passes
from tms.client.groups import held_messages
from tms.client.groups.held_messages import HeldMessages
from tms.client.groups.take_settings import TakeSettings
from tms.core.values.group_settings import Order
from tms.core.values.groups import (
    RefusedMessage,
    Settle,
    Settled,
    Take,
    Taken,
)
from tms.core.values.message import MessageBlock, MessageId
from tms.core.values.topic import TopicId

TOPIC = TopicId("default", "orders")
Held = Callable[..., HeldMessages]


def taken(delivery: int, *numbers: int, key: bytes | None = None, lease_s: float = 60) -> Taken:
    messages = [
        tms.Message(b"%d" % number, key, id=MessageId(1_000_000_000_000, number).encode())
        for number in numbers
    ]
    return Taken(delivery, lease_s, [MessageBlock.of(messages)])


class Server:
    """A scripted server of groups: it returns the given takes, and records settles."""

    def __init__(self, *takes: Taken) -> None:
        self.takes = deque(takes)
        self.settles: list[Settle] = []
        self.refused: list[RefusedMessage] = []
        self.may_settle = anyio.Event()
        self.may_settle.set()
        self.is_away = False
        self.extends_by_s: float | None = None

    async def take(self, topic_id: TopicId, name: str, take: Take, wait_s: float = 0) -> Taken:
        del topic_id, name, take
        if not self.takes:
            await passes(wait_s)
            return Taken()
        return self.takes.popleft()

    async def settle(self, topic_id: TopicId, name: str, member: str, settle: Settle) -> Settled:
        del topic_id, name, member
        await self.may_settle.wait()
        if self.is_away and settle.extend is None:
            raise tms.Unavailable(reason="away")
        self.settles.append(settle)
        lease_s = None if settle.extend is None else self.extends_by_s
        return Settled(len(settle.acks), self.refused, lease_s)


@pytest.fixture
async def held_by(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Held]:
    """Return a function that makes a member in virtual time, which the end of the test closes."""
    monkeypatch.setattr(held_messages, "monotonic", asyncio.get_running_loop().time)
    made: list[HeldMessages] = []

    def member(server: Server, order: Order = Order.NONE, **settings: Any) -> HeldMessages:
        services: Any = SimpleNamespace(groups=server)
        how = TakeSettings(**{"prefetch": 10, "lease_s": None, "hold_s_max": 3600.0, **settings})
        made.append(HeldMessages(services, TOPIC, "billing", order, how, is_closed=lambda: False))
        return made[-1]

    yield member
    for each in made:
        await each.close()
