"""The bodies and queries of ranges as JSON schemas with examples."""

from api.openapi.parts import (
    ID,
    INT64_MAX,
    MESSAGE_ID,
    TEXT,
    TIME,
    TIMESTAMP,
    Json,
    json_media,
    nullable,
    query_choice,
    record,
    reference,
)
from tms.core.limits import NAME_CHARS_MAX
from tms.core.message import FIRST_ID

_TOPIC: Json = {**TEXT, "pattern": f"^[A-Za-z0-9_-]{{1,{NAME_CHARS_MAX}}}$"}
_BYTES: Json = {"type": "integer", "minimum": 0, "maximum": INT64_MAX}
_COUNT: Json = {"type": "integer", "minimum": 1, "maximum": INT64_MAX}
_END: Json = {**MESSAGE_ID, "description": "The position behind it: exclusive."}
_ISOLATION = ("committed", "all")
_LATER = "0000018bcfe56bff0000" + "0" * 20

SCHEMAS: Json = {
    "PositionsRequest": record(
        ("topics",),
        {
            "topics": {"type": "array", "items": _TOPIC},
            "isolation": {"enum": list(_ISOLATION), "default": "committed"},
        },
    ),
    "Positions": record(
        ("topics", "time_ms"),
        {
            "topics": {
                "type": "object",
                "additionalProperties": nullable(
                    record(
                        ("start", "end", "generation", "expired_before"),
                        {
                            "start": {
                                **MESSAGE_ID,
                                "description": "The first message that has not expired, or `end`.",
                            },
                            "end": _END,
                            "generation": {"type": "integer", "minimum": 1},
                            "expired_before": {
                                **MESSAGE_ID,
                                "description": "All before it has expired, nothing behind it.",
                            },
                        },
                    )
                ),
            },
            "time_ms": {**TIME, "description": "The server's clock."},
        },
    ),
    "Splits": record(
        ("ranges",),
        {
            "ranges": {
                "type": "array",
                "items": record(
                    ("start", "end", "bytes"),
                    {
                        "start": MESSAGE_ID,
                        "end": _END,
                        "bytes": {**_BYTES, "description": "About; 0 where that is not known."},
                    },
                ),
            }
        },
    ),
    "Reach": record(
        ("end", "messages", "bytes"), {"end": _END, "messages": _BYTES, "bytes": _BYTES}
    ),
}

RANGES_ASKED_CONTENT = {
    "application/json": json_media(
        reference("PositionsRequest"),
        committed={"topics": ["orders", "payments"]},
        all={"topics": ["orders"], "isolation": "all"},
    )
}
RANGES_CONTENT = {
    "application/json": json_media(
        reference("Positions"),
        positions={
            "topics": {
                "orders": {"start": ID, "end": _LATER, "generation": 1, "expired_before": ID},
                "payments": None,
            },
            "time_ms": TIMESTAMP + 1000,
        },
    )
}
SPLITS_CONTENT = {
    "application/json": json_media(
        reference("Splits"), one={"ranges": [{"start": ID, "end": _LATER, "bytes": 1000}]}
    )
}
REACH_CONTENT = {
    "application/json": json_media(
        reference("Reach"), some={"end": _LATER, "messages": 10, "bytes": 1000}
    )
}


def _position(name: str, description: str, example: str) -> Json:
    return {
        "name": name,
        "in": "query",
        "required": True,
        "description": description,
        "schema": MESSAGE_ID,
        "example": example,
    }


def _bound(name: str, description: str, example: int) -> Json:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": _COUNT,
        "example": example,
    }


BOUNDS_QUERY: tuple[Json, ...] = (
    _position("start", "The first id of the range.", FIRST_ID.hex()),
    _position("end", "The id behind the range.", _LATER),
)
SPLITS_QUERY: Json = _bound("parts", "The most parts; 1 where it is not given.", 4)
REACH_QUERY: tuple[Json, ...] = (
    _bound("messages", "The most messages; any number where it is not given.", 10_000),
    _bound("bytes", "The most bytes of payload; any number where it is not given.", 1_000_000),
)
ISOLATION_QUERY: Json = query_choice(
    "isolation", _ISOLATION, "committed", "Which messages count: those that are committed, or all."
)
