"""The schemas of states that several operations return: of cleanup, and of a namespace."""

from api.openapi.parts import TIMESTAMP, WRITE_POINTER, json_content
from api.openapi.structs import answer_of, schemas_of
from tms.core.values.cleanup import CleanupState
from tms.wire.json_fields import NULL, Json, one_of, reference
from tms.wire.json_ids import POINTER
from tms.wire.json_namespaces import NamespaceBody

_STATE = answer_of(
    CleanupState,
    {
        "PruneBound.start": "The first key of the range, in hexadecimal digits.",
        "PruneBound.stop": "The key after the range.",
        "PruneBound.write_pointer": {
            **POINTER,
            "description": "The bound: up to here, no messages of invalid transactions are left.",
        },
        "PruneBound.transaction_ms": "Milliseconds since 1970.",
        "PruneBound.recorded_ms": "Milliseconds since 1970.",
        "InvalidState.count": "Write pointers on the invalid list.",
        "InvalidState.not_inverted": "Those write pointers that are above the bound.",
        "InvalidState.oldest": one_of(POINTER, NULL),
        "InvalidState.held_by": {
            **one_of(POINTER, NULL),
            "description": "The transaction in progress that keeps the bound from moving.",
        },
        "InvalidState.waits_until_ms": "When the oldest one can be removed, in milliseconds "
        "since 1970.",
        "CleanupState.last_started_ms": "Milliseconds since 1970.",
        "CleanupState.dropped_by_reason": (
            "Rows by the reason of their deletion: `ttl`, `generation`, `sealed`; of compact "
            "topics "
            "`superseded`, `tombstone`, `rolled_back`."
        ),
        "CleanupState.last_rows": "Rows that the pass deleted or inverted.",
        "CleanupState.clock_step_s": (
            "How many seconds the clock is ahead while it is in doubt; until then some rules are "
            "paused (`getClock`)."
        ),
    },
)
del _STATE["properties"]["clock_step_s"]["minimum"]  # it is negative if the clock was set back
_EXAMPLE = {
    "is_running": False,
    "passes": 12,
    "failed_passes": 0,
    "last_started_ms": TIMESTAMP,
    "last_seconds": 0.02,
    "last_rows": 1000,
    "last_failure": None,
    "scanned_rows": 4000,
    "dropped_rows": 1000,
    "dropped_bytes": 100_000,
    "inverted_rows": 3,
    "dropped_by_reason": {"ttl": 900, "superseded": 100},
    "clock_step_s": 0,
    "last_passes": [{"started_ms": TIMESTAMP, "seconds": 0.02, "rows": 1000}],
    "bounds": [
        {
            "table": "message",
            "start": "",
            "stop": "ff",
            "write_pointer": WRITE_POINTER,
            "transaction_ms": TIMESTAMP,
            "recorded_ms": TIMESTAMP,
        }
    ],
    "invalid": {
        "count": 1,
        "oldest": WRITE_POINTER,
        "not_inverted": 0,
        "held_by": None,
        "waits_until_ms": TIMESTAMP,
    },
}
SCHEMAS: Json = {
    "CleanupState": _STATE,
    **schemas_of({"Namespace": NamespaceBody}, answered=True),
}
STATE_CONTENT = json_content(reference("CleanupState"), state=_EXAMPLE)
