"""The server's clock over REST: whether a step is in doubt, and the confirmation of one."""

from functools import partial

from api.http.exchange import JSON_TYPE, OK, Exchange
from api.http.operation import JSON_ERRORS, Operation
from api.http.request_body import SMALL_BODY_BYTES_MAX, read_body
from api.openapi.parts import TIMESTAMP, json_content
from api.openapi.structs import answer_of, schemas_of
from api.resources.paths import CLOCK, CLOCK_ACCEPT
from api.resources.superusers import check_superuser
from tms.core.runtime.trusted_clock import ClockState
from tms.security.resources import Action
from tms.wire.json_fields import Json
from tms.wire.json_states import StepBody
from tms.wire.json_values import decode, encode

_STATE = answer_of(
    ClockState,
    {
        "ClockState.wall_ms": "The time of the machine's clock, in milliseconds since 1970.",
        "ClockState.trusted_ms": "The server's time, in milliseconds since 1970.",
        "ClockState.step_s": (
            "How many seconds the machine's clock is ahead of the server's time while it is in "
            "doubt."
        ),
        "ClockState.in_doubt_s": "For how many seconds it has been in doubt.",
        "ClockState.ends_in_s": (
            "After how many seconds the server believes it, if it is not set again."
        ),
        "ClockState.held": "The rules that are paused: `expiry` and `tombstones`, or `deletion`.",
    },
)
del _STATE["properties"]["step_s"]["minimum"]  # it is negative if the clock was set back
_STEP = schemas_of({"Step": StepBody}, answered=False)["Step"]
_CALM: Json = {
    "wall_ms": TIMESTAMP,
    "trusted_ms": TIMESTAMP,
    "step_s": 0,
    "in_doubt_s": None,
    "ends_in_s": None,
    "held": [],
}
_IN_DOUBT: Json = {
    "wall_ms": TIMESTAMP + 7_200_000,
    "trusted_ms": TIMESTAMP,
    "step_s": 7200,
    "in_doubt_s": 60,
    "ends_in_s": 3540,
    "held": ["expiry", "tombstones"],
}
_CONTENT = json_content(_STATE, calm=_CALM, in_doubt=_IN_DOUBT)


async def show(exchange: Exchange) -> None:
    """Answer with the state of the clock."""
    state = exchange.context.clock.state()
    await exchange.answer(OK, encode(state), JSON_TYPE)


async def accept(exchange: Exchange) -> None:
    """Accept the machine's clock as it is now."""
    check_superuser(exchange)
    exchange.check_only_json()
    body = await read_body(exchange, SMALL_BODY_BYTES_MAX)
    step = decode(StepBody, body, code="invalid_step")
    state = exchange.context.clock.accept(step.step_s)
    await exchange.answer(OK, encode(state), JSON_TYPE)


_OF_THE_ASKED = "The server that gets the request answers it itself, even if it is not the leader."
_row = partial(Operation, action=Action.OPERATE, tag="Server")
OPERATIONS = (
    _row(
        name="getClock",
        method="GET",
        path=CLOCK,
        handler=show,
        summary="Show whether a step of the server's clock is in doubt",
        description=_OF_THE_ASKED,
        success="The state of the clock.",
        answer=_CONTENT,
    ),
    _row(
        name="acceptClock",
        method="POST",
        path=CLOCK_ACCEPT,
        handler=accept,
        summary="Accept a step of the machine's clock now",
        description=(
            "Use it for a correct step that is in doubt. `step_s` is the step as the "
            "server shows it, so that nobody accepts a different one. With authentication, only "
            "superusers may do this. "
            f"{_OF_THE_ASKED}"
        ),
        request=json_content(_STEP, step={"step_s": 7200}),
        success="The state of the clock now.",
        answer=_CONTENT,
        errors=("invalid_step", "clock_moved", *JSON_ERRORS),
    ),
)
