"""The parts of a client that its topics use, and the conversion of a topic's arguments."""

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakSet

from tms.client.groups.held_messages import HeldMessages
from tms.client.groups.taking import Takers
from tms.client.reading.half_read import Readers
from tms.client.reading.stops import Stops
from tms.client.reading.topic_values import ClientRecords
from tms.client.transactions.async_transaction import AsyncTransactionContext
from tms.core.services.server_services import Services
from tms.core.text.durations import Duration, whole_seconds_of
from tms.core.values.topic import TTL
from tms.core.values.transaction import Transaction


class ClientParts(NamedTuple):
    """The parts of a client."""

    services: Services
    records: ClientRecords
    stops: Stops
    is_closed: Callable[[], bool]
    begin: Callable[..., AsyncTransactionContext]
    """Makes a transaction, with the arguments of `AsyncClient.transaction`."""
    members: WeakSet[HeldMessages]
    """Members of groups, whose messages are given back when the client is closed."""
    takers: Takers
    readers: Readers


def with_ttl(ttl: Duration | None, properties: dict[str, str | float]) -> dict[str, object]:
    """Return a topic's properties with its ttl in seconds."""
    return {**properties} if ttl is None else {**properties, TTL: whole_seconds_of(ttl)}


def write_pointer_of(tx: Transaction | int) -> int:
    """Return the write pointer of a transaction that another program began."""
    return tx if isinstance(tx, int) else tx.write_pointer
