"""`tms group dead`: the dead letters of a group."""

from time import sleep
from typing import Annotated

import typer

from tms.cli.columns import counted
from tms.cli.poll import parse_message_id
from tms.cli.subscription import NameArgument
from tms.cli.target import Target, TopicArgument, with_target
from tms.core.errors import TooLarge
from tms.core.values.dead_letters import DeadLetter
from tms.core.values.groups import REDRIVEN_MAX
from tms.core.values.message import id_before
from tms.core.values.store_access import StoreAccess
from tms.wire.json_dead_letters import letter_record

app = typer.Typer(help="List, redrive and drop the dead letters of a group.", no_args_is_help=True)

_SHOWN_CHARS = 60
LettersArgument = Annotated[list[str], typer.Argument(metavar="ID…", help="Ids of dead letters.")]


def _row(letter: DeadLetter) -> tuple[str, ...]:
    origin = letter.origin
    reason = origin.reason or "-"
    return (
        letter.id.hex(),
        origin.disposition.value,
        str(origin.attempts),
        origin.member or "-",
        reason if len(reason) <= _SHOWN_CHARS else f"{reason[:_SHOWN_CHARS]}…",
    )


@app.command("list")
@with_target
def list_letters(
    target: Target,
    topic: TopicArgument,
    name: NameArgument,
    *,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="List those after this dead letter.")
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=REDRIVEN_MAX, help="How many at most.")
    ] = 100,
) -> None:
    """List dead letters that were neither redriven nor dropped, the oldest first."""
    behind = None if after is None else parse_message_id(after, "--after")
    with target.connect(StoreAccess.READ) as client:
        page = client.topic(topic).group(name).dead_letters(after=behind, limit=limit)
    facts = [letter_record(each) for each in page.letters]
    heads = ("ID", "DISPOSITION", "ATTEMPTS", "MEMBER", "REASON")
    target.answer_list(heads, map(_row, page.letters), facts)


@app.command()
@with_target
def show(
    target: Target,
    topic: TopicArgument,
    name: NameArgument,
    letter: Annotated[str, typer.Argument(metavar="ID", help="The id of a dead letter.")],
) -> None:
    """Show a dead letter: where it came from, why it failed, and its message."""
    letter_id = parse_message_id(letter, "ID")
    before = id_before(letter_id) if any(letter_id) else None
    with target.connect(StoreAccess.READ) as client:
        letters = client.topic(topic).group(name).dead_letters(after=before, limit=1).letters
    if not letters or letters[0].id != letter_id:
        raise typer.BadParameter(f"group {name} has no such dead letter", param_hint="ID")
    record = letter_record(letters[0])
    width = max(map(len, record))
    lines = [f"{key:<{width}}  {'-' if value is None else value}" for key, value in record.items()]
    target.answer("\n".join(lines), record)


@app.command(epilog="\b\nExample:\n  tms group dead redrive orders billing --all --rate 100")
@with_target
def redrive(
    target: Target,
    topic: TopicArgument,
    name: NameArgument,
    letters: Annotated[
        list[str] | None, typer.Argument(metavar="[ID…]", help="Ids of dead letters.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Redrive all of them.")] = False,
    publish: Annotated[
        bool,
        typer.Option("--publish", help="Publish the messages anew, for all readers of the topic."),
    ] = False,
    rate: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="With --all: how many messages a second at most."),
    ] = None,
) -> None:
    """Deliver the messages of dead letters to the group again, from the first attempt."""
    if bool(letters) == every:
        raise typer.BadParameter("give either ids or --all")
    ids = None if every else [parse_message_id(each, "ID") for each in letters or ()]
    count, expired, after = 0, set[bytes](), None
    with target.connect() as client:
        group = client.topic(topic).group(name)
        while True:
            limit = min(rate or REDRIVEN_MAX, REDRIVEN_MAX)
            try:
                done = group.redrive(ids, after=after, limit=limit, publish=publish)
            except TooLarge:
                if count:
                    typer.echo(f"Redrove only {counted(count, 'message')}.", err=True)
                raise
            count += done.redriven
            expired.update(done.expired)
            # A server before 0.3 has no `next`: its oldest ones are redriven until none remain.
            if not every or not (done.next or done.redriven):
                break
            after = done.next or after
            if rate is not None:
                sleep(done.redriven / rate)
    text = f"Redrove {counted(count, 'message')} of group {name}."
    if done.limited_by is not None:
        text += " The limit of open messages is reached."
    if expired:
        text += (
            f" {counted(len(expired), 'message')} expired in topic {topic}: "
            "--publish brings them back."
        )
    target.answer(text, {"redriven": count, "expired": len(expired)})


@app.command()
@with_target
def drop(
    target: Target, topic: TopicArgument, name: NameArgument, letters: LettersArgument
) -> None:
    """Take dead letters off the list; their topic keeps them until they expire."""
    ids = [parse_message_id(each, "ID") for each in letters]
    with target.connect() as client:
        count = client.topic(topic).group(name).drop_dead_letters(ids)
    target.answer(f"Dropped {counted(count, 'dead letter')} of group {name}.", {"dropped": count})
