"""How one publish sends messages to a topic: at once or buffered, with or without a transaction."""

from datetime import datetime
from typing import NamedTuple

from tms.client.groups.client_parts import write_pointer_of
from tms.client.reading.poll import Tx
from tms.client.reading.start import IfLast, id_or_ms, last_id_of
from tms.core.services.messaging import NO_IDS, Messaging, Published
from tms.core.text.durations import Duration, seconds_of
from tms.core.values.schedules import DeliveryTime
from tms.core.values.topic import TopicId
from tms.core.values.transaction import Transaction


class Publishing(NamedTuple):
    """The options of a publish that do not concern its messages."""

    tx: Tx | None
    last_id: bytes | None
    is_buffered: bool

    @classmethod
    def of(cls, tx: Tx | None, if_last: IfLast | None, *, buffer: bool) -> "Publishing":
        """Check the options. Raises `ValueError`, and as `last_id_of`."""
        if buffer and tx is None:
            raise ValueError("buffer=True is for the messages of a transaction: give tx")
        if buffer and if_last is not None:
            raise ValueError("if_last is checked when messages are published, not buffered")
        return cls(tx, None if if_last is None else last_id_of(if_last), buffer)

    async def send(
        self, messaging: Messaging, topic_id: TopicId, payloads: list[bytes]
    ) -> Published:
        """Send the bodies of messages."""
        tx = self.tx
        if self.is_buffered and tx is not None:
            await store(messaging, topic_id, payloads, tx)
            return NO_IDS
        if tx is None or isinstance(tx, int | Transaction):
            pointer = None if tx is None else write_pointer_of(tx)
            return await messaging.publish(topic_id, payloads, pointer, if_last=self.last_id)
        return await tx.gathered.messages.publish(messaging, topic_id, payloads, self.last_id)


def delivery_of(at: int | datetime | None, after: Duration | None) -> DeliveryTime:
    """Return when to publish. Raises `ValueError` unless one is given, and as `id_or_ms`."""
    if (at is None) == (after is None):
        raise ValueError("give either at or after")
    if after is not None:
        return DeliveryTime(after_s=seconds_of(after))
    if not isinstance(at, int | datetime):
        raise TypeError(f"{at!r} is not a time in ms or a datetime")
    at_ms = id_or_ms(at)
    assert isinstance(at_ms, int)
    return DeliveryTime(at_ms=at_ms)


async def store(messaging: Messaging, topic_id: TopicId, payloads: list[bytes], tx: Tx) -> None:
    """Store the bodies of messages, to be published later."""
    if isinstance(tx, int | Transaction):
        await messaging.store(topic_id, payloads, write_pointer_of(tx))
    else:
        await tx.gathered.messages.store(messaging, topic_id, payloads)
