"""Nobody can use up a shared bound alone."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tms.core.runtime.shares import Shares, reserve_of, share_of

BOUNDS = st.integers(1, 200)


@given(BOUNDS)
def test_one_alone_has_all_but_a_tenth(bound: int) -> None:
    assert share_of(bound, 0, 0) == max(bound - reserve_of(bound), reserve_of(bound))
    assert reserve_of(bound) == (0 if bound == 1 else max(1, bound // 10))


@given(BOUNDS, st.integers(0, 250), st.integers(0, 250))
def test_a_share_fits_and_leaves_the_reserve_to_others(bound: int, mine: int, others: int) -> None:
    room, reserve = share_of(bound, mine, others), reserve_of(bound)
    assert room >= 0
    assert room == 0 or mine + others + room <= bound
    if mine + room > reserve and room:
        assert mine + others + room <= bound - reserve
    if mine < reserve and mine + others < bound:
        assert room >= 1, "who has little gets some of what is left"


class Sharing(RuleBasedStateMachine):
    """Several take as much as they may, in any order, and give some back."""

    @initialize(bound=st.integers(2, 60))
    def begin(self, bound: int) -> None:
        self.shares = Shares(bound)
        self.held = dict.fromkeys(["ann", "bob", "cid", None], 0)

    @rule(who=st.sampled_from(["ann", "bob", "cid"]), part=st.floats(0, 1))
    def take(self, who: str, part: float) -> None:
        amount = round(self.shares.room(who) * part)
        self.shares.add(who, amount)
        self.held[who] += amount

    @rule(who=st.sampled_from(["ann", "bob", "cid", None]), part=st.floats(0, 1))
    def give_back(self, who: str | None, part: float) -> None:
        amount = round(self.held[who] * part)
        self.shares.add(who, -amount)
        self.held[who] -= amount

    @rule()
    def take_all_as_a_superuser(self) -> None:
        room = self.shares.room(None)
        self.shares.add(None, room)
        self.held[None] += room

    @invariant()
    def what_is_counted_is_what_is_held(self) -> None:
        if hasattr(self, "shares"):
            assert self.shares.used == sum(self.held.values()) <= self.shares.bound
            kept = {who: count for who, count in self.held.items() if who and count}
            assert self.shares._by_sharer == kept

    @invariant()
    def one_alone_keeps_nobody_out(self) -> None:
        if hasattr(self, "shares") and sum(1 for count in self.held.values() if count) <= 1:
            newcomer = next(who for who in ("ann", "bob") if not self.held[who])
            if not self.held[None]:
                assert self.shares.room(newcomer) >= reserve_of(self.shares.bound)


TestSharing = Sharing.TestCase


@given(
    st.integers(2, 400),
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 400), st.booleans()), max_size=200),
)
def test_many_at_once_leave_the_reserve_to_those_who_have_little(
    bound: int, steps: list[tuple[int, int, bool]]
) -> None:
    shares, reserve = Shares(bound), reserve_of(bound)
    held: dict[str, int] = {}
    for number, amount, gives_back in steps:
        who = f"p{number}"
        mine = held.get(who, 0)
        change = -min(amount, mine) if gives_back else min(amount, shares.room(who))
        shares.add(who, change)
        held[who] = mine + change
        left = bound - sum(held.values())
        assert left == bound - shares.used >= 0
        large = [count for count in held.values() if count > reserve]
        if sum(large) == shares.used:  # nobody uses the reserve
            assert left >= reserve
        small = sum(count for count in held.values() if count <= reserve)
        assert left + small >= reserve, "of the reserve those have nothing who have more"
        for name in (*held, "new"):
            has = held.get(name, 0)
            assert (shares.room(name) > 0) >= (has < reserve and left > 0)


@given(BOUNDS, st.integers(1, 50))
def test_a_number_that_is_set_holds_instead(bound: int, each_max: int) -> None:
    shares = Shares(bound, each_max)
    assert shares.room("ann") == min(bound, each_max)
    shares.add("ann", shares.room("ann"))
    assert shares.room("ann") == 0
    assert shares.room("bob") == min(bound - shares.used, each_max)
    assert shares.room(None) == bound - shares.used
