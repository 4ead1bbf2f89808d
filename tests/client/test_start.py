"""Where a poll starts, in the forms a caller may write."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tms.client.start import position
from tms.core.errors import InvalidRequest
from tms.core.message import FIRST_ID, MessageId, first_id_at

ID = MessageId(1000, 5)


def test_nothing_is_the_oldest_message() -> None:
    assert position(after=None, start=None) == FIRST_ID


@pytest.mark.parametrize("form", [ID, ID.encode(), str(ID), str(ID).upper()])
def test_an_id_has_three_forms(form: MessageId | bytes | str) -> None:
    assert position(after=None, start=form) == ID.encode()
    assert position(after=form, start=None) == MessageId(1000, 6).encode()


def test_a_time_is_milliseconds_or_a_datetime() -> None:
    time = datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC)
    elsewhere = time.astimezone(timezone(timedelta(hours=5)))
    for form in (1000, time, elsewhere):
        assert position(after=None, start=form) == first_id_at(1000)
        assert position(after=form, start=None) == first_id_at(1001)


def test_a_datetime_far_away_is_exact() -> None:
    time = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)

    assert position(after=None, start=time) == first_id_at(253402300799999)


@pytest.mark.parametrize(
    ("form", "code"),
    [
        (b"short", "invalid_message_id"),
        ("zz", "invalid_message_id"),
        (b"\xff" * 20, "invalid_message_id"),
        (-1, "invalid_start_time"),
        (2**63, "invalid_start_time"),
        (datetime(1969, 1, 1, tzinfo=UTC), "invalid_start_time"),
    ],
)
def test_what_is_no_place_is_refused(form: bytes | str | int | datetime, code: str) -> None:
    for places in ({"after": form, "start": None}, {"after": None, "start": form}):
        with pytest.raises(InvalidRequest) as invalid:
            position(**places)
        assert invalid.value.problem.code == code


def test_misuse_is_told() -> None:
    with pytest.raises(ValueError, match="either after or start"):
        position(after=1, start=1)
    with pytest.raises(ValueError, match="has no time zone"):
        position(after=None, start=datetime(2026, 1, 1))  # noqa: DTZ001  that is the point
    with pytest.raises(TypeError):
        position(after=None, start=1.5)  # type: ignore[arg-type]
