"""Every command that `tms` has."""

from collections.abc import Iterator
from typing import Any

import typer.main

from tms.cli.main import app


def commands(group: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """Yield every command and command group below `group`, itself first."""
    yield path
    for name in getattr(group, "list_commands", lambda _: ())(None):
        yield from commands(group.get_command(None, name), *path, name)


ALL = list(commands(typer.main.get_command(app)))
