"""Whole numbers in requests: the only place that converts digits of a request to an int.

`int` takes time that grows with the square of the digits, and refuses more than 4,300 with an error
that no caller expects. So the digits are counted first.
"""

from tms.core.limits import INT64_MAX

_DIGITS_MAX = len(str(INT64_MAX))


def whole_number(text: str, most: int = INT64_MAX) -> int | None:
    """Return the number of a text of decimal digits; None for other texts, or if over `most`."""
    if not (len(text) <= _DIGITS_MAX and text.isascii() and text.isdecimal()):
        return None
    number = int(text)
    return number if number <= most else None
