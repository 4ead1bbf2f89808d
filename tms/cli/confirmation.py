"""Asks a person in a terminal before something is deleted that does not come back."""

import sys
from typing import Annotated

import typer

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask in a terminal.")]


def confirm(question: str, *, is_sure: bool) -> None:
    """Ask, if somebody is there to answer; end the command if the answer is not yes.

    A script is not asked: its standard input is not a terminal.
    """
    if not is_sure and sys.stdin.isatty() and sys.stderr.isatty():
        typer.confirm(question, abort=True, err=True)
