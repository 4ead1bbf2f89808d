"""The bodies of transactions and subscriptions with examples, for the OpenAPI document."""

from api.openapi.parts import (
    NEXT_POINTERS,
    READ_POINTER,
    TIMESTAMP,
    WRITE_POINTER,
    json_content,
    parameter,
    query_choice,
    query_flag,
    query_text,
)
from api.openapi.structs import one_field_of, schemas_of
from tms.core.limits import NAME_CHARS_MAX
from tms.core.services.transactions import TransactionStatus
from tms.core.values.owners import OWNERS_LISTED, OWNERS_LISTED_MAX
from tms.wire.json_fields import COUNT, ID_EXAMPLE, Json, one_of, reference
from tms.wire.json_reports import InfoBody, OneInfoBody, OwnerBody, SizeBody
from tms.wire.json_subscriptions import MoveBody, SubscriptionBody
from tms.wire.json_transactions import (
    ChangesBody,
    CommitBody,
    EndedBody,
    StartBody,
    StartedBody,
    TruncatedBody,
    TruncationBody,
)

_REQUESTS = schemas_of(
    {
        "StartRequest": StartBody,
        "CanCommitRequest": ChangesBody,
        "CommitRequest": CommitBody,
        "TruncateRequest": TruncationBody,
        "AdvanceRequest": MoveBody,
    },
    answered=False,
)
_ANSWERS = schemas_of(
    {
        "StartedTransaction": StartedBody,
        "TransactionInfo": InfoBody,
        "OneTransaction": OneInfoBody,
        "EndedTransaction": EndedBody,
        "TruncateResponse": TruncatedBody,
        "Subscription": SubscriptionBody,
        "InvalidSize": SizeBody,
        "TransactionOwner": OwnerBody,
    },
    answered=True,
)
SCHEMAS: Json = {
    **_REQUESTS,
    **_ANSWERS,
    "TruncateRequest": one_field_of(_REQUESTS["TruncateRequest"]),
    "AnySubscription": {
        **one_of(reference("Subscription"), reference("Group")),
        "discriminator": {
            "propertyName": "kind",
            "mapping": {
                "single": "#/components/schemas/Subscription",
                "shared": "#/components/schemas/Group",
            },
        },
    },
}

_INFO_EXAMPLE = {
    "transaction_id": WRITE_POINTER,
    "status": "in_progress",
    "type": "short",
    "write_pointers": [WRITE_POINTER],
    "started_ms": TIMESTAMP,
    "age_ms": 1200,
    "expires_ms": TIMESTAMP + 30_000,
    "ends_in_ms": 28_800,
    "client": "billing-7",
    "owner": None,
    "sequence": None,
    "topics": ["default:orders"],
    "principal": None,
}
_SUBSCRIPTION_EXAMPLE = {"name": "billing", "after": ID_EXAMPLE, "version": 7, "kind": "single"}

START_CONTENT = json_content(
    reference("StartRequest"),
    defaults={},
    long={"type": "long", "client": "nightly-job"},
    once={"owner": "billing", "sequence": 7, "if_open": "fence", "timeout_s": 60},
)
STARTED_CONTENT = json_content(
    reference("StartedTransaction"),
    started={
        "transaction_id": WRITE_POINTER,
        "write_pointer": WRITE_POINTER,
        "read_pointer": READ_POINTER,
    },
)
CHANGES_CONTENT = json_content(
    reference("CanCommitRequest"), changes={"changes": ["order-17", {"base64": "AP8="}]}
)
COMMIT_CONTENT = json_content(
    reference("CommitRequest"),
    nothing={},
    position={
        "advances": [
            {
                "namespace": "default",
                "topic": "orders",
                "subscription": "billing",
                "after": ID_EXAMPLE,
                "expected_version": 7,
            }
        ]
    },
    stored={
        "publish": [
            {"namespace": "default", "topic": "orders", "write_pointer": NEXT_POINTERS[0]},
            {"namespace": "default", "topic": "orders", "write_pointer": NEXT_POINTERS[1]},
        ]
    },
    later={
        "schedule": [
            {
                "namespace": "default",
                "topic": "reminders",
                "messages": ["call back"],
                "deliver_after": 60,
            }
        ]
    },
)
STATUS_CONTENT = json_content(reference("EndedTransaction"), aborted={"status": "aborted"})
INFO_CONTENT = json_content(reference("OneTransaction"), open=_INFO_EXAMPLE)
INFOS_CONTENT = json_content(
    {"type": "array", "items": reference("TransactionInfo")}, one=[_INFO_EXAMPLE]
)
OWNERS_CONTENT = json_content(
    {"type": "array", "items": reference("TransactionOwner")},
    one=[
        {
            "owner": "billing",
            "sequence": 7,
            "transaction_id": WRITE_POINTER,
            "committed_ms": TIMESTAMP,
            "age_ms": 60_000,
            "origin": None,
            "principal": "shop",
        }
    ],
)
SIZE_CONTENT = json_content(reference("InvalidSize"), ten={"size": 10})
TRUNCATE_CONTENT = json_content(
    reference("TruncateRequest"), ids={"ids": [WRITE_POINTER]}, time={"before_ms": TIMESTAMP}
)
TRUNCATED_CONTENT = json_content(reference("TruncateResponse"), one={"truncated": 1})
STATE_CONTENT = {
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
}
POSITION_CONTENT = json_content(
    reference("SubscriptionRequest"),
    oldest={},
    position={"after": ID_EXAMPLE},
    group={"kind": "shared", "order": "key", "time_ms": TIMESTAMP},
)
SUBSCRIPTION_CONTENT = json_content(reference("Subscription"), billing=_SUBSCRIPTION_EXAMPLE)
EITHER_CONTENT = json_content(reference("AnySubscription"), billing=_SUBSCRIPTION_EXAMPLE)
SUBSCRIPTIONS_CONTENT = json_content(
    {"type": "array", "items": reference("Subscription")}, one=[_SUBSCRIPTION_EXAMPLE]
)
MOVE_CONTENT = json_content(
    reference("AdvanceRequest"), position={"after": ID_EXAMPLE, "expected_version": 7}
)
CODEC_PARAMETER = query_flag(
    "codec",
    "Whether the answer has `transaction`, which is large if there are many invalid transactions.",
    default=True,
)
HOME_NAMESPACE = query_text(
    "namespace",
    "The namespace whose topics the transaction uses. It matters if the store has several shards.",
    pattern=f"^[A-Za-z0-9_]{{1,{NAME_CHARS_MAX}}}$",
    default="default",
)
HOME_TOPIC = query_text(
    "topic",
    "A topic that the transaction uses. It matters if the store assigns topics to shards by "
    "their names.",
    pattern=f"^[A-Za-z0-9_-]{{1,{NAME_CHARS_MAX}}}$",
)
STATUS_PARAMETER = query_choice(
    "status",
    (TransactionStatus.IN_PROGRESS, TransactionStatus.INVALID),
    TransactionStatus.IN_PROGRESS,
    "The state of the listed transactions; transactions that are committing are in progress.",
)
LIMIT_PARAMETER = parameter(
    "limit", "The most transactions, oldest first; by default all.", {**COUNT, "minimum": 1}
)
OWNERS_LIMIT_PARAMETER = parameter(
    "limit",
    f"The most owners, oldest commit first; {OWNERS_LISTED_MAX} at most.",
    {**COUNT, "minimum": 1, "default": OWNERS_LISTED},
)
OWNERS_PRINCIPAL_PARAMETER = query_text("principal", "Only the owners of this principal.")
OWNER_PARAMETER = parameter(
    "owner",
    "The owner's name.",
    {"type": "string", "minLength": 1, "maxLength": NAME_CHARS_MAX},
    is_required=True,
)
