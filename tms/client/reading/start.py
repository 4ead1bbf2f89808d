"""Where a poll starts, and which message is meant, as a caller may write it."""

from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol, runtime_checkable

from tms.core.services.messaging import EMPTY, NO_ENTRIES
from tms.core.values.message import (
    MessageId,
    check_id,
    check_start_ms,
    parse_id,
    position_of,
)


@runtime_checkable
class HasId(Protocol):
    """A message in any form: of a poll, of a group, or with values."""

    @property
    def id(self) -> bytes:
        """The id of 20 bytes."""
        ...


WhichMessage = HasId | bytes | str | MessageId
"""A message, or its id as 20 bytes, as 40 hexadecimal digits or in its parts."""

Start = WhichMessage | int | datetime
"""A message, or its id; or a publish time in milliseconds since 1970 or as a datetime with a time
zone."""

IfLast = WhichMessage | Literal["empty"]
"""The last message of a topic as a publisher knows it, or that there is none yet."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def position(*, after: Start | None, start: Start | None) -> bytes:
    """Return the smallest id to give: behind `after`, or `start` itself, or the oldest message.

    Raises `InvalidRequest` (invalid_message_id, invalid_start_time, start_time_in_seconds),
    `ValueError` where both are given or a datetime has no time zone, `TypeError` for a value of
    another type.
    """
    if after is None:
        return position_of(None if start is None else id_or_ms(start))
    if start is not None:
        raise ValueError("give either after or start")
    return position_of(id_or_ms(after), inclusive=False)


def place_of(given: Start) -> bytes:
    """Return where a range begins or ends, which need not be a message's id. Raises as `position`.

    Any 20 bytes may be, for the end of a topic's range is behind its last message.
    """
    return given if isinstance(given, bytes) else position_of(id_or_ms(given))


def last_id_of(if_last: IfLast) -> bytes:
    """Return the id, or `NO_ENTRIES`. Raises `InvalidRequest` (invalid_message_id), `TypeError`."""
    return NO_ENTRIES if if_last == EMPTY else id_of(if_last)


def id_of(which: WhichMessage) -> bytes:
    """Return the id of a message. Raises `InvalidRequest` (invalid_message_id), `TypeError`."""
    match which:
        case HasId():
            return check_id(which.id)
        case MessageId():
            return which.encode()
        case str():
            return parse_id(which)
        case bytes():
            return check_id(which)
        case _:
            raise TypeError(f"{which!r} is not a message or a message id")


def ms_of(moment: datetime) -> int:
    """Return the millisecond, since 1970, that a time with a time zone is in."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def id_or_ms(given: Start) -> bytes | int:
    """Return the id, or the time in milliseconds since 1970. Raises as `position`."""
    match given:
        case MessageId() | str() | bytes() | HasId():
            return id_of(given)
        case int():
            return check_start_ms(given)
        case datetime():
            if given.tzinfo is None:
                raise ValueError(f"{given} has no time zone: add tzinfo=UTC, or another")
            return ms_of(given)
        case _:
            raise TypeError(f"{given!r} is not a message, a message id, a time in ms or a datetime")
