"""The bodies of scheduled messages with examples, for the OpenAPI document."""

from api.openapi.parts import TIMESTAMP, json_content, parameter
from api.openapi.structs import schemas_of
from tms.core.values.schedules import LISTED_DEFAULT, LISTED_MAX
from tms.wire.json_fields import COUNT, TIME, Json, reference
from tms.wire.json_schedules import (
    SCHEDULED_ID,
    CommitScheduleBody,
    ScheduledIdsBody,
    ScheduledMessageBody,
)

SCHEDULED_ID_EXAMPLE = "0000018bcfe568000006105c5d2ee000"
SCHEMAS: Json = schemas_of(
    {"ScheduledIds": ScheduledIdsBody, "ScheduledMessage": ScheduledMessageBody}, answered=True
) | schemas_of({"CommitSchedule": CommitScheduleBody}, answered=False)
SCHEDULED_CONTENT = json_content(
    reference("ScheduledIds"), one={"ids": [SCHEDULED_ID_EXAMPLE], "deliver_at": TIMESTAMP}
)
WAITING_CONTENT = json_content(
    {"type": "array", "items": reference("ScheduledMessage")},
    one=[
        {
            "id": SCHEDULED_ID_EXAMPLE,
            "deliver_at": TIMESTAMP,
            "payload": "order 1",
            "key": None,
            "headers": {},
        }
    ],
)
SCHEDULE_QUERY: tuple[Json, ...] = (
    parameter("deliver_at", "When to publish, in milliseconds since 1970.", TIME),
    parameter(
        "deliver_after",
        "After how many seconds to publish. Give this or `deliver_at`.",
        {"type": "number", "minimum": 0},
        example=60,
    ),
)
WAITING_QUERY: tuple[Json, ...] = (
    parameter("after", "Messages after this one.", SCHEDULED_ID, example=SCHEDULED_ID_EXAMPLE),
    parameter(
        "limit",
        "The most messages.",
        {**COUNT, "minimum": 1, "maximum": LISTED_MAX},
        example=LISTED_DEFAULT,
    ),
)
