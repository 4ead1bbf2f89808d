"""`tms backup`: backups of a running server, which writes them below its setting backup_folder."""

import time
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer
from typer.core import TyperGroup

from tms.cli.columns import counted
from tms.cli.durations import duration
from tms.cli.failure import ExitCode, stop
from tms.cli.progress import drawing
from tms.cli.target import Target, with_target
from tms.core.errors import InvalidRequest
from tms.core.limits import MS_PER_S
from tms.core.runtime.clock import SystemClock
from tms.core.values.backups import IN_THE_STORE, Backup, BackupsState, BackupWork, Stage
from tms.wire.json_values import decode_answer

_PATH = "v1/backups"
_WAIT_S = 1.0
_ANSWER_S_MAX = 120.0
_MIB = 1024 * 1024
_TAKE = "take"

EXAMPLES = """\b
Examples:
  tms backup "$(date +%F)"
  tms backup verify 2027-01-31
  tms backup prune --keep 7 --older-than 14d

The server goes on with a backup whose command was interrupted. `tms restore` needs no server."""


class _TakeByDefault(TyperGroup):
    """The commands, of which `tms backup NAME` is `tms backup take NAME`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name."""
        is_name = bool(args) and not args[0].startswith("-") and args[0] not in self.commands
        return super().resolve_command(ctx, [_TAKE, *args] if is_name else args)


app = typer.Typer(rich_markup_mode=None, cls=_TakeByDefault)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the backup.")]
KeepOption = Annotated[
    int, typer.Option(min=1, metavar="COUNT", help="How many of the newest to keep in any case.")
]


@app.callback(invoke_without_command=True, epilog=EXAMPLES)
@with_target
def backup(target: Target) -> None:
    """Back up a running server: `tms backup NAME`. Without a name, list the backups."""
    _list(target)


@app.command(_TAKE)
@with_target
def take(target: Target, name: NameArgument) -> None:
    """Back up the store while the server serves; `tms backup NAME` does the same."""
    if "/" in name:  # the whole place, as in the answer
        place, _, name = name.rpartition("/")
        if place != (allowed := _state(target).folder):
            raise InvalidRequest("invalid_backup_name", backup=name, only_in=allowed)
    done = _done(target, "PUT", name, "")
    state = _state(target)
    taken = next((each for each in state.backups if each.name == name), None)
    size = done.all_bytes if taken is None or taken.bytes is None else taken.bytes
    lines = [f"{state.folder}/{name} has {size_text(size)}, after {done.seconds:.1f} s."]
    if taken is not None and taken.new_bytes is not None:
        lines.append(
            f"{size_text(taken.new_bytes)} of it are new; publishers waited for "
            f"{taken.paused_ms} ms. The backup was opened once."
        )
        if taken.metadata != IN_THE_STORE:
            lines.append(
                f"It does not have namespaces, rules and tokens: back up {taken.metadata} too."
            )
    target.answer("\n".join(lines), done if taken is None else taken)


@app.command("list")
@with_target
def list_backups(target: Target) -> None:
    """List the backups, the oldest first."""
    _list(target)


@app.command()
@with_target
def verify(target: Target, name: NameArgument) -> None:
    """Compare a backup with its digests, open it, and read all its rows."""
    done = _done(target, "POST", name, "/verify")
    target.answer(
        f"{name} is intact: {size_text(done.all_bytes)}, {counted(done.rows or 0, 'row')}.", done
    )


@app.command()
@with_target
def delete(target: Target, name: NameArgument) -> None:
    """Delete a backup."""
    target.ask("DELETE", f"{_PATH}/{quote(name, safe='')}", timeout_s=_ANSWER_S_MAX)
    target.answer(f"The backup {name} is deleted.", {"deleted": [name]})


@app.command()
@with_target
def prune(
    target: Target,
    *,
    keep: KeepOption = 1,
    older_than_s: Annotated[
        float, duration("--older-than", help_text="Delete only backups of this age.", least_s=0)
    ] = 0.0,
) -> None:
    """Delete old backups, except the newest ones. Damaged manifests are left alone."""
    before_ms = SystemClock().now_ms() - older_than_s * MS_PER_S
    intact = [each for each in _state(target).backups if each.created_ms is not None]
    old = [each.name for each in intact[:-keep] if (each.created_ms or 0) <= before_ms]
    for name in old:
        target.ask("DELETE", f"{_PATH}/{quote(name, safe='')}", timeout_s=_ANSWER_S_MAX)
    kept = len(intact) - len(old)
    text = f"Deleted {counted(len(old), 'backup')}; kept {kept}."
    target.answer(text, {"deleted": old, "kept": kept})


def size_text(size: int) -> str:
    """Return a size for people."""
    return f"{size / _MIB:,.1f} MiB" if size >= _MIB else f"{size:,} bytes"


def _state(target: Target) -> BackupsState:
    return decode_answer(BackupsState, target.ask("GET", _PATH))


def _list(target: Target) -> None:
    state = _state(target)
    heads = ("NAME", "CREATED", "SIZE", "NEW", "VERSION")
    target.answer_list(heads, [_row(each) for each in state.backups], state.backups)


def _row(each: Backup) -> tuple[str, ...]:
    if each.created_ms is None or each.bytes is None or each.new_bytes is None:
        return each.name, "its manifest is damaged", "", "", ""
    created = datetime.fromtimestamp(each.created_ms // MS_PER_S, UTC)
    sizes = size_text(each.bytes), size_text(each.new_bytes)
    return each.name, f"{created:%Y-%m-%d %H:%M:%SZ}", *sizes, each.version or ""


def _done(target: Target, method: str, name: str, way: str) -> BackupWork:
    """Start work on a backup, and wait for its end."""
    path = f"{_PATH}/{quote(name, safe='')}{way}?{urlencode({'wait': _WAIT_S})}"
    work = decode_answer(BackupWork, target.ask(method, path, timeout_s=_ANSWER_S_MAX))
    with drawing(work.work, "bytes", None) as draw:
        while work.stage is Stage.RUNNING:
            draw(completed=work.done_bytes, total=work.all_bytes or None)
            time.sleep(_WAIT_S / 2)
            last = _state(target).last
            if last is None or (last.name, last.work) != (work.name, work.work):
                stop(
                    f"The server was restarted before the {work.work} of {name} was done.",
                    exit_code=ExitCode.FAILED,
                )
            work = last
    if work.stage is Stage.FAILED:
        stop(f"The {work.work} of {name} failed: {work.failure}", exit_code=ExitCode.FAILED)
    return work
