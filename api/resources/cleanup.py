"""Cleanup over REST: its state, and a pass on demand."""

from functools import partial

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import Operation
from api.http.query_parameters import values_of, wait_of
from api.openapi.parts import query_wait
from api.openapi.state_schemas import STATE_CONTENT
from api.resources.of_shard import SHARD_PARAMETER, services_of
from tms.core.errors import InvalidRequest
from tms.core.values.cleanup import Cleanup
from tms.security.resources import Action
from tms.wire.json_states import bounds_record
from tms.wire.json_values import encode

CLEANUP = "/v1/cleanup"

_WAIT = query_wait("How many seconds to wait for the pass to end.")


def _cleanup_of(exchange: Exchange) -> Cleanup:
    """Return the server's cleanup. Raises `InvalidRequest` (not_found) if it has none."""
    cleanup = services_of(exchange).cleanup
    if cleanup is None:
        raise InvalidRequest("not_found", path=exchange.path)
    return cleanup


async def show(exchange: Exchange) -> None:
    """Answer with the state of cleanup."""
    state = await _cleanup_of(exchange).state()
    await exchange.answer(OK, encode(bounds_record(state)), JSON_TYPE)


async def run(exchange: Exchange) -> None:
    """Start a pass, and wait for its end if the request says so."""
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
        description="The answer says what was deleted since the server started, and why "
        "transactions stay on the invalid list.",
        success="The state of cleanup.",
        query=(SHARD_PARAMETER,),
        answer=STATE_CONTENT,
        errors=("not_found", *_SHARD_ERRORS),
    ),
    _row(
        name="runCleanup",
        method="POST",
        path=CLEANUP,
        handler=run,
        summary="Run a cleanup pass now",
        description="A pass begins at once, or after the current one.",
        query=(_WAIT, SHARD_PARAMETER),
        success="The state after the pass, or after the wait.",
        answer=STATE_CONTENT,
        errors=("invalid_wait", "not_found", *_SHARD_ERRORS),
    ),
)
