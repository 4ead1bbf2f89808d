"""The longest step of a loop is measured whenever it occurs, without collections, and expires."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.virtual_loop import VirtualLoop
from tests.waiting import passes
from tms.server.loop_steps import LoopSteps


class Busy:
    """A clock that advances with the loop's, and during steps that keep the loop busy."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self.steps = LoopSteps(self.now)

    def now(self) -> float:
        return asyncio.get_running_loop().time() + self.spent_s

    def spend(self, seconds: float) -> None:
        self.spent_s += seconds


def run_virtually(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)


@pytest.mark.parametrize("before_s", [0.0, 0.004, 0.01, 0.5, 59.999])
def test_a_step_is_measured_within_ten_milliseconds_whenever_it_comes(before_s: float) -> None:
    async def run() -> None:
        busy = Busy()
        with busy.steps.measured():
            await passes(before_s)
            for step_s in (0.3, 0.02, 0.1):
                busy.spend(step_s)
                await passes(0.05)
            assert 0.29 - 1e-9 <= busy.steps.longest_step_s <= 0.3 + 1e-9

    run_virtually(run())


def test_nothing_is_measured_of_a_loop_that_waits() -> None:
    async def run() -> None:
        busy = Busy()
        with busy.steps.measured():
            await passes(1)
            assert busy.steps.longest_step_s < 1e-6

    run_virtually(run())


def test_a_step_is_forgotten_after_two_minutes_and_not_within_one() -> None:
    async def run() -> None:
        busy = Busy()
        with busy.steps.measured():
            busy.spend(0.3)
            await passes(59)
            assert busy.steps.longest_step_s > 0.2
            await passes(62)
            assert busy.steps.longest_step_s < 0.01

    run_virtually(run())


def test_a_collection_is_measured_apart() -> None:
    async def run() -> None:
        busy = Busy()
        with busy.steps.measured():
            with busy.steps.collecting():
                busy.spend(0.3)
            await passes(0.05)
            assert busy.steps.longest_collection_s == pytest.approx(0.3)
            assert busy.steps.longest_step_s < 0.01
        shown = {each.name: each.samples[0].value for each in busy.steps.collect()}
        assert shown["tms_longest_collection_seconds"] == pytest.approx(0.3)
        assert shown["tms_loop_longest_step_seconds"] < 0.01

    run_virtually(run())
