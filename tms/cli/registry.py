"""`tms registry`: the servers of the schema registry."""

from dataclasses import asdict

import typer

from tms.cli.columns import counted
from tms.cli.target import Target, with_target
from tms.core.values.store_access import StoreAccess

app = typer.Typer(help="Show the server's role in the schema registry.", no_args_is_help=True)


@app.callback()
def registry() -> None:
    """Show the server's role in the schema registry. The schemas are under `tms schema`."""


@app.command()
@with_target
def status(target: Target) -> None:
    """Show which server writes the schemas, and how far this one has read."""
    with target.connect(StoreAccess.READ) as client:
        state = client.registry.status()
    who = "each server writes"
    if state.mode == "master":
        who = f"{state.role}; the master is {state.master or 'not known'}, in epoch {state.epoch}"
    versions, subjects = counted(state.versions, "version"), counted(state.subjects, "subject")
    read = f"{versions} of {subjects}, up to record {state.sequence}"
    target.answer(f"{state.mode}: {who}\n{read}", asdict(state))
