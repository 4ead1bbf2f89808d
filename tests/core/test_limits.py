"""Limits that contradict each other are refused."""

import pytest

from tms.core.limits import Limits


@pytest.mark.parametrize(
    "wrong",
    [
        {"poll_messages_max": 0},
        {"cache_bytes_max": -1},
        {"message_bytes_max": 32 * 1024 * 1024},
        {"request_bytes_max": 128 * 1024 * 1024},
        {"poll_messages_default": 2_000_000},
        {"ttl_s_default": 2**31},
    ],
)
def test_wrong_limits_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        Limits(**wrong)


def test_no_cache_is_a_choice() -> None:
    assert Limits(cache_bytes_max=0).cache_bytes_max == 0
