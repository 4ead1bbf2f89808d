"""`tms group`: groups, whose messages many members take and settle."""

from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any, cast

import typer

from tms.cli import group_dead
from tms.cli.columns import counted, in_order
from tms.cli.durations import duration
from tms.cli.endless import ending_in_order
from tms.cli.lines import json_of, text_of, utc_of
from tms.cli.poll import parse_message_id, parse_start
from tms.cli.subscription import NameArgument
from tms.cli.target import Target, TopicArgument, with_options, with_target
from tms.client import TopicGroup
from tms.client.reading.start import Start
from tms.core.values.group_settings import DECLARED, GroupOptions, GroupSettings, Order
from tms.core.values.groups import (
    Group,
    OpenMessage,
    SeekTo,
)
from tms.core.values.message import MessageId
from tms.core.values.store_access import StoreAccess
from tms.wire.json_groups import group_record

app = typer.Typer(
    help="Create, list, show and delete groups, and take their messages.", no_args_is_help=True
)

app.add_typer(group_dead.app, name="dead")
_OPEN_LOOKED_AT = 100
_NUMBERS = [name for name, declared in DECLARED.items() if declared.ge is not None]
"""The settings that are options of `create` and `set`."""


def _option(name: str) -> Any:
    """Return the option of a setting; its value is None if it is not given."""
    seconds, help_text = "_s" in name, DECLARED[name].description or ""
    flag = "--" + name.replace("_s", "", seconds).replace("_", "-")
    if seconds:
        return duration(flag, help_text=help_text, whole=True)
    return typer.Option(flag, metavar="N", help=help_text)


_with_settings = with_options(
    {
        **{name: Annotated[int | None, _option(name)] for name in _NUMBERS},
        "dead_letter": Annotated[
            str | None, typer.Option(metavar="TOPIC", help=DECLARED["dead_letter"].description)
        ],
        "filter": Annotated[
            str | None,
            typer.Option(
                metavar="FILTER",
                help="Deliver only messages whose key and headers match; '' for all.",
            ),
        ],
    }
)


def _place(text: str, option: str) -> Start | SeekTo:
    """Parse a place in a topic. Raises a usage error."""
    if text == SeekTo.END:
        return SeekTo.END
    start = parse_start(text, option)
    return SeekTo.START if start is None else start


def _open_facts(message: OpenMessage) -> dict[str, Any]:
    return asdict(message) | {"id": str(MessageId.decode(message.id))}


def _described(group: Group) -> str:
    facts = group_record(group)
    rows = {**facts, **facts.pop("settings"), **facts.pop("state")}
    del rows["settings"], rows["state"]
    return "\n".join(
        f"{name:<11}  {'-' if value is None else value}" for name, value in rows.items()
    )


def _row(group: Group) -> tuple[str, ...]:
    state = group.state
    numbers = (state.unread, state.open, state.leased, state.waiting, state.members)
    paused = "paused" if group.settings.paused else "-"
    limit = paused if state.limited_by is None else state.limited_by.value
    return (group.name, group.settings.order.value, *map(str, numbers), limit)


@app.command(epilog="\b\nExample:\n  tms group create orders billing --order key")
@with_target
@_with_settings
def create(
    target: Target,
    topic: TopicArgument,
    name: NameArgument,
    *,
    order: Annotated[
        Order, typer.Option(help="By key: the messages of a key one after another.")
    ] = Order.NONE,
    after: Annotated[
        str,
        typer.Option(
            metavar="PLACE", help="Begin after a message id, at a time, at start or at end."
        ),
    ] = "start",
    **settings: int | str | None,
) -> None:
    """Create a group. An existing group with the same order is not changed."""
    requested = GroupSettings(order, **_given(settings))
    with target.connect() as client:
        group = client.topic(topic).group(name)
        made = group.create(order, after=_place(after, "--after"), **_given(settings))
    kept = [
        f"{setting} {there}"
        for setting in (*_NUMBERS, "filter")
        if (there := getattr(made.settings, setting)) != getattr(requested, setting)
    ]
    if kept:
        state = f"exists already; its settings are not changed: {', '.join(kept)}"
        text = f"Group {name} of topic {topic} {state}."
    else:
        text = f"Created group {name} of topic {topic}."
    target.answer(text, group_record(made))


def _given(settings: Mapping[str, int | str | None]) -> GroupOptions:
    given = {name: value for name, value in settings.items() if value is not None}
    return cast("GroupOptions", given)


@app.command("list")
@with_target
def list_groups(target: Target, topic: TopicArgument) -> None:
    """List a topic's groups and their progress."""
    with target.connect(StoreAccess.READ) as client:
        groups = in_order(client.topic(topic).groups())
    heads = ("NAME", "ORDER", "UNREAD", "OPEN", "LEASED", "WAITING", "MEMBERS", "LIMITED-BY")
    target.answer_list(heads, map(_row, groups), [*map(group_record, groups)])


@app.command()
@with_target
def show(target: Target, topic: TopicArgument, name: NameArgument) -> None:
    """Show a group's settings, its progress, and which of its oldest messages have failed."""
    with target.connect(StoreAccess.READ) as client:
        remote = client.topic(topic).group(name)
        group = remote.show()
        failed = [each for each in remote.open(limit=_OPEN_LOOKED_AT) if each.attempts]
    lines = [
        f"failed       {each.id.hex()} in {counted(each.attempts, 'attempt')}, last by "
        f"{each.last_member or '-'}: {each.reason or '-'}"
        for each in failed
    ]
    facts = {**group_record(group), "failed": [_open_facts(each) for each in failed]}
    target.answer("\n".join([_described(group), *lines]), facts)


@app.command(epilog="\b\nExample:\n  tms group take orders billing --limit 10 --ack")
@with_target
def take(
    target: Target,
    topic: TopicArgument,
    name: NameArgument,
    *,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Stop after this number of messages.")
    ] = None,
    ack: Annotated[
        bool, typer.Option("--ack", help="Acknowledge each message after it is printed.")
    ] = False,
    lease: Annotated[int | None, _option("lease_s")] = None,
) -> None:
    """Take messages and print them, up to a limit or until Ctrl-C or SIGTERM.

    Without --ack they are given back at the end, and no attempt is counted.
    """
    with target.connect() as client, ending_in_order():  # the client gives messages back
        group = client.topic(topic).group(name)
        prefetch = 10 if limit is None else min(limit, 10)
        for message in islice(group.take(lease_s=lease, prefetch=prefetch), limit):
            taken = message.message
            print(json_of(taken) if target.as_json else text_of(taken), flush=True)
            if ack:
                message.ack()


@app.command()
@with_target
def delete(target: Target, topic: TopicArgument, name: NameArgument) -> None:
    """Delete a group, but not its messages."""
    with target.connect() as client:
        client.topic(topic).group(name).delete()
    target.answer(f"Deleted group {name} of topic {topic}.", {"deleted": name})


@app.command()
@with_target
def members(target: Target, topic: TopicArgument, name: NameArgument) -> None:
    """List the members of a group that hold messages, or were seen recently."""
    with target.connect(StoreAccess.READ) as client:
        members_seen = client.topic(topic).group(name).members()
    facts = [*map(asdict, members_seen)]
    rows = [
        (
            each.name,
            each.principal or "-",
            str(each.holds),
            *map(utc_of, (each.since_ms, each.seen_ms)),
        )
        for each in members_seen
    ]
    target.answer_list(("NAME", "PRINCIPAL", "HOLDS", "SINCE", "SEEN"), rows, facts)


@app.command("open")
@with_target
def list_open(
    target: Target,
    topic: TopicArgument,
    name: NameArgument,
    *,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="List those after this message.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="How many.")] = 100,
) -> None:
    """List a group's open messages, with their failures and the members that hold them."""
    behind = None if after is None else parse_message_id(after, "--after")
    with target.connect(StoreAccess.READ) as client:
        messages_open = client.topic(topic).group(name).open(after=behind, limit=limit)
    facts = [_open_facts(each) for each in messages_open]
    shown = [row | {"until_ms": row["until_ms"] and utc_of(row["until_ms"])} for row in facts]
    rows = [tuple("-" if value is None else str(value) for value in row.values()) for row in shown]
    columns = ("ID", "ATTEMPTS", "STATE", "MEMBER", "UNTIL", "LAST MEMBER", "REASON")
    target.answer_list(columns, rows, facts)


@app.command("set", epilog="\b\nExample:\n  tms group set orders billing --lease 60")
@with_target
@_with_settings
def change(
    target: Target,
    topic: TopicArgument,
    name: NameArgument,
    **settings: int | str | None,
) -> None:
    """Change a group's settings; its order never changes."""
    changes = _given(settings)
    if not changes:
        raise typer.BadParameter("give at least one of the settings")
    with target.connect() as client:
        _change(target, client.topic(topic).group(name), f"Changed group {name}", changes)


@app.command()
@with_target
def pause(target: Target, topic: TopicArgument, name: NameArgument) -> None:
    """Pause a group: takes return nothing until it is resumed."""
    with target.connect() as client:
        _change(target, client.topic(topic).group(name), f"Paused group {name}", {"paused": True})


@app.command()
@with_target
def resume(target: Target, topic: TopicArgument, name: NameArgument) -> None:
    """Resume a group: takes return messages again."""
    with target.connect() as client:
        _change(target, client.topic(topic).group(name), f"Resumed group {name}", {"paused": False})


def _change(target: Target, group: TopicGroup, text: str, changes: GroupOptions) -> None:
    changed = group.set(**changes)
    target.answer(f"{text} of topic {changed.topic_id.name}.", group_record(changed))


@app.command(epilog="\b\nExample:\n  tms group seek orders billing --to 2026-08-01T12:00:00Z")
@with_target
def seek(
    target: Target,
    topic: TopicArgument,
    name: NameArgument,
    to: Annotated[
        str,
        typer.Option(metavar="PLACE", help="After a message id, at a time, at start or at end."),
    ],
) -> None:
    """Drop all open messages, and continue from another place."""
    place = _place(to, "--to")
    with target.connect() as client:
        moved = client.topic(topic).group(name).seek(place)
    target.answer(f"Moved group {name} of topic {topic}.", group_record(moved))


@app.command()
@with_target
def skip(
    target: Target,
    topic: TopicArgument,
    name: NameArgument,
    messages: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids of open messages.")],
) -> None:
    """Settle open messages without an ack, even leased ones."""
    ids = [parse_message_id(each, "ID") for each in messages]
    with target.connect() as client:
        count = client.topic(topic).group(name).skip(ids)
    target.answer(f"Skipped {counted(count, 'message')} of group {name}.", {"skipped": count})


@app.command(epilog="\b\nExample:\n  tms group release orders billing --member w-1")
@with_target
def release(
    target: Target,
    topic: TopicArgument,
    name: NameArgument,
    messages: Annotated[
        list[str] | None, typer.Argument(metavar="[ID…]", help="Ids of leased messages.")
    ] = None,
    *,
    member: Annotated[
        str | None, typer.Option(metavar="NAME", help="Everything that this member holds.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Count a failed attempt.")] = False,
) -> None:
    """Take leased messages back from their members, so that others get them at once."""
    if not messages and member is None:
        raise typer.BadParameter("give ids or --member")
    ids = [parse_message_id(each, "ID") for each in messages or ()]
    with target.connect() as client:
        group = client.topic(topic).group(name)
        count = group.take_back(ids, member=member, failed=failed)
    text = f"Took {counted(count, 'message')} of group {name} back."
    target.answer(text, {"released": count})
