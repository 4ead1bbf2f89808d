"""`tms cleanup`: the state of a server's cleanup, and a pass on demand."""

from typing import Annotated
from urllib.parse import urlencode

import typer

from tms.cli.debug import bounds_text
from tms.cli.durations import duration
from tms.cli.target import ShardOption, Target, with_target
from tms.core.values.cleanup import CleanupState
from tms.wire.json_states import bounds_record, decode_cleanup

app = typer.Typer(
    help="Show what a server's cleanup has done, and start a pass now.", no_args_is_help=True
)

_PATH = "v1/cleanup"
_ANSWER_S_MAX = 120.0

Wait = Annotated[
    float, duration("--wait-s", help_text="How long to wait for the pass to end.", least_s=0)
]


@app.command()
@with_target
def show(target: Target, *, shard: ShardOption = None) -> None:
    """Show what cleanup deleted, and why transactions stay on the invalid list."""
    state = decode_cleanup(target.ask("GET", _path(shard=shard)))
    target.answer(_text(state), bounds_record(state))


@app.command()
@with_target
def run(target: Target, *, wait_s: Wait = 30.0, shard: ShardOption = None) -> None:
    """Run a cleanup pass now."""
    path = _path(wait=f"{wait_s:g}", shard=shard)
    state = decode_cleanup(target.ask("POST", path, timeout_s=_ANSWER_S_MAX))
    target.answer(_text(state), bounds_record(state))


def _path(**query: object) -> str:
    encoded = urlencode({name: each for name, each in query.items() if each is not None})
    return f"{_PATH}?{encoded}" if encoded else _PATH


def _text(state: CleanupState) -> str:
    running = "; one is running" if state.is_running else ""
    deleted = f"{state.dropped_rows} rows, {state.dropped_bytes} bytes"
    lines = [
        f"{state.passes} passes, {state.failed_passes} not finished{running}.",
        f"Deleted {deleted}; inverted {state.inverted_rows}; read {state.scanned_rows}.",
    ]
    if state.dropped_by_reason:
        why = ", ".join(f"{count} {reason}" for reason, count in state.dropped_by_reason.items())
        lines.append(f"Deleted by reason: {why}.")
    if state.last_seconds is not None:
        lines.append(f"The last pass took {state.last_seconds:.3f} s, for {state.last_rows} rows.")
    if state.last_failure is not None:
        lines.append(f"It could not be finished: {state.last_failure}")
    if state.clock_step_s:
        lines.append(f"A step of the clock, {state.clock_step_s} s, is in doubt: see `tms clock`.")
    return "\n".join([*lines, bounds_text(state.bounds, state.invalid)])
