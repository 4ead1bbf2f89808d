"""The server's status: problems, rates, and the lag of readers. The answer is JSON."""

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Operation
from api.http.query_parameters import limit_of, values_of, whole_number_of
from api.openapi.parts import TIMESTAMP, WRITE_POINTER, json_content, parameter
from api.openapi.structs import answer_of
from tms.core.limits import JSON_INTEGER_MAX
from tms.core.services.findings import FindingKind
from tms.core.services.status import ServerStatus
from tms.security.resources import Action
from tms.wire.json_fields import NULL, TEXT, one_of
from tms.wire.json_ids import POINTER
from tms.wire.json_status import encode_status

STATUS = "/v1/status"
_PAGE = 100
_PAGE_MAX = 1_000

_FROM = parameter(
    "readers_from",
    "How many readers to skip.",
    {"type": "integer", "minimum": 0, "maximum": JSON_INTEGER_MAX, "default": 0},
)
_LIMIT = parameter(
    "limit",
    f"The most readers, at most {_PAGE_MAX}.",
    {"type": "integer", "minimum": 1, "maximum": JSON_INTEGER_MAX, "default": _PAGE},
)
_STATE = answer_of(
    ServerStatus,
    {
        "ServerStatus.time_ms": "Milliseconds since 1970.",
        "ServerStatus.findings": "The current findings, urgent ones first.",
        "ServerStatus.missing_shards": "The shards whose transactions are omitted, because no "
        "server leads them now.",
        "ServerStatus.next_reader": "`readers_from` of the next page; null if this is the last "
        "one.",
        "Finding.where": "The thing that it is about.",
        "Finding.advice": "The action to take.",
        "ReaderLag.messages": "Unread messages, counted up to 10,000.",
        "ReaderLag.seconds": "The age of the oldest one.",
        "ReaderLag.is_at_least": "Whether there may be more messages.",
        "ReaderLag.open": "Open messages of a group.",
        "ReaderLag.hindrances": "The things that keep a group from its work; findings too.",
        "ServerStatus.messages_in_s": "Each second of about the last minute; as the next ones.",
        "ServerStatus.oldest_transaction": {
            **one_of(POINTER, NULL),
            "description": "The transaction that has been in progress longest.",
        },
        "ServerStatus.store_bytes": "Null if the store is not in a folder.",
        "ServerStatus.full_in_s": "When the disk is full at this rate; null if not within a year.",
        "Finding.kind": {**TEXT, "description": f"One of {', '.join(FindingKind)}."},
        "ReaderLag.kind": {**TEXT, "description": "`single`, or `shared` for a group."},
    },
)
_EXAMPLE = {
    "time_ms": TIMESTAMP,
    "findings": [
        {
            "kind": "reader_behind",
            "where": "default:orders billing",
            "text": "It is 12 messages behind, the oldest of which is 2 h old.",
            "advice": "Check that its consumer is running and fast enough; if nobody needs it, "
            "delete it.",
            "is_urgent": False,
        }
    ],
    "messages_in_s": 120.0,
    "bytes_in_s": 12000.0,
    "messages_out_s": 120.0,
    "bytes_out_s": 15600.0,
    "requests_s": 24.0,
    "in_progress": 1,
    "oldest_transaction": WRITE_POINTER,
    "oldest_age_ms": 1200,
    "oldest_client": "shop",
    "store_bytes": 1000000,
    "free_bytes": 90000000000,
    "disk_bytes": 100000000000,
    "full_in_s": None,
    "readers": [
        {
            "namespace": "default",
            "topic": "orders",
            "name": "billing",
            "kind": "single",
            "messages": 12,
            "seconds": 7200.0,
            "is_at_least": False,
            "open": 0,
            "hindrances": [],
        }
    ],
    "next_reader": None,
    "missing_shards": [],
}


async def show(exchange: Exchange) -> None:
    """Answer with the server's status."""
    values = values_of(exchange.query)
    passed = whole_number_of(values, "readers_from") or 0
    limit = min(limit_of(values) or _PAGE, _PAGE_MAX)
    status = await exchange.context.watch.status(passed=passed, limit=limit)
    await exchange.answer(OK, encode_status(status), JSON_TYPE)


OPERATIONS = (
    Operation(
        name="getStatus",
        action=Action.OPERATE,
        method="GET",
        path=STATUS,
        handler=show,
        tag="Server",
        summary="Show findings, rates, and the lags of readers",
        description="Rates are those of the last minute. Readers are returned in pages.",
        query=(_FROM, _LIMIT),
        success="The status of the server.",
        answer=json_content(_STATE, status=_EXAMPLE),
        errors=("invalid_query", "invalid_limit"),
        is_compressed=True,
    ),
)
