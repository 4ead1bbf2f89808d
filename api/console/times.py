"""Times that people type."""

from datetime import UTC, datetime

from api.http.protocol.numbers import whole_number
from tms.core.errors import InvalidRequest
from tms.core.values.message import check_start_ms


def time_of(text: str) -> int:
    """Return the ms since 1970 that a text says: a number of ms, or a time of ISO 8601 in UTC.

    Raises `InvalidRequest` (invalid_start_time, start_time_in_seconds).
    """
    given = text.strip()
    number = whole_number(given)
    if number is not None:
        return check_start_ms(number)
    try:
        time = datetime.fromisoformat(given)
    except ValueError:
        raise InvalidRequest("invalid_start_time", start_time=given[:100]) from None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
