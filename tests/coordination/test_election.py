"""Elections: one member leads, the others follow, and each change is reported once."""

import asyncio

import pytest

from tests.coordination.candidate import PATH, Candidate
from tests.coordination.member import Member
from tests.waiting import WAIT_S_MAX, passes, turns, until
from tms.coordination import LeaderState
from tms.core.errors import LockBusy, MetadataClosed, PathHasChildren, TooLarge
from tms.metadata.host import MetadataHost
from tms.metadata.interface import VALUE_BYTES_MAX, SessionEvent

pytestmark = pytest.mark.anyio

NO_LEADER, LEADING, FOLLOWING = (
    LeaderState.NO_LEADER,
    LeaderState.LEADING,
    LeaderState.FOLLOWING,
)


@pytest.fixture
async def one(host: MetadataHost) -> Candidate:
    return Candidate(host)


@pytest.fixture
async def two(host: MetadataHost) -> Candidate:
    return Candidate(host)


async def test_one_leads_and_the_next_takes_over(one: Candidate, two: Candidate) -> None:
    assert one.election.state is NO_LEADER
    assert await one.election.leader_content() is None
    assert await one.election.elect(b"one") is LEADING
    assert await one.election.elect(b"ignored") is LEADING
    assert await two.election.elect(b"two") is FOLLOWING
    assert await two.election.leader_content() == b"one"
    assert two.election.token is None
    old_token = one.election.token
    assert old_token is not None
    await one.election.close()
    token = await asyncio.wait_for(two.election.wait_until_leading(), WAIT_S_MAX)

    assert token > old_token
    assert one.election.state is NO_LEADER
    assert one.told == [LEADING, NO_LEADER]
    assert two.told == [FOLLOWING, LEADING]


async def test_it_may_stand_again_after_closing(one: Candidate) -> None:
    for _ in range(3):
        assert await one.election.elect(b"one") is LEADING
        await one.election.close()
        await one.election.close()
        assert not await one.store.exists(PATH)
    assert one.told == [LEADING, NO_LEADER] * 3


async def test_a_leader_whose_value_is_deleted_leads_again(one: Candidate, two: Candidate) -> None:
    await one.election.elect(b"one")
    old_token = one.election.token
    assert old_token is not None
    await two.store.delete(PATH)
    token = await asyncio.wait_for(one.election.wait_until_leading(), WAIT_S_MAX)

    assert token > old_token
    assert one.told == [LEADING, NO_LEADER, LEADING]


@pytest.mark.parametrize("content", [b"one", b"before"])
async def test_a_value_of_ones_own_session_is_taken_over(one: Candidate, content: bytes) -> None:
    await one.store.put(PATH, content, ephemeral=True)

    assert await one.election.elect(b"one") is LEADING
    assert await one.election.leader_content() == b"one"


async def test_what_another_session_left_is_followed_until_it_has_ended(
    host: MetadataHost, one: Candidate, two: Candidate
) -> None:
    await one.store.put(PATH, b"same", ephemeral=True)
    for content in (b"other", b"same"):
        assert await two.election.elect(content) is FOLLOWING
        await two.election.close()
    await two.election.elect(b"same")
    await host.expire(one.store)

    await until(lambda: two.election.state is LEADING)


async def test_two_with_the_same_content_do_not_take_it_from_each_other_for_ever(
    one: Candidate, two: Candidate
) -> None:
    assert await one.election.elect(b"same") is LEADING
    await two.election.elect(b"same")
    await until(lambda: {one.election.state, two.election.state} == {LEADING, FOLLOWING})
    await passes(0.02)

    assert {one.election.state, two.election.state} == {LEADING, FOLLOWING}
    assert len(one.told) + len(two.told) <= 5


async def test_a_stale_leaders_close_leaves_the_new_leader_alone(
    host: MetadataHost, one: Candidate, two: Candidate
) -> None:
    await one.election.elect(b"one")
    await two.election.elect(b"two")
    host.disconnect(one.store)
    await two.store.delete(PATH)  # as the end of its session would
    await until(lambda: two.election.state is LEADING)
    # The stale leader is connected again, but closes before it is notified of anything.
    one.store._is_connected = True
    await one.election.close()

    assert await two.election.leader_content() == b"two"
    assert two.told == [FOLLOWING, LEADING]


async def test_a_leader_steps_down_when_its_session_is_lost(
    host: MetadataHost, one: Candidate, two: Candidate
) -> None:
    await one.election.elect(b"one")
    await two.election.elect(b"two")
    await host.expire(one.store)
    assert one.election.state is NO_LEADER
    assert one.election.token is None
    await asyncio.wait_for(two.election.wait_until_leading(), WAIT_S_MAX)
    host.reconnect(one.store)
    await until(lambda: one.election.state is FOLLOWING)

    assert one.told == [LEADING, NO_LEADER, FOLLOWING]


async def test_a_leader_that_lost_its_session_leads_again_if_nobody_else_does(
    host: MetadataHost, one: Candidate
) -> None:
    await one.election.elect(b"one")
    old_token = one.election.token
    assert old_token is not None
    await host.expire(one.store)
    host.reconnect(one.store)

    assert await asyncio.wait_for(one.election.wait_until_leading(), WAIT_S_MAX) > old_token
    assert one.told == [LEADING, NO_LEADER, LEADING]


async def test_an_answer_that_is_overtaken_by_the_loss_of_the_session_makes_no_leader(
    host: MetadataHost, one: Candidate
) -> None:
    electing = asyncio.ensure_future(one.election.elect(b"one"))
    await turns()
    host.disconnect(one.store)
    one.store.happen(SessionEvent.SESSION_LOST)  # the client reports it before the server does
    await passes(0.05)
    assert one.election.token is None
    host.reconnect(one.store)

    assert await asyncio.wait_for(electing, WAIT_S_MAX) is LEADING


async def test_a_lost_connection_alone_changes_nothing(host: MetadataHost, one: Candidate) -> None:
    await one.election.elect(b"one")
    token = one.election.token
    host.disconnect(one.store)
    assert one.election.state is LEADING
    host.reconnect(one.store)
    await passes(0.02)

    assert one.election.token == token
    assert one.told == [LEADING]


async def test_it_is_elected_when_the_store_is_reached_again(
    host: MetadataHost, one: Candidate
) -> None:
    host.disconnect(one.store)
    electing = asyncio.ensure_future(one.election.elect(b"one"))
    await passes(0.01)
    assert not electing.done()
    host.reconnect(one.store)

    assert await asyncio.wait_for(electing, WAIT_S_MAX) is LEADING


async def test_closing_ends_every_waiter(
    host: MetadataHost, one: Candidate, two: Candidate
) -> None:
    await one.election.elect(b"one")
    await two.election.elect(b"two")
    leading = asyncio.ensure_future(two.election.wait_until_leading())
    await turns()
    await two.service.close()
    with pytest.raises(MetadataClosed):
        await asyncio.wait_for(leading, WAIT_S_MAX)
    with pytest.raises(MetadataClosed):
        await two.election.wait_until_leading()

    await one.election.close()
    host.disconnect(one.store)
    electing = asyncio.ensure_future(one.election.elect(b"one"))
    await turns()
    await one.service.close()
    with pytest.raises(MetadataClosed):
        await asyncio.wait_for(electing, WAIT_S_MAX)


async def test_a_path_is_stood_for_once_in_a_session(one: Candidate) -> None:
    await one.election.elect(b"one")
    with pytest.raises(LockBusy):
        one.service.election(PATH)
    with pytest.raises(LockBusy):
        await one.service.acquire_lock(PATH, b"one")


async def test_what_the_store_refuses_is_reported_and_the_member_may_try_again(
    one: Candidate, two: Candidate
) -> None:
    with pytest.raises(TooLarge):
        await asyncio.wait_for(one.election.elect(bytes(VALUE_BYTES_MAX + 1)), WAIT_S_MAX)
    await two.store.put(f"{PATH}/below", b"")
    with pytest.raises(PathHasChildren):
        await asyncio.wait_for(one.election.elect(b"one"), WAIT_S_MAX)
    assert not one.election.is_member
    await two.store.delete(f"{PATH}/below")

    assert await one.election.elect(b"one") is LEADING


async def test_a_listener_that_fails_ends_nothing(
    host: MetadataHost, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: LeaderState) -> None:
        raise ValueError

    member = Member(host)
    election = member.service.election(PATH, fail)

    assert await election.elect(b"x") is LEADING
    assert "listener" in caplog.text
