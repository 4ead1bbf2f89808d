"""The bodies and queries of ranges with examples, for the OpenAPI document."""

from api.openapi.parts import TIMESTAMP, json_content, parameter, query_choice
from api.openapi.structs import schemas_of
from tms.core.values.message import FIRST_ID
from tms.wire.json_fields import COUNT, ID_EXAMPLE, MESSAGE_ID, Json, reference
from tms.wire.json_ranges import RangesAskedBody, RangesBody, ReachBody, SplitsBody

_COUNT: Json = {**COUNT, "minimum": 1}
_ISOLATION = ("committed", "all")
_LATER = "0000018bcfe56bff0000" + "0" * 20

SCHEMAS: Json = {
    **schemas_of({"PositionsRequest": RangesAskedBody}, answered=False),
    **schemas_of(
        {"Positions": RangesBody, "Splits": SplitsBody, "Reach": ReachBody}, answered=True
    ),
}

RANGES_ASKED_CONTENT = json_content(
    reference("PositionsRequest"),
    committed={"topics": ["orders", "payments"]},
    all={"topics": ["orders"], "isolation": "all"},
)
RANGES_CONTENT = json_content(
    reference("Positions"),
    positions={
        "topics": {
            "orders": {
                "start": ID_EXAMPLE,
                "end": _LATER,
                "generation": 1,
                "expired_before": ID_EXAMPLE,
            },
            "payments": None,
        },
        "time_ms": TIMESTAMP + 1000,
    },
)
SPLITS_CONTENT = json_content(
    reference("Splits"), one={"ranges": [{"start": ID_EXAMPLE, "end": _LATER, "bytes": 1000}]}
)
REACH_CONTENT = json_content(
    reference("Reach"), some={"end": _LATER, "messages": 10, "bytes": 1000}
)


BOUNDS_QUERY: tuple[Json, ...] = (
    parameter(
        "start", "The first id of the range.", MESSAGE_ID, is_required=True, example=FIRST_ID.hex()
    ),
    parameter("end", "The id after the range.", MESSAGE_ID, is_required=True, example=_LATER),
)
SPLITS_QUERY: Json = parameter("parts", "The most parts; by default 1.", _COUNT, example=4)
REACH_QUERY: tuple[Json, ...] = (
    parameter("messages", "The most messages; by default any number.", _COUNT, example=10_000),
    parameter(
        "bytes",
        "The most bytes of payload; by default any number.",
        _COUNT,
        example=1_000_000,
    ),
)
ISOLATION_QUERY: Json = query_choice(
    "isolation", _ISOLATION, "committed", "The messages that count: committed ones, or all."
)
