"""The shared parts of commands that work on stores themselves, with a server's settings."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from tms.cli.target import Target

USAGE_EXIT_CODE = 2

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        envvar="TMS_CONFIG", metavar="FILE", help="A TOML file of settings; see `tms config`."
    ),
]


def stop(*problems: str) -> NoReturn:
    """End the command as one that was used wrongly, and say why."""
    for problem in problems:
        print(problem, file=sys.stderr)
    raise typer.Exit(USAGE_EXIT_CODE)


def settings_of(flags: dict[str, object], config: Path | None) -> Any:
    """Return the settings, or end the command where they are wrong."""
    from tms.settings import WrongSettings, load  # noqa: PLC0415  needs the server's extra

    try:
        return load(flags, config).settings
    except WrongSettings as error:
        stop(*error.problems)


def answering(context: typer.Context, *, as_json: bool) -> Target:
    """Return how a command that asks no server is to answer."""
    before: Target = context.obj
    return replace(before, as_json=as_json or before.as_json)
