"""The bodies of groups with examples, for the OpenAPI document."""

from dataclasses import asdict

from api.openapi.parts import TIMESTAMP, avro_media, json_content, json_media, parameter, query_wait
from api.openapi.structs import one_field_of, schemas_of
from tms.core.values.group_counts import NO_COUNTS
from tms.core.values.group_settings import DEFAULTS
from tms.wire.avro_taken import TAKEN_SCHEMA
from tms.wire.json_dead_letters import (
    DeadLetterBody,
    DeadLettersBody,
    DropBody,
    DroppedBody,
    RedriveBody,
    RedrivenBody,
)
from tms.wire.json_fields import COUNT, ID_EXAMPLE, MESSAGE_ID, Json, one_of, reference
from tms.wire.json_groups import (
    GroupBody,
    GroupChangesBody,
    MemberBody,
    NewGroupBody,
    NewPositionBody,
    OpenBody,
    SeekBody,
)
from tms.wire.json_interventions import ReleaseBody, ReleasedBody, SkipBody, SkippedBody
from tms.wire.json_takes import (
    AcksBody,
    CommitAcksBody,
    NacksBody,
    RefusedBody,
    SettleBody,
    SettledBody,
    SettlePartsBody,
    TakeBody,
    TakenHeadBody,
)
from tms.wire.media_types import AVRO_FRAMES_TYPE

_DELIVERY = TIMESTAMP * 1000
_ANSWERS = schemas_of(
    {
        "Group": GroupBody,
        "Settled": SettledBody,
        "TakenHead": TakenHeadBody,
        "GroupMember": MemberBody,
        "OpenMessage": OpenBody,
        "DeadLetter": DeadLetterBody,
        "DeadLetters": DeadLettersBody,
        "Redriven": RedrivenBody,
        "Dropped": DroppedBody,
        "Skipped": SkippedBody,
        "Released": ReleasedBody,
        "RefusedMessage": RefusedBody,
    },
    answered=True,
)
_HEAD = _ANSWERS.pop("TakenHead")
_REQUESTS = schemas_of(
    {
        "PositionRequest": NewPositionBody,
        "GroupRequest": NewGroupBody,
        "GroupChanges": GroupChangesBody,
        "TakeBody": TakeBody,
        "SettleBody": SettleBody,
        "SeekRequest": SeekBody,
        "RedriveBody": RedriveBody,
        "DropRequest": DropBody,
        "SkipRequest": SkipBody,
        "ReleaseRequest": ReleaseBody,
        "SettleParts": SettlePartsBody,
        "MessagesOfDelivery": AcksBody,
        "FailedMessages": NacksBody,
        "CommitAcks": CommitAcksBody,
    },
    answered=False,
)
_TAKE = _REQUESTS["TakeBody"]
SCHEMAS: Json = {
    **_REQUESTS,
    "GroupRequest": {**_REQUESTS["GroupRequest"], "not": {"required": ["after", "time_ms"]}},
    "SubscriptionRequest": one_of(reference("PositionRequest"), reference("GroupRequest")),
    "TakeBody": {
        **_TAKE,
        "properties": {**_TAKE["properties"], "settle": reference("SettleParts")},
    },
    "SeekRequest": one_field_of(_REQUESTS["SeekRequest"]),
    **_ANSWERS,
    "Taken": {
        **_HEAD,
        "properties": {**_HEAD["properties"], "messages": reference("ConsumeResponse")},
        "required": [*_HEAD["required"], "messages"],
    },
}
_GROUP = {
    "name": "workers",
    "kind": "shared",
    "after": None,
    "version": _DELIVERY,
    "settings": asdict(DEFAULTS),
    "state": {
        "through": ID_EXAMPLE,
        "unread": 0,
        "open": 1,
        "leased": 1,
        "waiting": 0,
        "blocked": 0,
        "oldest_open": ID_EXAMPLE,
        "oldest_s": 1.5,
        "members": 1,
        "dying": 0,
        "limited_by": None,
        "stopped_at": None,
    },
    "counts": {**asdict(NO_COUNTS), "taken": 3, "acked": 2},
}
_HEAD_EXAMPLE: Json = {
    "delivery": _DELIVERY,
    "lease_s": 30.0,
    "limited_by": None,
    "stopped_at": None,
    "attempts": [],
    "settled": 0,
    "refused": [],
}
_ACKS = {"member": "w-1", "acks": [{"delivery": _DELIVERY, "ids": [ID_EXAMPLE]}]}

GROUP_CONTENT = json_content(reference("Group"), workers=_GROUP)
SETTINGS_CONTENT = json_content(
    reference("GroupChanges"), pause={"paused": True}, lease={"lease_s": 60, "expected_version": 7}
)
TAKE_CONTENT = json_content(
    reference("TakeBody"),
    one={"member": "w-1"},
    ten={"member": "w-1", "messages": 10, "sequence": 7},
)
TAKEN_CONTENT = {
    "application/json": json_media(
        reference("Taken"),
        one={
            **_HEAD_EXAMPLE,
            "messages": [{"id": ID_EXAMPLE, "timestamp": TIMESTAMP, "payload": "order 1"}],
        },
        none={**_HEAD_EXAMPLE, "delivery": None, "limited_by": "paused", "messages": []},
    ),
    AVRO_FRAMES_TYPE: avro_media(TAKEN_SCHEMA),
}
SETTLE_CONTENT = json_content(
    reference("SettleBody"),
    ack=_ACKS,
    nack={
        "member": "w-1",
        "nacks": [{"delivery": _DELIVERY, "delay_s": 5.0, "reason": "the printer is out of paper"}],
    },
    extend={"member": "w-1", "extend": []},
)
SETTLED_CONTENT = json_content(reference("Settled"), one={"settled": 1, "refused": []})
MEMBERS_CONTENT = json_content(
    {"type": "array", "items": reference("GroupMember")},
    one=[
        {
            "name": "w-1",
            "principal": None,
            "holds": 1,
            "since_ms": TIMESTAMP,
            "seen_ms": TIMESTAMP + 1000,
        }
    ],
)
OPEN_CONTENT = json_content(
    {"type": "array", "items": reference("OpenMessage")},
    leased=[
        {
            "id": ID_EXAMPLE,
            "attempts": 0,
            "state": "leased",
            "member": "w-1",
            "until_ms": TIMESTAMP + 30_000,
            "last_member": "w-1",
            "reason": None,
        }
    ],
)
SEEK_CONTENT = json_content(
    reference("SeekRequest"),
    start={"after": "start"},
    time={"time_ms": TIMESTAMP},
    id={"after": ID_EXAMPLE},
)
DEAD_LETTERS_CONTENT = json_content(
    reference("DeadLetters"),
    one={
        "dead_letters": [
            {
                "id": ID_EXAMPLE,
                "message_id": ID_EXAMPLE,
                "disposition": "attempts",
                "attempts": 5,
                "reason": "the printer is out of paper",
                "member": "w-1",
                "at_ms": TIMESTAMP,
                "payload": "order 1",
                "key": None,
                "headers": {},
            }
        ],
        "next": None,
    },
)
REDRIVE_CONTENT = json_content(
    reference("RedriveBody"), oldest={"limit": 100}, one={"ids": [ID_EXAMPLE]}
)
REDRIVEN_CONTENT = json_content(
    reference("Redriven"), one={"redriven": 1, "expired": [], "next": None, "limited_by": None}
)
DROP_CONTENT = json_content(reference("DropRequest"), one={"ids": [ID_EXAMPLE]})
SKIP_CONTENT = json_content(reference("SkipRequest"), one={"ids": [ID_EXAMPLE]})
SKIPPED_CONTENT = json_content(reference("Skipped"), one={"skipped": 1})
RELEASE_CONTENT = json_content(
    reference("ReleaseRequest"),
    member={"member": "w-1"},
    one={"ids": [ID_EXAMPLE], "failed": True},
)
RELEASED_CONTENT = json_content(reference("Released"), one={"released": 1})
DROPPED_CONTENT = json_content(reference("Dropped"), one={"dropped": 1})
TAKE_QUERY: tuple[Json, ...] = (
    query_wait("If there is no message, the number of seconds to wait for one."),
)
OPEN_QUERY: tuple[Json, ...] = (
    parameter("after", "Open messages after this id.", MESSAGE_ID, example=ID_EXAMPLE),
    parameter(
        "limit", "The most messages.", {**COUNT, "minimum": 1, "maximum": 1_000}, example=100
    ),
)
