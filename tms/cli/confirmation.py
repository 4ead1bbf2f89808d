"""Asks a person at a terminal before something is deleted for good."""

import sys
from typing import Annotated

import typer

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask in a terminal.")]


def confirm(question: str, *, is_sure: bool) -> None:
    """Ask, if standard input is a terminal; end the command unless the answer is yes.

    So scripts are not asked.
    """
    if not is_sure and sys.stdin.isatty() and sys.stderr.isatty():
        typer.confirm(question, abort=True, err=True)
