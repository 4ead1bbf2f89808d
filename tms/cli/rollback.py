"""`tms rollback`, and rollback ranges as text.

    range := write_pointer ":" timestamp "." sequence_id ":" timestamp "." sequence_id

The first and the last entry that a transactional publish wrote; timestamps in milliseconds.
"""

import re
from typing import Annotated

import typer

from tms.cli.target import Target, TopicArgument, with_target
from tms.core.services.messaging import RollbackRange

_RANGE = re.compile(r"(\d{1,19}):(\d{1,19})\.(\d{1,5}):(\d{1,19})\.(\d{1,5})", re.ASCII)

Ranges = Annotated[
    list[str],
    typer.Argument(metavar="RANGE", help="Ranges that `tms publish --tx` printed."),
]


def text_of(published: RollbackRange) -> str:
    """Format a range."""
    return (
        f"{published.write_pointer}:{published.start_timestamp}.{published.start_sequence_id}"
        f":{published.end_timestamp}.{published.end_sequence_id}"
    )


def parse_range(text: str) -> RollbackRange:
    """Parse a range. Raises a usage error."""
    numbers = _RANGE.fullmatch(text)
    if numbers is None:
        raise typer.BadParameter(
            f"{text!r} is not a valid rollback range: give a range that `tms publish --tx` printed",
            param_hint="RANGE",
        )
    return RollbackRange(*map(int, numbers.groups()))


@with_target
def rollback(target: Target, topic: TopicArgument, ranges: Ranges) -> None:
    """Roll back transactional publishes, so that transactions no longer see their messages."""
    parsed = [parse_range(text) for text in ranges]
    with target.connect() as client:
        for published in parsed:
            client.topic(topic).rollback(published)
    target.answer(f"Rolled back in topic {topic}.", {"rolled_back": ranges})
