"""The client library: one client for a server's REST interface or a store in this process.

`tms` and `tms.aio` are its interface; all modules here are private. It imports only `tms.core`,
`tms.wire` and `tms.outgoing`, because it runs in other people's programs; the server's packages are
loaded only by `connect("leveldb:…")` and `connect("memory:")`.
"""

from tms.client.async_client import AsyncClient
from tms.client.client import Client, connect
from tms.client.connecting import connect_async
from tms.client.groups.async_group import AsyncTopicGroup
from tms.client.groups.async_group_message import AsyncGroupMessage, Reject, Retry
from tms.client.groups.async_worker import AsyncGroupWorker
from tms.client.groups.database_recovery import Recovered
from tms.client.groups.group import TopicGroup
from tms.client.groups.group_message import GroupMessage
from tms.client.groups.worker import GroupWorker
from tms.client.namespaces import Namespaces
from tms.client.reading.half_read import AsyncMessages
from tms.client.reading.start import Start
from tms.client.schemas import Schemas
from tms.client.threads.messages import Messages
from tms.client.topics.async_subscription import AsyncSubscription
from tms.client.topics.async_topic import AsyncTopic
from tms.client.topics.subscription import Subscription
from tms.client.topics.topic import Topic
from tms.client.transactions.async_transaction import AsyncTransactionContext
from tms.client.transactions.participants import TransactionAware
from tms.client.transactions.transaction import TransactionContext
from tms.client.transactions.transactions import Transactions

__all__ = [
    "AsyncClient",
    "AsyncGroupMessage",
    "AsyncGroupWorker",
    "AsyncMessages",
    "AsyncSubscription",
    "AsyncTopic",
    "AsyncTopicGroup",
    "AsyncTransactionContext",
    "Client",
    "GroupMessage",
    "GroupWorker",
    "Messages",
    "Namespaces",
    "Recovered",
    "Reject",
    "Retry",
    "Schemas",
    "Start",
    "Subscription",
    "Topic",
    "TopicGroup",
    "TransactionAware",
    "TransactionContext",
    "Transactions",
    "connect",
    "connect_async",
]
