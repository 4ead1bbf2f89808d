"""The bodies of raw publishes with examples, for the OpenAPI document."""

from api.openapi.parts import json_content, json_media, parameter, query_flag
from api.openapi.schemas import IF_LAST
from tms.wire.cloud_events import BATCH_TYPE, EVENT_TYPE
from tms.wire.json_fields import ID_EXAMPLE, MESSAGE_ID, TEXT, Json
from tms.wire.media_types import NDJSON_TYPE

_EVENT = {
    "specversion": "1.0",
    "id": "17",
    "source": "/shop",
    "type": "shop.order",
    "data": {"order": 17},
}
RAW_CONTENT: Json = {
    "application/json": json_media({}, order={"order": 17}),
    NDJSON_TYPE: {"schema": TEXT, "example": '{"order": 17}\n{"order": 18}\n'},
    "text/plain": {"schema": TEXT, "example": "order 17"},
    EVENT_TYPE: json_media({"type": "object"}, event=_EVENT),
    BATCH_TYPE: json_media({"type": "array", "items": {"type": "object"}}, events=[_EVENT]),
    "application/octet-stream": {"schema": {}},
    "*/*": {"schema": {}},
}
RAW_QUERY: tuple[Json, ...] = (
    parameter("key", "The key of the messages; or give it in the header `TMS-Key`.", TEXT),
    query_flag("split", "Whether each item of the JSON array in the body is a message."),
    IF_LAST,
)
PUBLISHED_IDS_CONTENT = json_content(
    {
        "type": "object",
        "required": ["ids"],
        "properties": {"ids": {"type": "array", "items": MESSAGE_ID}},
    },
    ids={"ids": [ID_EXAMPLE]},
)
