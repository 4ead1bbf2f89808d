"""Three members of one election, and everything that can happen to sessions, in any order."""

import asyncio
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coordination.candidate import PATH, Candidate
from tests.scale import scaled
from tests.waiting import WAIT_S_MAX, turns
from tms.coordination.election import LeaderState
from tms.metadata.host import MetadataHost

STEPS = ("elect", "close", "lose", "expire", "regain", "delete", "wait")


class Members:
    """Candidates, with the tokens under which each of them led."""

    def __init__(self) -> None:
        self.host = MetadataHost()
        self.admin = self.host.open_session()
        self.candidates = [Candidate(self.host) for _ in range(3)]
        self.standing: set[int] = set()
        self.led_by: dict[int, int] = {}
        self.electing: list[asyncio.Task[object]] = []

    async def step(self, number: int, what: str) -> None:
        candidate = self.candidates[number]
        store = candidate.store
        if what == "elect":
            self.standing.add(number)
            call = candidate.election.elect(b"%d" % number)
            self.electing.append(asyncio.ensure_future(call))
            await turns()  # otherwise a close might come before it
        elif what == "close" and store.is_connected:
            self.standing.discard(number)
            await candidate.election.close()
        elif what == "lose" and store.is_connected:
            self.host.disconnect(store)
        elif what == "expire":
            await self.host.expire(store)
        elif what == "regain" and not store.is_connected:
            self.host.reconnect(store)
        elif what == "delete" and await self.admin.exists(PATH):
            await self.admin.delete(PATH)
        elif what == "wait":
            await self.settle()
        self.look()

    def look(self) -> None:
        for number, candidate in enumerate(self.candidates):
            token = candidate.election.token
            if token is not None:
                assert self.led_by.setdefault(token, number) == number

    async def settle(self) -> None:
        await turns(40)
        self.look()


async def play(steps: list[tuple[int, str]]) -> None:
    members = Members()
    for number, what in steps:
        await members.step(number, what)
    for candidate in members.candidates:
        if not candidate.store.is_connected:
            members.host.reconnect(candidate.store)
    await members.settle()

    leading = [c for c in members.candidates if c.election.state is LeaderState.LEADING]
    found = await members.admin.get(PATH)
    assert len(leading) == (1 if members.standing else 0)
    assert (found is not None) == bool(members.standing)
    if found is not None:
        assert found.stat.created_revision == leading[0].election.token
    for candidate in members.candidates:
        told = candidate.told
        assert all(one is not next_one for one, next_one in pairwise(told))
        await candidate.service.close()
    await asyncio.wait_for(asyncio.gather(*members.electing, return_exceptions=True), WAIT_S_MAX)
    assert not await members.admin.exists(PATH)


@settings(max_examples=scaled(150))
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(STEPS)), max_size=30))
def test_one_leads_once_all_is_known(steps: list[tuple[int, str]]) -> None:
    asyncio.run(play(steps))
