"""The settings of a group, each declared once.

`GroupSettings` determines the checks of a server, the bodies of REST and their descriptions in
OpenAPI, the client's arguments, the options of `tms group`, and the table of docs/groups.md.
`GroupOptions` repeats the names and types of the settings that can change, for type checkers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Final, TypedDict, get_args

from msgspec import Meta

from tms.core.errors import InvalidRequest
from tms.core.values.filters import filter_of

DELAY_S_MAX: Final = 30 * 86_400
LEASE_S_MAX: Final = 43_200
ATTEMPTS_MAX: Final = 1_000
DEAD_LETTERS_MAX: Final = 10_000
RATE_MAX: Final = 1_000_000
OPEN_MAX: Final = 100_000
"""The most open messages of one group, and the most that one commit acknowledges."""


class Order(StrEnum):
    """The order in which a group delivers its messages."""

    NONE = "none"
    """By id, to any member."""
    KEY = "key"
    """The messages of one key one after another."""


def _number(least: int, most: int, description: str) -> Meta:
    return Meta(ge=least, le=most, description=description)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of a group."""

    order: Annotated[
        Order,
        Meta(
            description="With `key`, messages of a key are delivered one after another. It never "
            "changes."
        ),
    ] = Order.NONE
    lease_s: Annotated[
        int, _number(1, LEASE_S_MAX, "How long a take leases messages, if it names no other time.")
    ] = 30
    retry_s: Annotated[
        int,
        _number(0, DELAY_S_MAX, "The wait after the first failure, then twice as long each time."),
    ] = 1
    retry_s_max: Annotated[int, _number(0, DELAY_S_MAX, "The longest such wait.")] = 60
    open_max: Annotated[int, _number(1, OPEN_MAX, "How many messages may be open.")] = 10_000
    member_max: Annotated[int, _number(1, OPEN_MAX, "How many messages one member may have.")] = (
        1_000
    )
    paused: Annotated[bool, Meta(description="Whether takes return nothing.")] = False
    rate: Annotated[
        int,
        _number(
            0,
            RATE_MAX,
            "How many messages takes get per second, on average; at once at most the amount of a "
            "second. 0 disables it.",
        ),
    ] = 0
    attempts_max: Annotated[
        int,
        _number(
            0,
            ATTEMPTS_MAX,
            "How many attempts a message has before it becomes a dead letter; 0 disables it.",
        ),
    ] = 0
    dead_letter: Annotated[
        str,
        Meta(
            description="The topic of dead letters, in the same namespace. It is TOPIC--dead if "
            "only `attempts_max` is given, and empty if there is none."
        ),
    ] = ""
    dead_letters_max: Annotated[
        int,
        _number(
            1,
            DEAD_LETTERS_MAX,
            "The group pauses itself before more messages than this become dead letters within "
            "`dead_letters_per_s`.",
        ),
    ] = 100
    dead_letters_per_s: Annotated[
        int, _number(1, 86_400, "The seconds in which `dead_letters_max` are counted.")
    ] = 60
    filter: Annotated[
        str,
        Meta(
            description="Only messages whose key and headers match it are delivered; the others "
            "are passed. Empty for all."
        ),
    ] = ""


class GroupOptions(TypedDict, total=False):
    """Settings of a group as keyword arguments; `GroupSettings` describes them."""

    lease_s: int
    retry_s: int
    retry_s_max: int
    open_max: int
    member_max: int
    paused: bool
    rate: int
    attempts_max: int
    dead_letter: str
    dead_letters_max: int
    dead_letters_per_s: int
    filter: str


DEFAULTS: Final = GroupSettings()
DECLARED: Final[Mapping[str, Meta]] = {
    field.name: get_args(field.type)[1] for field in fields(GroupSettings)
}
"""The description and the bounds of each setting, by its name."""
SETTABLE: Final = tuple(name for name in DECLARED if name != "order")
"""The settings that can change."""


def check_settings(settings: GroupSettings) -> None:
    """Raise `InvalidRequest` (invalid_group, invalid_filter) if a value is not allowed."""
    for name, declared in DECLARED.items():
        value = getattr(settings, name)
        if declared.ge is not None and declared.le is not None:
            check_number(name, value, int(declared.ge), int(declared.le))
        elif type(value) is not type(getattr(DEFAULTS, name)):
            raise InvalidRequest("invalid_group", **{name: value})
    if settings.filter:
        filter_of(settings.filter)


def check_number(name: str, value: object, least: int, most: int) -> None:
    """Raise `InvalidRequest` (invalid_group) unless `value` is a whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidRequest("invalid_group", **{name: value}, least=least, most=most)
