"""Timeouts: each entry is due at its time, unless it was removed."""

import asyncio

import pytest

from api.http.protocol.timeouts import Timeouts
from tests.waiting import turns

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """asyncio's own loop: uvloop's timers use a clock that a test cannot set."""
    return "asyncio"


async def test_those_that_leave_in_time_are_left_alone_and_the_others_expire_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda: now_s)
    expired: list[str] = []
    timeouts = Timeouts(20, expired.append)

    timeouts.enter("first", loop)
    timeouts.enter("left", loop)
    timeouts.leave("left")
    now_s = 10
    timeouts.enter("second", loop)
    assert timeouts.oldest() == "first"

    now_s = 20
    await turns(2)
    assert (expired, timeouts.oldest()) == (["first"], "second")
    now_s = 30
    await turns(2)
    assert (expired, timeouts.oldest()) == (["first", "second"], None)
    assert timeouts._timer is None


async def test_what_leaves_may_enter_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda: now_s)
    expired: list[str] = []
    timeouts = Timeouts(20, expired.append)
    timeouts.enter("a", loop)
    now_s = 15
    timeouts.leave("a")
    timeouts.enter("a", loop)

    now_s = 20
    await turns(2)
    assert expired == []
    now_s = 35
    await turns(2)
    assert expired == ["a"]
