"""`tms topic`: create, list, show, change, trim and delete topics."""

from typing import Annotated

import typer

from tms.cli import topic_scheduled
from tms.cli.columns import by_number, named
from tms.cli.confirmation import YesOption, confirm
from tms.cli.durations import duration
from tms.cli.poll import parse_start
from tms.cli.target import Target, TopicArgument, with_target
from tms.core.errors import TopicExists
from tms.core.values.store_access import StoreAccess

_OPTIONS = {"ttl": "the time to live as --ttl DURATION", "exist_ok": "--if-absent"}
"""The option for each of these parameters of the client's methods."""

app = typer.Typer(help="Create, list, show, change, trim and delete topics.", no_args_is_help=True)
app.add_typer(topic_scheduled.app, name="scheduled")

Ttl = Annotated[
    int | None,
    duration(
        "--ttl",
        help_text="How long messages live; by default the server's setting, a week.",
        whole=True,
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="Properties of your own; or cleanup=compact, tombstone_s, retention_messages or "
        "retention_bytes.",
        show_default=False,
    ),
]


IfAbsent = Annotated[
    bool, typer.Option("--if-absent", help="If it exists already, do not change it.")
]


def _parsed(properties: list[str] | None) -> dict[str, str | float]:
    pairs = [text.partition("=") for text in properties or ()]
    for key, equals, _ in pairs:
        if not equals or not key:
            raise typer.BadParameter(f"{key!r} is not KEY=VALUE")
        if key in _OPTIONS:
            raise typer.BadParameter(f"{key} is not a property: give {_OPTIONS[key]}")
    return {key: value for key, _, value in pairs}


@app.command(epilog="\b\nExample:\n  tms topic create orders --ttl 7d owner=shop")
@with_target
def create(
    target: Target,
    name: TopicArgument,
    *,
    properties: Properties = None,
    ttl: Ttl = None,
    if_absent: IfAbsent = False,
) -> None:
    """Create a topic."""
    parsed = _parsed(properties)
    with target.connect(StoreAccess.CREATE) as client:
        try:
            client.topic(name).create(ttl, exist_ok=False, **parsed)
        except TopicExists:
            if not if_absent:
                raise
            target.answer(f"Topic {name} exists already.", {"created": None, "exists": name})
            return
    target.answer(f"Created topic {name}.", {"created": name})


@app.command("list")
@with_target
def list_names(target: Target) -> None:
    """List the topics of the namespace, one a line."""
    with target.connect(StoreAccess.READ) as client:
        names = sorted(client.topics(), key=by_number)
    if names or target.as_json:
        target.answer("\n".join(names), names)


@app.command()
@with_target
def show(target: Target, name: TopicArgument) -> None:
    """Show a topic's properties."""
    with target.connect(StoreAccess.READ) as client:
        properties = client.topic(name).properties()
    target.answer(named(properties), {"name": name, "properties": properties})


@app.command("set", epilog="\b\nExample:\n  tms topic set orders --ttl 12h owner=shop")
@with_target
def replace(
    target: Target, name: TopicArgument, properties: Properties = None, ttl: Ttl = None
) -> None:
    """Replace the properties of a topic.

    Properties that are not given are removed, and without --ttl the server's default applies.
    """
    with target.connect() as client:
        client.topic(name).replace_properties(ttl, **_parsed(properties))
    target.answer(f"Changed topic {name}.", {"changed": name})


Before = Annotated[
    str,
    typer.Option(
        "--before",
        metavar="TIME|ID",
        help="A time (ISO 8601, UTC unless it says otherwise, or milliseconds since 1970), or a "
        "message id, whose time counts.",
    ),
]


@app.command(epilog="\b\nExample:\n  tms topic trim orders --before 2026-08-01T12:00:00Z")
@with_target
def trim(target: Target, name: TopicArgument, before: Before) -> None:
    """Expire all messages from before a time; cleanup deletes them later."""
    start = parse_start(before, "--before")
    if start is None:
        raise typer.BadParameter("give a time or a message id", param_hint="--before")
    with target.connect() as client:
        client.topic(name).trim(start)
    target.answer(f"Trimmed topic {name} before {before}.", {"trimmed": name, "before": before})


@app.command()
@with_target
def delete(target: Target, name: TopicArgument, *, yes: YesOption = False) -> None:
    """Delete a topic and all its messages."""
    with target.connect() as client:
        topic = client.topic(name)
        confirm(f"Delete topic {topic.namespace}:{topic.name} and all its messages?", is_sure=yes)
        topic.delete()
    target.answer(f"Deleted topic {name}.", {"deleted": name})
