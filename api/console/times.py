"""Times that people type."""

from datetime import UTC, datetime

from api.http.protocol.numbers import whole_number
from tms.core.errors import InvalidRequest
from tms.core.values.message import check_start_ms


def time_of(text: str) -> int:
    """Return a time in ms since 1970, typed as a number of ms or in ISO 8601, in UTC.

    Raises `InvalidRequest` (invalid_start_time, start_time_in_seconds).
    """
    typed = text.strip()
    number = whole_number(typed)
    if number is not None:
        return check_start_ms(number)
    try:
        time = datetime.fromisoformat(typed)
    except ValueError:
        raise InvalidRequest("invalid_start_time", start_time=typed[:100]) from None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
