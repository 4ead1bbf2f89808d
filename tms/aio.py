"""The client for asyncio: `client = await tms.aio.connect("http://…")`, then as `tms` with `await`.

async with tms.aio.connect("http://127.0.0.1:11015") as client:
    async for message in client.topic("orders").follow():
        print(message.payload)
"""

from tms.client import (
    AsyncClient,
    AsyncGroupMessage,
    AsyncGroupWorker,
    AsyncMessages,
    AsyncSubscription,
    AsyncTopic,
    AsyncTopicGroup,
    AsyncTransactionContext,
)
from tms.client import connect_async as connect

__all__ = [
    "AsyncClient",
    "AsyncGroupMessage",
    "AsyncGroupWorker",
    "AsyncMessages",
    "AsyncSubscription",
    "AsyncTopic",
    "AsyncTopicGroup",
    "AsyncTransactionContext",
    "connect",
]
