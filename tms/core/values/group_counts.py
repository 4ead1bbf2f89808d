"""The counts of what members did with the messages of a group. Each is declared once, here."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Final, get_args

from msgspec import Meta

from tms.core.limits import JSON_INTEGER_MAX


def _count(description: str) -> Meta:
    return Meta(ge=0, le=JSON_INTEGER_MAX, description=description)


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """The counts of a group since its server began to count; a restart begins at 0."""

    taken: Annotated[int, _count("Messages that takes got, counted at each attempt.")] = 0
    retried: Annotated[int, _count("Messages that takes got after a failed attempt.")] = 0
    acked: Annotated[int, _count("Messages that were acknowledged.")] = 0
    failed: Annotated[int, _count("Attempts that failed: nacks, and leases that expired.")] = 0
    dead: Annotated[int, _count("Messages that became dead letters.")] = 0
    gone: Annotated[
        int, _count("Open messages that expired, were trimmed, or were compacted away.")
    ] = 0
    skipped: Annotated[int, _count("Open messages that an operator skipped.")] = 0
    refused: Annotated[int, _count("Acks, nacks, releases and extensions that were refused.")] = 0
    limited: Annotated[
        int, _count("Takes that got less than they asked for, and why in `limited_by`.")
    ] = 0


NO_COUNTS: Final = GroupCounts()
COUNTED: Final[Mapping[str, str]] = {
    field.name: get_args(field.type)[1].description for field in fields(GroupCounts)
}
"""The description of each count, by its name."""
