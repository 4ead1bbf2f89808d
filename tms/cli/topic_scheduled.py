"""`tms topic scheduled`: the messages of a topic that will be published later."""

from typing import Annotated

import typer

from tms.cli.columns import counted
from tms.cli.lines import content_of, utc_of
from tms.cli.target import Target, TopicArgument, with_target
from tms.core.values.schedules import LISTED_DEFAULT, LISTED_MAX
from tms.core.values.store_access import StoreAccess
from tms.wire.json_schedules import scheduled_record

app = typer.Typer(
    help="List and cancel messages that will be published later.", no_args_is_help=True
)


@app.command("list")
@with_target
def list_scheduled(
    target: Target,
    topic: TopicArgument,
    *,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="List those after this one.")
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=LISTED_MAX, help="How many at most.")
    ] = LISTED_DEFAULT,
) -> None:
    """List scheduled messages, those that are due first at the top."""
    with target.connect(StoreAccess.READ) as client:
        scheduled = client.topic(topic).scheduled(after=after, limit=limit)
    rows = [(each.id, utc_of(each.at_ms), content_of(each.message)) for each in scheduled]
    target.answer_list(
        ("ID", "DUE", "MESSAGE"), rows, [scheduled_record(each) for each in scheduled]
    )


@app.command()
@with_target
def cancel(
    target: Target,
    topic: TopicArgument,
    scheduled: Annotated[
        list[str], typer.Argument(metavar="ID…", help="Ids of scheduled messages.")
    ],
) -> None:
    """Cancel scheduled messages, so that they are never published."""
    with target.connect() as client:
        for message in scheduled:
            client.topic(topic).cancel_scheduled(message)
    target.answer(f"Cancelled {counted(len(scheduled), 'message')}.", {"cancelled": scheduled})
