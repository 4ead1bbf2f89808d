"""The deliveries of one member: until when each is leased, and since when each message is held.

Pure: the time is an argument, in seconds of one monotonic clock. A lease belongs to a whole
delivery; the limit on how long a message is held is that message's own.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from tms.client.groups.async_group_message import AsyncGroupMessage

EXTENDS_PER_LEASE = 3


@dataclass(slots=True)
class _Delivery:
    """The messages of one take that are held."""

    lease_s: float
    sent_s: float
    """When the take or the last extension was sent."""
    end_s: float
    """When the lease expires."""
    held: dict[bytes, AsyncGroupMessage] = field(default_factory=dict)


class HeldDeliveries:
    """The deliveries that one member holds."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._deliveries: dict[int, _Delivery] = {}
        self._since: dict[AsyncGroupMessage, float] = {}

    def add(
        self, number: int, lease_s: float, messages: Iterable[AsyncGroupMessage], now_s: float
    ) -> None:
        """Hold the messages of a take that was just answered."""
        held = {message.id: message for message in messages}
        if held:
            self._deliveries[number] = _Delivery(lease_s, now_s, now_s + lease_s, held)
            self._since.update(dict.fromkeys(held.values(), now_s))

    def give(self, message: AsyncGroupMessage, now_s: float) -> None:
        """Record that a message is given to the program."""
        self._since[message] = now_s

    def forget(self, message: AsyncGroupMessage) -> None:
        """Stop holding a message."""
        self._since.pop(message, None)
        delivery = self._deliveries.get(message.delivery)
        if delivery is not None and delivery.held.get(message.id) is message:
            del delivery.held[message.id]
            if not delivery.held:
                del self._deliveries[message.delivery]

    def __contains__(self, message: AsyncGroupMessage) -> bool:
        """Whether a message is held."""
        return message in self._since

    def __len__(self) -> int:
        """Return how many messages are held."""
        return len(self._since)

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the deliveries."""
        return tuple(self._deliveries)

    def messages(self, numbers: Collection[int] | None = None) -> list[AsyncGroupMessage]:
        """Return the messages held of some deliveries; None means all."""
        found = self._deliveries.items()
        return [
            message
            for number, each in found
            if numbers is None or number in numbers
            for message in each.held.values()
        ]

    def ended(self, now_s: float) -> list[AsyncGroupMessage]:
        """Return the messages whose leases have expired."""
        return self.messages(
            [n for n, delivery in self._deliveries.items() if delivery.end_s <= now_s]
        )

    def held_for(self, seconds: float, now_s: float) -> list[AsyncGroupMessage]:
        """Return the messages given to the program, or else taken, more than `seconds` ago."""
        return [message for message, since_s in self._since.items() if now_s - since_s > seconds]

    def extend_s(self, now_s: float) -> float | None:
        """Return the seconds until an extension is due; None if nothing is held."""
        due = (
            delivery.sent_s + delivery.lease_s / EXTENDS_PER_LEASE
            for delivery in self._deliveries.values()
        )
        first_s = min(due, default=None)
        return None if first_s is None else max(0.0, first_s - now_s)

    def extension_sent(self, numbers: Iterable[int], now_s: float) -> None:
        """Record that an extension is sent, whatever its outcome."""
        for number in numbers:
            if number in self._deliveries:
                self._deliveries[number].sent_s = now_s

    def extended(self, numbers: Iterable[int], lease_s: float | None, sent_s: float) -> None:
        """Record that an extension sent at `sent_s` succeeded; without `lease_s`, as before."""
        for number in numbers:
            delivery = self._deliveries.get(number)
            if delivery is not None:
                delivery.lease_s = delivery.lease_s if lease_s is None else lease_s
                delivery.end_s = sent_s + delivery.lease_s
