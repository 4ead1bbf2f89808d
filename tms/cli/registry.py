"""`tms registry`: the servers of the schema registry."""

from dataclasses import asdict

import typer

from tms.cli.target import Target, with_target
from tms.core.store_access import StoreAccess

app = typer.Typer(help="Show what a server is for the schema registry.", no_args_is_help=True)


@app.callback()
def registry() -> None:
    """Show what a server is for the schema registry. Schemas are under `tms schema`."""


@app.command()
@with_target
def status(target: Target) -> None:
    """Say who writes the schemas, and how far the server has read."""
    with target.connect(StoreAccess.READ) as client:
        told = client.registry.status()
    who = "each server writes"
    if told.mode == "master":
        who = f"{told.role}; the master is {told.master or 'not known'}, in epoch {told.epoch}"
    read = f"{told.versions} versions of {told.subjects} subjects, up to record {told.sequence}"
    target.answer(f"{told.mode}: {who}\n{read}", asdict(told))
