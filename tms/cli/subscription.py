"""`tms subscription`: named positions of consumers."""

from typing import Annotated

import typer

from tms.cli.columns import in_order
from tms.cli.poll import parse_message_id
from tms.cli.target import Target, TopicArgument, with_target
from tms.core.errors import SubscriptionExists
from tms.core.values.store_access import StoreAccess
from tms.core.values.subscriptions import SubscriptionPosition

app = typer.Typer(
    help="Create, list, show, move and delete named positions of consumers.", no_args_is_help=True
)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The subscription's name within its topic.")
]
AfterOption = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Start after this message; by default at the oldest."),
]


IfAbsent = Annotated[
    bool, typer.Option("--if-absent", help="If it exists already, do not change it.")
]


def _facts(position: SubscriptionPosition) -> dict[str, object]:
    after = None if position.after is None else position.after.hex()
    name, kind = position.name, position.kind.value
    return {"name": name, "kind": kind, "after": after, "version": position.version}


def _row(position: SubscriptionPosition) -> tuple[str, ...]:
    after = "-" if position.after is None else position.after.hex()
    return (position.name, position.kind.value, str(position.version), after)


@app.command(epilog="\b\nExample:\n  tms subscription create orders billing")
@with_target
def create(
    target: Target,
    topic: TopicArgument,
    name: NameArgument,
    *,
    after: AfterOption = None,
    if_absent: IfAbsent = False,
) -> None:
    """Create a subscription."""
    first = None if after is None else parse_message_id(after, "--after")
    with target.connect() as client:
        subscription = client.topic(topic).subscription(name)
        try:
            position = subscription.create(first)
        except SubscriptionExists:
            if not if_absent:
                raise
            text = f"Subscription {name} of topic {topic} exists already."
            target.answer(text, _facts(subscription.position()))
            return
    target.answer(f"Created subscription {name} of topic {topic}.", _facts(position))


@app.command("list")
@with_target
def list_positions(target: Target, topic: TopicArgument) -> None:
    """List a topic's subscriptions, and the id of the last message each has consumed.

    A shared one is a group; its id is the one after which it began.
    """
    with target.connect(StoreAccess.READ) as client:
        positions = in_order(client.topic(topic).subscriptions())
    target.answer_list(
        ("NAME", "KIND", "VERSION", "AFTER"), map(_row, positions), [*map(_facts, positions)]
    )


@app.command()
@with_target
def show(target: Target, topic: TopicArgument, name: NameArgument) -> None:
    """Show the position of a subscription.

    After is the last message that was consumed; each move raises the version by one.
    """
    with target.connect(StoreAccess.READ) as client:
        position = client.topic(topic).subscription(name).position()
    facts = _facts(position)
    target.answer(
        f"name     {name}\nafter    {facts['after'] or '-'}\nversion  {position.version}", facts
    )


@app.command("set")
@with_target
def move(
    target: Target,
    topic: TopicArgument,
    name: NameArgument,
    after: Annotated[str, typer.Option(metavar="ID", help="The position is after this message.")],
) -> None:
    """Move a subscription, forwards or back."""
    to = parse_message_id(after, "--after")
    with target.connect() as client:
        client.topic(topic).subscription(name).advance(to)
    target.answer(f"Moved subscription {name} of topic {topic}.", {"name": name, "after": to.hex()})


@app.command()
@with_target
def delete(target: Target, topic: TopicArgument, name: NameArgument) -> None:
    """Delete a subscription."""
    with target.connect() as client:
        client.topic(topic).subscription(name).delete()
    target.answer(f"Deleted subscription {name} of topic {topic}.", {"deleted": name})
