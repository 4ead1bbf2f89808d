"""TMS: a transactional messaging service.

    client = tms.connect("http://127.0.0.1:11015")
    topic = client.topic("orders")
    topic.publish(b"one")
    for message in topic.poll():
        print(message.id.hex(), message.payload)

The names below are the library's whole interface, with `tms.aio` for asyncio. They are loaded when
first used: the server imports this package too and should not pay for the client.
"""

import atexit
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tms import aio as aio
    from tms.client import (
        Client,
        GroupMessage,
        GroupWorker,
        Namespaces,
        Recovered,
        Retry,
        Schemas,
        Subscription,
        Topic,
        TopicGroup,
        TransactionAware,
        TransactionContext,
        Transactions,
        connect,
    )
    from tms.core.commits import CommitRequest, Stored
    from tms.core.errors import *
    from tms.core.groups import (
        CommitAcks,
        Group,
        GroupMember,
        GroupSettings,
        GroupState,
        LimitedBy,
        OpenMessage,
        Order,
    )
    from tms.core.message import Message, MessageId, tombstone
    from tms.core.messaging import AllPublished, Published, RollbackRange
    from tms.core.namespaces import Namespace, NamespaceRules, NamespaceSettings
    from tms.core.owners import OwnerInfo
    from tms.core.ranges import Reach, Split, TopicRange
    from tms.core.records import Decoding, Record, SchemaText
    from tms.core.schema_contracts import (
        RuleKind,
        RuleMode,
        SchemaMetadata,
        SchemaRule,
        SchemaRuleSet,
    )
    from tms.core.schemas import RegistryStatus, SchemaReference, SchemaVersion
    from tms.core.subscriptions import SubscriptionPosition
    from tms.core.transaction import Transaction
    from tms.core.transactions import IfOpen, StartRequest, TransactionInfo, TransactionStatus

__version__ = "0.1.0"

__all__ = [
    "AckRefused",
    "AllPublished",
    "AnswerLost",
    "AuthenticationOff",
    "BadVersion",
    "CheckpointBehind",
    "Client",
    "ClockMoved",
    "CommitAcks",
    "CommitRequest",
    "Conflict",
    "CopyRefused",
    "DataLost",
    "DebugBusy",
    "Decoding",
    "FolderUnusable",
    "GrantNotFound",
    "Group",
    "GroupMember",
    "GroupMessage",
    "GroupSettings",
    "GroupState",
    "GroupWorker",
    "IfOpen",
    "InternalError",
    "InvalidRequest",
    "InvalidTrimTime",
    "InvalidTruncateTime",
    "LeaseLost",
    "LimitedBy",
    "LockBusy",
    "Message",
    "MessageId",
    "MetadataClosed",
    "MetadataUnavailable",
    "Namespace",
    "NamespaceNotDeclared",
    "NamespaceRules",
    "NamespaceSettings",
    "Namespaces",
    "NoLeader",
    "NoMetadataStore",
    "NotAuthenticated",
    "NotPermitted",
    "NotTms",
    "OpenMessage",
    "Order",
    "OtherShard",
    "OutcomeUnknown",
    "OwnerBusy",
    "OwnerElsewhere",
    "OwnerInfo",
    "OwnerNotFound",
    "PathExists",
    "PathHasChildren",
    "PathNotFound",
    "PayloadRefused",
    "PayloadUndecodable",
    "PublicationRefused",
    "Published",
    "QueueFull",
    "RateExceeded",
    "Reach",
    "Record",
    "Recovered",
    "RegistryStatus",
    "RequestError",
    "Retry",
    "RollbackRange",
    "RollbackRefused",
    "RuleKind",
    "RuleMode",
    "RulesUnavailable",
    "SchemaMetadata",
    "SchemaReference",
    "SchemaRefused",
    "SchemaRule",
    "SchemaRuleSet",
    "SchemaText",
    "SchemaVersion",
    "Schemas",
    "SchemasUnavailable",
    "ServerSilent",
    "ServerUnreachable",
    "Split",
    "StartRequest",
    "Stopping",
    "StoreCorrupt",
    "StoreError",
    "StoreFileLost",
    "StoreFormatOld",
    "StoreFormatUnknown",
    "StoreLocked",
    "StoreNotFound",
    "StoreSharded",
    "StoreUnavailable",
    "Stored",
    "Subscription",
    "SubscriptionExists",
    "SubscriptionIsShared",
    "SubscriptionIsSingle",
    "SubscriptionMoved",
    "SubscriptionNotFound",
    "SubscriptionPosition",
    "TmsError",
    "TooLarge",
    "TooManyConnections",
    "TooManyTransactions",
    "Topic",
    "TopicExists",
    "TopicGroup",
    "TopicIsCompact",
    "TopicMoved",
    "TopicNotFound",
    "TopicRange",
    "Transaction",
    "TransactionAware",
    "TransactionConflict",
    "TransactionContext",
    "TransactionDuplicate",
    "TransactionExpired",
    "TransactionInfo",
    "TransactionNotInProgress",
    "TransactionStatus",
    "TransactionUnknown",
    "Transactions",
    "TransactionsElsewhere",
    "Unavailable",
    "ValueUnreadable",
    "__version__",
    "aio",
    "connect",
    "tombstone",
]

_HOMES = {
    "aio": "tms.aio",
    "Client": "tms.client",
    "Namespaces": "tms.client",
    "Recovered": "tms.client",
    "Subscription": "tms.client",
    "Topic": "tms.client",
    "TransactionAware": "tms.client",
    "TransactionContext": "tms.client",
    "Transactions": "tms.client",
    "connect": "tms.client",
    "GroupMessage": "tms.client",
    "Retry": "tms.client",
    "TopicGroup": "tms.client",
    "GroupWorker": "tms.client",
    "CommitAcks": "tms.core.groups",
    "Group": "tms.core.groups",
    "GroupMember": "tms.core.groups",
    "GroupSettings": "tms.core.groups",
    "GroupState": "tms.core.groups",
    "LimitedBy": "tms.core.groups",
    "OpenMessage": "tms.core.groups",
    "Order": "tms.core.groups",
    "Message": "tms.core.message",
    "tombstone": "tms.core.message",
    "MessageId": "tms.core.message",
    "AllPublished": "tms.core.messaging",
    "Published": "tms.core.messaging",
    "RollbackRange": "tms.core.messaging",
    "CommitRequest": "tms.core.commits",
    "Stored": "tms.core.commits",
    "Reach": "tms.core.ranges",
    "Split": "tms.core.ranges",
    "TopicRange": "tms.core.ranges",
    "Decoding": "tms.core.records",
    "Record": "tms.core.records",
    "SchemaText": "tms.core.records",
    "SubscriptionPosition": "tms.core.subscriptions",
    "RegistryStatus": "tms.core.schemas",
    "RuleKind": "tms.core.schema_contracts",
    "RuleMode": "tms.core.schema_contracts",
    "SchemaMetadata": "tms.core.schema_contracts",
    "SchemaRule": "tms.core.schema_contracts",
    "SchemaRuleSet": "tms.core.schema_contracts",
    "SchemaReference": "tms.core.schemas",
    "SchemaVersion": "tms.core.schemas",
    "Schemas": "tms.client",
    "Namespace": "tms.core.namespaces",
    "NamespaceRules": "tms.core.namespaces",
    "NamespaceSettings": "tms.core.namespaces",
    "OwnerInfo": "tms.core.owners",
    "Transaction": "tms.core.transaction",
    "IfOpen": "tms.core.transactions",
    "StartRequest": "tms.core.transactions",
    "TransactionInfo": "tms.core.transactions",
    "TransactionStatus": "tms.core.transactions",
}
"""The module of each name that is not an error."""


def _close_clients() -> None:
    if "tms.client.program_end" in sys.modules:
        sys.modules["tms.client.program_end"].close_all()


# Here, because what a program registers after it has imported this is called before it.
atexit.register(_close_clients)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tms' has no attribute {name!r}")
    home = import_module(_HOMES.get(name, "tms.core.errors"))
    value = home if name == "aio" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
