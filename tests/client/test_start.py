"""Where a poll starts, in each form that a caller may write."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tms.client.reading.start import Start, place_of, position
from tms.core.errors import InvalidRequest
from tms.core.values.message import FIRST_ID, LAST_ID, Message, MessageId, first_id_at

ID = MessageId(1000, 5)


def test_nothing_is_the_oldest_message() -> None:
    assert position(after=None, start=None) == FIRST_ID


@pytest.mark.parametrize(
    "form", [ID, ID.encode(), str(ID), str(ID).upper(), Message(b"payload", id=ID.encode())]
)
def test_a_message_is_named_by_itself_or_by_its_id(form: Start) -> None:
    assert position(after=None, start=form) == ID.encode()
    assert position(after=form, start=None) == MessageId(1000, 6).encode()
    assert place_of(form) == ID.encode()


def test_the_end_of_a_range_need_not_be_an_id() -> None:
    assert place_of(LAST_ID) == LAST_ID
    assert place_of(5) == first_id_at(5)


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
def test_what_is_not_a_place_is_refused(form: bytes | str | int | datetime, code: str) -> None:
    for places in ({"after": form, "start": None}, {"after": None, "start": form}):
        with pytest.raises(InvalidRequest) as invalid:
            position(**places)
        assert invalid.value.problem.code == code


@pytest.mark.parametrize("seconds", [1_000_000_000, 1_785_585_600, 9_999_999_999])
def test_a_time_in_seconds_is_refused_with_advice(seconds: int) -> None:
    for places in ({"after": seconds, "start": None}, {"after": None, "start": seconds}):
        with pytest.raises(InvalidRequest, match="multiply it by 1000") as refused:
            position(**places)
        assert refused.value.problem.code == "start_time_in_seconds"
        assert refused.value.detail == {"start_time": seconds}
    with pytest.raises(InvalidRequest):
        place_of(seconds)


def test_a_time_that_can_only_be_milliseconds_is_taken() -> None:
    for ms in (0, 999_999_999, 10_000_000_000, 1_785_585_600_000):
        assert position(after=None, start=ms) == first_id_at(ms)
    early = datetime(1970, 2, 1, tzinfo=UTC)
    assert position(after=None, start=early) == first_id_at(2_678_400_000)


def test_misuse_is_reported() -> None:
    with pytest.raises(ValueError, match="either after or start"):
        position(after=1, start=1)
    with pytest.raises(ValueError, match="has no time zone"):
        position(after=None, start=datetime(2026, 1, 1))  # noqa: DTZ001  the time zone is missing
    with pytest.raises(TypeError):
        position(after=None, start=1.5)  # type: ignore[arg-type]
