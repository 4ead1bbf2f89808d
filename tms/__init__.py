"""TMS: a transactional messaging service.

    client = tms.connect("http://127.0.0.1:11015")
    topic = client.topic("orders")
    topic.publish(b"one")
    for message in topic.poll():
        print(message.id.hex(), message.payload)

The names below are the library's whole interface, with `tms.aio` for asyncio. They are loaded when
first used: the server imports this package too and should not pay for the client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tms import aio as aio
    from tms.client import Client, Topic, connect
    from tms.core.errors import (
        Conflict,
        InternalError,
        InvalidRequest,
        OutcomeUnknown,
        QueueFull,
        RequestError,
        RollbackRefused,
        ServerUnreachable,
        Stopping,
        StoreCorrupt,
        StoreError,
        StoreFormatUnknown,
        StoreLocked,
        StoreUnavailable,
        TmsError,
        TooLarge,
        TopicExists,
        TopicNotFound,
        TransactionExpired,
        Unavailable,
    )
    from tms.core.message import Message, MessageId
    from tms.core.messaging import RollbackRange
    from tms.core.transaction import Transaction

__version__ = "0.1.0"

__all__ = [
    "Client",
    "Conflict",
    "InternalError",
    "InvalidRequest",
    "Message",
    "MessageId",
    "OutcomeUnknown",
    "QueueFull",
    "RequestError",
    "RollbackRange",
    "RollbackRefused",
    "ServerUnreachable",
    "Stopping",
    "StoreCorrupt",
    "StoreError",
    "StoreFormatUnknown",
    "StoreLocked",
    "StoreUnavailable",
    "TmsError",
    "TooLarge",
    "Topic",
    "TopicExists",
    "TopicNotFound",
    "Transaction",
    "TransactionExpired",
    "Unavailable",
    "__version__",
    "aio",
    "connect",
]

_HOMES = {
    "aio": "tms.aio",
    "Client": "tms.client",
    "Topic": "tms.client",
    "connect": "tms.client",
    "Message": "tms.core.message",
    "MessageId": "tms.core.message",
    "RollbackRange": "tms.core.messaging",
    "Transaction": "tms.core.transaction",
}
"""The module of each name that is not an error."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tms' has no attribute {name!r}")
    home = import_module(_HOMES.get(name, "tms.core.errors"))
    value = home if name == "aio" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
