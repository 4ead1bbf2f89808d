"""TMS: a transactional messaging service.

    client = tms.connect("http://127.0.0.1:11015")
    topic = client.topic("orders")
    topic.publish(b"one")
    for message in topic.poll():
        print(message.id.hex(), message.payload)

The names below are the library's whole interface, with `tms.aio` for asyncio. They are loaded on
first use: the server imports this package too and should not load the client.
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
        Messages,
        Namespaces,
        Recovered,
        Reject,
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
    from tms.core.errors import *
    from tms.core.runtime.deadlines import deadline
    from tms.core.services.commits import CommitRequest, Stored
    from tms.core.services.messaging import AllPublished, Published, RollbackRange
    from tms.core.services.records import Decoding, Record, SchemaText
    from tms.core.services.schemas import RegistryStatus, SchemaReference, SchemaVersion
    from tms.core.services.transactions import (
        IfOpen,
        StartRequest,
        TransactionInfo,
        TransactionStatus,
    )
    from tms.core.values.dead_letters import DeadLetter, Disposition, LetterOrigin
    from tms.core.values.group_settings import GroupOptions, GroupSettings, Order
    from tms.core.values.groups import (
        CommitAcks,
        DeadLetters,
        Group,
        GroupMember,
        GroupState,
        LimitedBy,
        OpenMessage,
        Redriven,
    )
    from tms.core.values.message import Message, MessageId, tombstone
    from tms.core.values.namespaces import Namespace, NamespaceRules, NamespaceSettings
    from tms.core.values.owners import OwnerInfo
    from tms.core.values.ranges import Reach, Split, TopicRange
    from tms.core.values.schedules import CommitSchedule, DeliveryTime, ScheduledMessage
    from tms.core.values.schema_contracts import (
        RuleKind,
        RuleMode,
        SchemaMetadata,
        SchemaRule,
        SchemaRuleSet,
    )
    from tms.core.values.subscriptions import SubscriptionPosition
    from tms.core.values.transaction import Transaction

__version__ = "0.2.0"

__all__ = [
    "AckRefused",
    "AllPublished",
    "AnswerLost",
    "AuthenticationOff",
    "BackupNotFound",
    "BackupRefused",
    "BackupsUnreachable",
    "BadVersion",
    "CheckpointBehind",
    "Client",
    "ClockMoved",
    "CommitAcks",
    "CommitRequest",
    "CommitSchedule",
    "Conflict",
    "CopyRefused",
    "DataLost",
    "DeadLetter",
    "DeadLetters",
    "DebugBusy",
    "Decoding",
    "DeliveryTime",
    "Disposition",
    "FolderUnusable",
    "GrantNotFound",
    "Group",
    "GroupMember",
    "GroupMessage",
    "GroupOptions",
    "GroupSettings",
    "GroupState",
    "GroupWorker",
    "IfOpen",
    "InternalError",
    "InvalidRequest",
    "InvalidTrimTime",
    "InvalidTruncateTime",
    "LeaseLost",
    "LetterOrigin",
    "LimitedBy",
    "LockBusy",
    "Message",
    "MessageId",
    "Messages",
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
    "Redriven",
    "RegistryStatus",
    "Reject",
    "RequestError",
    "Retry",
    "RollbackRange",
    "RollbackRefused",
    "RuleKind",
    "RuleMode",
    "RulesUnavailable",
    "ScheduledMessage",
    "ScheduledNotFound",
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
    "deadline",
    "tombstone",
]

_HOMES = (
    "tms.core.errors",
    "tms.core.runtime.deadlines",
    "tms.core.services.commits",
    "tms.core.values.dead_letters",
    "tms.core.values.group_settings",
    "tms.core.values.groups",
    "tms.core.values.message",
    "tms.core.services.messaging",
    "tms.core.values.namespaces",
    "tms.core.values.owners",
    "tms.core.values.ranges",
    "tms.core.services.records",
    "tms.core.values.schedules",
    "tms.core.values.schema_contracts",
    "tms.core.services.schemas",
    "tms.core.values.subscriptions",
    "tms.core.values.transaction",
    "tms.core.services.transactions",
    "tms.client",
)
"""The modules that define the names, the client last."""


def _close_clients() -> None:
    if "tms.client.threads.program_end" in sys.modules:
        sys.modules["tms.client.threads.program_end"].close_all()


# Registered here, so that functions which a program registers later are called first.
atexit.register(_close_clients)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tms' has no attribute {name!r}")
    if name == "aio":
        return import_module("tms.aio")
    home = next(home for home in map(import_module, _HOMES) if hasattr(home, name))
    globals()[name] = value = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return __all__
