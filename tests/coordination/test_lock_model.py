"""Three sessions, one lock, and everything that can happen to sessions, in any order.

What a lock guards takes a write only under a token that is not smaller than the last one it took.
"""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.coordination.member import PATH, Member
from tests.scale import scaled
from tests.waiting import turns
from tms.coordination import ResourceLock
from tms.core.errors import LockBusy, Unavailable
from tms.metadata.host import MetadataHost

STEPS = ("acquire", "release", "update", "lose", "expire", "regain", "delete", "write", "wait")


class Rivals:
    """Members, with the lock that each believes it holds."""

    def __init__(self) -> None:
        self.host = MetadataHost()
        self.admin = self.host.open_session()
        self.members = [Member(self.host) for _ in range(3)]
        self.locks: dict[int, ResourceLock] = {}
        self.tokens: list[int] = []
        self.written_by: list[tuple[int, int]] = []

    async def step(self, number: int, what: str) -> None:
        member = self.members[number]
        lock = self.locks.get(number)
        try:
            if what == "acquire" and (lock is None or not lock.is_valid):
                self.locks[number] = await member.service.acquire_lock(PATH, b"%d" % number)
            elif what == "release" and lock is not None:
                await lock.release()
            elif what == "update" and lock is not None and lock.is_valid:
                await lock.update(b"%d" % number)
        except (LockBusy, Unavailable):
            return
        await self.happen(member, what)
        if what == "write" and lock is not None:
            last = self.written_by[-1][0] if self.written_by else 0
            if lock.token >= last:
                self.written_by.append((lock.token, number))

    async def happen(self, member: Member, what: str) -> None:
        if what == "lose" and member.store.is_connected:
            self.host.disconnect(member.store)
        elif what == "expire":
            await self.host.expire(member.store)
        elif what == "regain" and not member.store.is_connected:
            self.host.reconnect(member.store)
        elif what == "delete" and await self.admin.exists(PATH):
            await self.admin.delete(PATH)
        elif what == "wait":
            await self.settle()

    async def settle(self) -> None:
        await turns(30)

    def valid(self) -> list[ResourceLock]:
        return [lock for lock in self.locks.values() if lock.is_valid]


async def play(steps: list[tuple[int, str]]) -> None:
    rivals = Rivals()
    for number, what in steps:
        await rivals.step(number, what)
        found = await rivals.admin.get(PATH)
        if found is not None:
            rivals.tokens.append(found.stat.created_revision)
    for member in rivals.members:
        if not member.store.is_connected:
            rivals.host.reconnect(member.store)
    await rivals.settle()

    held = rivals.valid()
    found = await rivals.admin.get(PATH)
    assert len(held) <= 1, "once all is known, one holds it"
    if held:
        assert found is not None
        assert found.stat.created_revision == held[0].token
    assert rivals.tokens == sorted(rivals.tokens)
    by_token: dict[int, int] = {}
    for token, number in rivals.written_by:
        assert by_token.setdefault(token, number) == number, "two wrote under one token"
    for member in rivals.members:
        await member.service.close()
    assert not rivals.valid()


@settings(max_examples=scaled(150))
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(STEPS)), max_size=30))
def test_at_most_one_holds_the_lock_once_all_is_known(steps: list[tuple[int, str]]) -> None:
    asyncio.run(play(steps))
