"""Turns are given fairly by share and in order, and none is lost."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.waiting import in_time
from tests.waiting import turns as loop_turns
from tms.core.runtime.shares import Shares, share_of
from tms.registry.checking.turns import Turns

pytestmark = pytest.mark.anyio
WHO = st.sampled_from(["ann", "bob", None])


async def test_who_has_many_at_work_holds_up_nobody_else() -> None:
    turns, begun = Turns(3), []
    end = asyncio.Event()

    async def work(name: str) -> None:
        async with turns.turn(name):
            begun.append(name)
            await end.wait()

    hostile = [asyncio.create_task(work("ann")) for _ in range(8)]
    await loop_turns()
    other = asyncio.create_task(work("bob"))
    await loop_turns()
    assert begun == ["ann", "ann", "bob"]
    end.set()
    await asyncio.gather(*hostile, other)
    assert Counter(begun) == {"ann": 8, "bob": 1}


async def test_callers_take_turns_and_each_in_its_order() -> None:
    turns, done = Turns(1), []

    async def work(name: str, number: int) -> None:
        async with turns.turn(name):
            await loop_turns()
            done.append(f"{name}{number}")

    asked = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]
    await asyncio.gather(*(work(*each) for each in asked))
    assert done == ["a1", "a2", "b1", "a3", "b2"]


class GivenOut(Shares):
    """Checks each turn as it is given; the waiting task itself continues a little later."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.counts: Counter[str | None] = Counter()

    def add(self, sharer: str | None, amount: int = 1) -> None:
        if amount > 0 and sharer is not None:
            others = self.counts.total() - self.counts[sharer]
            assert share_of(self.bound, self.counts[sharer], others) > 0
        self.counts[sharer] += amount
        super().add(sharer, amount)


@given(
    st.integers(1, 4),
    st.lists(st.tuples(WHO, st.integers(0, 3), st.none() | st.integers(0, 4)), max_size=25),
)
def test_all_who_wait_get_a_turn_and_nobody_more_than_its_share(
    count: int, given: list[tuple[str | None, int, int | None]]
) -> None:
    turns, given_out = Turns(count), GivenOut(count)
    turns._shares = given_out
    at_work: Counter[str | None] = Counter()

    async def work(who: str | None, steps: int) -> None:
        async with turns.turn(who):
            at_work[who] += 1
            assert at_work.total() <= count
            try:
                await loop_turns(steps)
            finally:
                at_work[who] -= 1

    async def all_of_them() -> None:
        tasks = []
        for who, steps, cancelled_after in given:
            task = asyncio.create_task(work(who, steps))
            tasks.append(task)
            await loop_turns(cancelled_after or 0)
            if cancelled_after is not None:
                task.cancel()
        async with in_time():
            found = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(each) for each in found} <= {type(None), asyncio.CancelledError}
        assert not turns._waiting
        assert not given_out.counts.total()

    asyncio.run(all_of_them())
