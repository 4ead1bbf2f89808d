"""Parses the text of one option: numbers, times, offsets by topic. Raises `InvalidRequest`."""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import NoReturn, TypeVar

from tms.client.reading.start import ms_of
from tms.core.errors import InvalidRequest
from tms.core.text.credentials import shortened
from tms.spark.offsets import Bound, at_time, parse_offset

_SHOWN_CHARS_MAX = 100
_DELAY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(ms|s|m|h|d)?", re.ASCII)
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

Value = TypeVar("Value")


def refuse(option: str, reason: str, value: str | None = None) -> NoReturn:
    """Raise `InvalidRequest` (invalid_option), which names the option and says why."""
    detail = {} if value is None else {"given": shortened(value, _SHOWN_CHARS_MAX)}
    raise InvalidRequest("invalid_option", option=option, reason=reason, **detail)


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the name in `names` that was probably meant, None if none is similar."""
    by_lower = {option.lower(): option for option in names}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[matches[0]] if matches else None


def flag(option: str, text: str) -> bool:
    """Return the value of `true` or `false`."""
    if text.lower() not in ("true", "false"):
        refuse(option, "true or false is expected", text)
    return text.lower() == "true"


def whole_number(option: str, text: str, least: int = 1) -> int:
    """Return an integer of at least `least`."""
    if not (text.isascii() and text.isdigit() and least <= int(text) < 1 << 63):
        refuse(option, f"a whole number is expected, {least} or more", text)
    return int(text)


def seconds(option: str, text: str) -> float:
    """Return a number of seconds above zero."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        refuse(option, "a number of seconds is expected", text)
    return value


def delay(option: str, text: str) -> float:
    """Return the seconds in a number, or in one with the unit ms, s, m, h or d, as in `15m`."""
    match = _DELAY.fullmatch(text)
    if match is None:
        refuse(option, "seconds, or a number with ms, s, m, h or d, is expected", text)
    return float(match[1]) * _UNITS_S[match[2] or "s"]


def time_ms(option: str, text: str) -> int:
    """Return milliseconds since 1970, from a number or ISO 8601, by default in UTC.

    A finer time is rounded up, because messages of the millisecond before are older.
    """
    if text.isascii() and text.isdigit():
        value = int(text)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            refuse(option, "milliseconds since 1970 or a time in ISO 8601 is expected", text)
        value = ceiling_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    if not 0 <= value < 1 << 63:
        refuse(option, "a time from 1970 on is expected", text)
    return value


def ceiling_ms(moment: datetime) -> int:
    """Return a time with a zone in milliseconds, rounded up."""
    return ms_of(moment) + (moment.microsecond % 1000 > 0)


def offsets_by_topic(option: str, text: str) -> dict[str, Bound]:
    """Return the bounds in a JSON object of offsets."""

    def bound(topic: str, value: object) -> Bound:
        try:
            return parse_offset(value if isinstance(value, str) else "")
        except InvalidRequest:
            expected = f"for {topic}, earliest, latest or a message id is expected"
            refuse(option, expected, str(value))

    return {topic: bound(topic, value) for topic, value in _object(option, text).items()}


def times_by_topic(option: str, text: str) -> dict[str, Bound]:
    """Return the bounds in a JSON object of times."""
    return {
        topic: at_time(time_ms(f"{option} of {topic}", str(value)))
        for topic, value in _object(option, text).items()
    }


def _object(option: str, text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        refuse(option, "a JSON object with a member for each topic is expected", text)
    return value


class GivenOptions:
    """Options by case-insensitive name."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Take `options` from Spark."""
        self._texts = {name.lower(): text for name, text in options.items()}

    def names(self) -> set[str]:
        """Return the names, in lower case."""
        return set(self._texts)

    def has(self, option: str) -> bool:
        """Whether the option was given."""
        return option.lower() in self._texts

    def text(self, option: str) -> str | None:
        """Return the option's text, None if it is absent."""
        return self._texts.get(option.lower())

    def value(self, option: str, parse: Callable[[str, str], Value], otherwise: Value) -> Value:
        """Return the option's value, parsed by `parse`."""
        text = self.text(option)
        return otherwise if text is None else parse(option, text.strip())

    def one_of(self, *options: str) -> str | None:
        """Return the one of `options` that is present, None without any; refuse several."""
        named = [option for option in options if self.has(option)]
        if len(named) > 1:
            refuse(" and ".join(named), "they contradict each other: give one of them")
        return named[0] if named else None
