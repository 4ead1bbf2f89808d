"""Durations as people write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.text.durations import Duration, seconds_of, span, whole_seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("15m", 900),
        ("12h", 43_200),
        ("7d", 604_800),
        ("2w", 1_209_600),
        ("500ms", 0.5),
        ("1h30m", 5400),
        ("1d 2h".replace(" ", ""), 93_600),
        ("1.5h", 5400),
        ("0.1s", 0.1),
        ("7D", 604_800),
        (" 30s ", 30),
        ("30", 30),
        ("2.5", 2.5),
        ("-1", -1),
        (timedelta(hours=12), 43_200),
        (60, 60),
        (0.25, 0.25),
    ],
)
def test_a_duration_is_so_many_seconds(text: Duration, seconds: float) -> None:
    assert seconds_of(text) == seconds
    assert type(seconds_of(text)) is type(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "soon",
        "s",
        "30 s",
        "30x",
        "1m1h",
        "1h1h",
        "-1h",
        "1e3",
        "PT12H",
        "1,5h",
        "٣s",
        "nan",
    ],
)
def test_what_is_not_a_duration_is_refused_with_advice(text: str) -> None:
    with pytest.raises(ValueError, match="such as 30s, 15m, 12h, 1h30m, 7d"):
        seconds_of(text)


@given(st.integers(0, 10**9))
def test_whole_seconds_survive_in_any_form(seconds: int) -> None:
    days, rest = divmod(seconds, 86_400)
    for given_as in (seconds, str(seconds), f"{days}d{rest}s", timedelta(seconds=seconds)):
        assert whole_seconds_of(given_as) == seconds


def test_a_part_of_a_second_is_refused_if_it_must_be_whole() -> None:
    with pytest.raises(ValueError, match=r"'1\.5s' is not a whole number of seconds"):
        whole_seconds_of("1.5s")


def test_a_time_span_is_reported_in_its_largest_unit() -> None:
    assert [span(ms) for ms in (5, 5_000, 200_000, 7_200_000, 200_000_000)] == [
        "5 ms",
        "5 s",
        "3 min",
        "2 h",
        "2 d",
    ]
