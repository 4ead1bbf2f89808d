"""The shared parts of commands that open stores directly, with a server's settings."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from tms.cli.failure import stop
from tms.cli.target import Target
from tms.core.text.store_url import HBASE, has_scheme

T = TypeVar("T")

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        envvar="TMS_CONFIG", metavar="FILE", help="A TOML file of settings; see `tms config`."
    ),
]


def settings_of(flags: dict[str, object], config: Path | None) -> Any:
    """Return the settings, or end the command if they are invalid."""
    from tms.settings import WrongSettings, load  # noqa: PLC0415  needs the server's extra

    try:
        return load(flags, config).settings
    except WrongSettings as error:
        stop(*error.problems)


def on_hbase(store: str | None, config: Path | None, otherwise: str, use: Callable[..., T]) -> T:
    """Call `use` with the URL of a store on HBase and the settings; return its result.

    `otherwise` says why another store is refused. Ends the command if either is wrong.
    """
    settings = settings_of({"store": store}, config)
    if not has_scheme(settings.store, HBASE):
        stop(f"{settings.store} {otherwise}")
    try:
        return use(settings.store, settings)
    except ValueError as error:
        stop(f"{settings.store}: {error}")


def answering(context: typer.Context, *, as_json: bool) -> Target:
    """Return the target of a command that contacts no server, for its output."""
    before: Target = context.obj
    return replace(before, as_json=as_json or before.as_json)
