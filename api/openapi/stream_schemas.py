"""The query and the answer of a stream, for the OpenAPI document."""

from api.openapi.parts import FILTER_PARAMETER, TIMESTAMP, parameter, query_choice, query_wait
from tms.core.values.groups import SeekTo
from tms.wire.event_stream import EVENT_STREAM_TYPE
from tms.wire.json_fields import ID_EXAMPLE, MESSAGE_ID, TIME, Json

STREAM_CONTENT: Json = {
    EVENT_STREAM_TYPE: {
        "schema": {},
        "example": f'id: {ID_EXAMPLE}\ndata: {{"id":"{ID_EXAMPLE}","payload":"hello"}}\n\n',
    }
}
STREAM_QUERY: tuple[Json, ...] = (
    query_choice(
        "start",
        (SeekTo.START, SeekTo.END),
        SeekTo.START,
        "Whether to begin with the oldest message, or after the newest one.",
    ),
    parameter("after", "Begin after this message instead.", MESSAGE_ID),
    parameter(
        "time", "Begin at this time instead, in milliseconds since 1970.", TIME, example=TIMESTAMP
    ),
    query_wait("End after this number of seconds without a message; by default, never."),
    query_choice(
        "isolation",
        ("all", "committed"),
        "all",
        "All messages, or only committed ones, up to the first one that may still commit.",
    ),
    FILTER_PARAMETER,
)
