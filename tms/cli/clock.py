"""`tms clock`: whether a step of a server's clock is in doubt, and the confirmation of one."""

from typing import Annotated

import typer

from tms.cli.target import Target, with_target
from tms.core.limits import MS_PER_S
from tms.core.runtime.trusted_clock import ClockState
from tms.core.text.durations import span
from tms.wire.json_bodies import JSON
from tms.wire.json_states import StepBody
from tms.wire.json_values import decode_answer, encode

_PATH = "v1/clock"

app = typer.Typer(rich_markup_mode=None)

Step = Annotated[
    int,
    typer.Option(
        "--step-s", metavar="SECONDS", help="The step in seconds, as `tms clock` shows it."
    ),
]


@app.callback(invoke_without_command=True)
@with_target
def clock(target: Target) -> None:
    """Show whether a step of the server's clock is in doubt."""
    state = decode_answer(ClockState, target.ask("GET", _PATH))
    target.answer(_text(state), state)


@app.command()
@with_target
def accept(target: Target, *, step_s: Step) -> None:
    """Confirm that the server's clock is right, so that the server accepts the step now.

    With authentication, only superusers may do this.
    """
    body = encode(StepBody(step_s))
    answer = target.ask("POST", f"{_PATH}/accept", body, JSON.content_type)
    state = decode_answer(ClockState, answer)
    target.answer(_text(state), state)


def _text(state: ClockState) -> str:
    if state.in_doubt_s is None or state.ends_in_s is None:
        return "The clock is believed."
    side = "ahead of" if state.step_s >= 0 else "behind"
    return (
        f"The clock is {span(abs(state.step_s) * MS_PER_S)} {side} the server's time, for "
        f"{span(state.in_doubt_s * MS_PER_S)}. The server will believe it in "
        f"{span(state.ends_in_s * MS_PER_S)} if it stays so; until then these are paused: "
        f"{', '.join(state.held)}.\nIf the clock is right: tms clock accept --step-s {state.step_s}"
    )
