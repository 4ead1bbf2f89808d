"""Cleanup over REST: how it stands, and a pass on demand."""

from functools import partial

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Operation
from api.http.query_parameters import values_of, wait_of
from api.openapi.parts import TIMESTAMP, WRITE_POINTER, json_content, query_wait
from api.openapi.structs import answer_of
from api.resources.of_shard import SHARD_PARAMETER, services_of
from tms.core.cleanup import Cleanup, CleanupState
from tms.core.errors import InvalidRequest
from tms.security.resources import Action
from tms.wire.json_fields import NULL, one_of
from tms.wire.json_ids import POINTER
from tms.wire.json_states import told_bounds
from tms.wire.json_values import encode

CLEANUP = "/v1/cleanup"

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
        "InvalidState.not_inverted": "Write pointers of them that are above the bound.",
        "InvalidState.oldest": one_of(POINTER, NULL),
        "InvalidState.held_by": {
            **one_of(POINTER, NULL),
            "description": "The transaction in progress that keeps the bound from moving.",
        },
        "InvalidState.waits_until_ms": "When the oldest can go, in milliseconds since 1970.",
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
_CONTENT = json_content(_STATE, state=_EXAMPLE)
_WAIT = query_wait("How many seconds to wait for the end of the pass.")


def _cleanup_of(exchange: Exchange) -> Cleanup:
    """Return the server's cleanup. Raises `InvalidRequest` (not_found) where it has none."""
    cleanup = services_of(exchange).cleanup
    if cleanup is None:
        raise InvalidRequest("not_found", path=exchange.path)
    return cleanup


async def show(exchange: Exchange) -> None:
    """Answer with how cleanup stands."""
    state = await _cleanup_of(exchange).state()
    await exchange.answer(OK, encode(told_bounds(state)), JSON_TYPE)


async def run(exchange: Exchange) -> None:
    """Have a pass begin, and wait for its end if asked to."""
    cleanup = _cleanup_of(exchange)
    values = values_of(exchange.query)
    wait_s = wait_of(values, exchange.context.limits.poll_wait_s_max)
    exchange.waited = wait_s > 0
    await cleanup.run_pass(wait_s)
    await show(exchange)


_SHARD_ERRORS = ("invalid_query", "shard_required")

_row = partial(Operation, action=Action.OPERATE, tag="Server")
OPERATIONS = (
    _row(
        name="getCleanup",
        method="GET",
        path=CLEANUP,
        handler=show,
        summary="Show the state of cleanup",
        description="The answer says what was deleted since the start of the server, and why "
        "transactions stay on the invalid list.",
        success="The state of cleanup.",
        query=(SHARD_PARAMETER,),
        answer=_CONTENT,
        errors=("not_found", *_SHARD_ERRORS),
    ),
    _row(
        name="runCleanup",
        method="POST",
        path=CLEANUP,
        handler=run,
        summary="Clean up now",
        description="A pass begins at once, or after the current one.",
        query=(_WAIT, SHARD_PARAMETER),
        success="The state after the pass, or after the wait.",
        answer=_CONTENT,
        errors=("invalid_wait", "not_found", *_SHARD_ERRORS),
    ),
)
