"""Dead letters of groups: written once, listed, dropped; a failed write is retried."""

import asyncio
from pathlib import Path

import pytest

from cleanup.inspection_service import _explain_groups
from tables.copying import Copying
from tables.leveldb import LevelDBStore
from tables.store_tables import StoreTables
from tests.messaging.conftest import TOPIC
from tests.messaging.groups.conftest import BILLS, World, ids, number, payloads
from tests.messaging.groups.failing import DEAD, fail, has, letters, with_dead_letters
from tests.waiting import until
from tms.core.errors import InvalidRequest, TopicNotFound
from tms.core.limits import Limits
from tms.core.values.dead_letters import Disposition, origin_of
from tms.core.values.frame import bodies_of
from tms.core.values.group_settings import GroupSettings
from tms.core.values.groups import Acks, LimitedBy, Nacks, Refusal, Settle, Take
from tms.core.values.message import Message
from tms.core.values.topic import TopicId

pytestmark = pytest.mark.anyio


async def test_the_last_attempt_makes_a_dead_letter(world: World) -> None:
    await with_dead_letters(world)
    [published] = await world.publish(b"bad")
    await fail(world, reason="first")
    assert not await letters(world)
    await fail(world, reason="no such order")
    [letter] = await has(world, 1)
    assert letter.payload == b"bad"
    origin = origin_of(letter.headers)
    assert origin is not None
    assert (origin.topic, origin.group, origin.id) == (TOPIC.name, "g", published)
    assert (origin.disposition, origin.attempts) == (Disposition.ATTEMPTS, 2)
    assert (origin.reason, origin.member) == ("no such order", "a")
    state = (await world.services.groups.group(TOPIC, "g")).state
    assert (state.open, state.dying, state.unread) == (0, 0, 0)


async def test_a_lease_that_ends_is_an_attempt(world: World) -> None:
    await with_dead_letters(world, attempts_max=1)
    await world.publish(b"slow")
    await world.take("a", lease_s=1)
    world.clock.advance(2_000)
    await world.services.groups.group(TOPIC, "g")
    [letter] = await has(world, 1)
    origin = origin_of(letter.headers)
    assert origin is not None
    assert origin.disposition is Disposition.UNACKNOWLEDGED


async def test_a_rejected_message_dies_at_once_with_key_and_headers(world: World) -> None:
    await with_dead_letters(world, attempts_max=0, dead_letter=BILLS.name)
    body = Message(b"bad", b"k", {"a": b"1", "tms-dead-topic": b"elsewhere"}).body()
    await world.services.messaging.publish(TOPIC, bodies_of([body]))
    await fail(world, dead=True, reason="nonsense")
    [letter] = await has(world, 1, BILLS)
    assert (letter.key, letter.headers["a"]) == (b"k", b"1")
    assert letter.headers["tms-dead-topic"] == TOPIC.name.encode()
    assert letter.headers["tms-dead-disposition"] == b"rejected"


async def test_without_a_topic_a_rejected_message_stays_with_its_member(world: World) -> None:
    await world.publish(b"bad")
    taken = await world.take()
    nacks = [Nacks(number(taken), dead=True)]
    assert await world.settle(nacks=nacks) == [Refusal.NO_DEAD_LETTER]
    assert not await world.settle(acks=[Acks(number(taken))])


async def test_what_cannot_be_written_waits_over_a_restart(world: World) -> None:
    await with_dead_letters(world, attempts_max=1)
    await world.services.messaging.delete_topic(DEAD)
    await world.publish(b"bad")
    await fail(world)
    group = await world.services.groups.group(TOPIC, "g")
    assert (group.state.open, group.state.dying) == (1, 1)
    taken = await world.take("b")
    assert (taken.delivery, taken.limited_by) == (None, LimitedBy.DEAD_LETTER)
    await world.again()
    assert (await world.services.groups.group(TOPIC, "g")).state.dying == 1
    await world.services.messaging.create_topic(DEAD)
    await world.again()
    await world.services.groups.group(TOPIC, "g")
    assert [each.payload for each in await has(world, 1)] == [b"bad"]


async def test_a_late_ack_wins_over_a_dead_letter_that_waits(world: World) -> None:
    await with_dead_letters(world, attempts_max=1)
    await world.services.messaging.delete_topic(DEAD)
    await world.publish(b"slow")
    taken = await world.take()
    await world.settle(nacks=[Nacks(number(taken))])
    assert not await world.settle(acks=[Acks(number(taken), ids(taken))])
    await world.services.messaging.create_topic(DEAD)
    await world.again()
    state = (await world.services.groups.group(TOPIC, "g")).state
    assert (state.open, state.dying) == (0, 0)
    assert not await letters(world)


async def test_a_group_pauses_before_its_topic_drains(world: World) -> None:
    await with_dead_letters(world, attempts_max=1, dead_letters_max=3)
    await world.publish(*[b"%d" % each for each in range(10)])
    await fail(world, messages=10)
    assert (await world.take()).limited_by is LimitedBy.PAUSED
    await has(world, 3)

    async def is_paused() -> bool:
        return (await world.services.groups.group(TOPIC, "g")).settings.paused

    await until(is_paused)
    await world.again()
    assert await is_paused()
    assert len(await letters(world)) == 3
    await world.services.groups.set_group(TOPIC, "g", {"paused": False})
    taken = await world.take("a", 10)
    assert payloads(taken) == [b"%d" % each for each in range(3, 10)]
    assert set(taken.attempts) == {2}


async def test_a_group_pauses_itself_once_and_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await with_dead_letters(world, attempts_max=1, dead_letters_max=3)
    ids = await world.publish(*[b"%d" % each for each in range(10)])
    taken = await world.take("a", 10)

    async def is_paused() -> bool:
        return (await world.services.groups.group(TOPIC, "g")).settings.paused

    for message_id in ids:
        await world.settle("a", nacks=[Nacks(number(taken), [message_id])])
        if message_id >= ids[3]:
            await until(is_paused)
    await has(world, 3)
    assert [each.message.partition(" of ")[0] for each in caplog.records] == ["paused group g"]
    shown = await world.services.groups.group(TOPIC, "g")
    assert shown.state.limited_by is LimitedBy.PAUSED


async def test_a_change_of_settings_does_not_lift_a_pause_that_is_not_stored_yet(
    world: World,
) -> None:
    groups = world.services.groups
    await with_dead_letters(world, attempts_max=1, dead_letters_max=1)
    await world.publish(b"1", b"2")
    taken = await world.take("a", 2)
    change = groups.set_group(TOPIC, "g", {"lease_s": 60})
    await asyncio.gather(change, world.settle(nacks=[Nacks(number(taken))]))
    assert (await world.take()).limited_by is LimitedBy.PAUSED

    async def is_paused() -> bool:
        return (await groups.group(TOPIC, "g")).settings.paused

    await until(is_paused)
    await groups.set_group(TOPIC, "g", {"paused": False})
    assert (await world.take()).lease_s == 60


async def test_a_topic_of_dead_letters_that_leads_back_is_refused(world: World) -> None:
    groups = world.services.groups
    with pytest.raises(InvalidRequest):
        await groups.set_group(TOPIC, "g", {"dead_letter": TOPIC.name})
    await groups.set_group(TOPIC, "g", {"dead_letter": BILLS.name})
    await groups.create_group(BILLS, "h")
    with pytest.raises(InvalidRequest):
        await groups.set_group(BILLS, "h", {"dead_letter": TOPIC.name})
    with pytest.raises(TopicNotFound):
        await groups.set_group(BILLS, "h", {"dead_letter": "nowhere"})
    with pytest.raises(InvalidRequest):
        await groups.set_group(TOPIC, "g", {"dead_letter": ""})
    await groups.set_group(TOPIC, "g", {"attempts_max": 3})
    assert (await groups.group(TOPIC, "g")).settings.dead_letter == BILLS.name


async def test_a_group_of_dead_letters_names_a_topic_of_its_own(world: World) -> None:
    await with_dead_letters(world)
    await world.services.groups.create_group(DEAD, "again")
    with pytest.raises(InvalidRequest):
        await world.services.groups.set_group(DEAD, "again", {"attempts_max": 2})


async def test_an_operator_skips_gives_back_and_fails_messages(world: World) -> None:
    groups = world.services.groups
    first, second, third = await world.publish(b"1", b"2", b"3")
    taken = await world.take("a", 3)
    assert await groups.skip(TOPIC, "g", [first, first]) == 1
    assert await groups.skip(TOPIC, "g", [first]) == 0
    assert await groups.take_back(TOPIC, "g", ids=[second]) == 1
    assert await groups.take_back(TOPIC, "g", member="b") == 0
    assert await groups.take_back(TOPIC, "g", member="a", failed=True) == 1
    refused = await world.settle("a", extend=[number(taken)])
    assert refused == [Refusal.LEASE_LOST]
    await world.again()
    opened = await world.services.groups.open_messages(TOPIC, "g")
    assert [(each.id, each.attempts) for each in opened] == [(second, 0), (third, 1)]
    assert {each.member for each in opened} == {None}


async def test_dead_letters_live_at_least_as_long_as_their_messages(world: World) -> None:
    messaging = world.services.messaging
    for name, ttl_s in (("short", 60), ("long", 10_000_000)):
        topic_id = TopicId(TOPIC.namespace, name)
        await messaging.create_topic(topic_id, {"ttl": ttl_s})
        settings = GroupSettings(attempts_max=1)
        await world.services.groups.create_group(topic_id, "g", settings)
        dead = await messaging.topic(TopicId(TOPIC.namespace, f"{name}--dead"))
        assert dead.ttl_s == max(ttl_s, Limits().ttl_s_default)


async def test_an_explanation_says_that_a_message_is_dying_dead_or_given_again(
    world: World,
) -> None:
    await with_dead_letters(world, attempts_max=1)
    [bad] = await world.publish(b"bad")

    async def said() -> str:
        [sentence] = await _explain_groups(world.services.groups, TOPIC, bad)
        return sentence

    await world.services.messaging.delete_topic(DEAD)
    await fail(world, reason="no such order")
    assert "it is open (dying)" in await said()
    await world.services.messaging.create_topic(DEAD)
    await world.again()  # the write is tried again when the group is loaded, or after 5 seconds
    assert "it is" in await said()
    [letter] = await has(world, 1)
    assert f"it is dead: {letter.id.hex()} of topic {DEAD.name}" in await said()
    assert "by attempts after 1 attempt: no such order" in await said()
    await world.services.groups.redrive(TOPIC, "g", [letter.id])
    redriven = f"it was redriven after it was dead: {letter.id.hex()} of topic {DEAD.name}"
    assert "it is open (available)" in await said()
    assert redriven in await said()
    taken = await world.take("a")
    assert redriven in await said()
    await world.settle("a", acks=[Acks(number(taken))])
    assert f"its dead letter was redriven or dropped: {letter.id.hex()}" in await said()
    assert "it is open" not in await said()


async def test_a_copy_of_the_store_has_them_and_redrives_each_once(
    world: World, tmp_path: Path
) -> None:
    await with_dead_letters(world, attempts_max=1)
    await world.publish(b"1", b"2", b"3")
    await fail(world, messages=3)
    first, second, third = await has(world, 3)
    await world.services.groups.redrive(TOPIC, "g", [first.id])
    await world.services.groups.drop_dead_letters(TOPIC, "g", [third.id])
    await world.services.close()
    source = world.tables()
    target = LevelDBStore(tmp_path / "copy", sync=False)
    copying = Copying(source.store, target, "a")
    copying.check()
    for _ in copying.steps((), ()):
        pass
    target.close()
    world.tables = lambda: StoreTables(LevelDBStore(tmp_path / "copy"))
    source.close()
    await world.open()
    groups = world.services.groups
    assert [each.id for each in (await groups.dead_letters(TOPIC, "g")).letters] == [second.id]
    for expected in (1, 0):
        ids = [each.id for each in (first, second, third)]
        assert (await groups.redrive(TOPIC, "g", ids)).redriven == expected
    assert payloads(await world.take("b", 5)) == [b"1", b"2"]


async def test_two_groups_share_a_topic_that_is_deleted_and_made_again(world: World) -> None:
    groups, messaging = world.services.groups, world.services.messaging
    await with_dead_letters(world, attempts_max=1)
    await groups.create_group(TOPIC, "h")
    await groups.set_group(TOPIC, "h", {"attempts_max": 1, "dead_letter": DEAD.name})
    await world.publish(b"1")
    await fail(world)
    taken = await groups.take(TOPIC, "h", Take("b"))
    await groups.settle(TOPIC, "h", "b", Settle(nacks=[Nacks(number(taken))]))
    await has(world, 2)
    assert (await groups.redrive(TOPIC, "g")).redriven == 1
    assert len((await groups.dead_letters(TOPIC, "h")).letters) == 1
    await messaging.delete_topic(DEAD)
    await messaging.create_topic(DEAD)
    assert not (await groups.dead_letters(TOPIC, "h")).letters
    await fail(world)
    [letter] = await has(world, 1)
    assert [each.id for each in (await groups.dead_letters(TOPIC, "g")).letters] == [letter.id]


async def test_a_group_created_after_a_restart_lists_its_dead_letters(world: World) -> None:
    """Its version is ahead of the clock then: above all that the last process may have given."""
    for _ in range(3):
        await world.again()
        groups = world.services.groups
        await groups.delete_group(TOPIC, "g")
        await groups.create_group(TOPIC, "g", GroupSettings(attempts_max=1))
    [bad] = await world.publish(b"bad")
    await fail(world, reason="no such order")
    [letter] = await has(world, 1)
    assert [each.id for each in (await groups.dead_letters(TOPIC, "g")).letters] == [letter.id]
    [said] = await _explain_groups(groups, TOPIC, bad)
    assert "by attempts after 1 attempt: no such order" in said
    assert (await groups.redrive(TOPIC, "g")).redriven == 1
    assert payloads(await world.take()) == [b"bad"]


async def test_a_group_made_again_does_not_list_dead_letters_of_its_predecessor(
    world: World,
) -> None:
    """Even if the clock was set back, so that they are later than the group."""
    await with_dead_letters(world, attempts_max=1)
    await world.publish(b"bad")
    world.clock.advance(3_600_000)
    await fail(world)
    await has(world, 1)
    world.clock.step(-3_600_000)
    groups = world.services.groups
    await groups.delete_group(TOPIC, "g")
    await groups.create_group(TOPIC, "g", GroupSettings(attempts_max=1))
    assert not (await groups.dead_letters(TOPIC, "g")).letters
    await fail(world)
    _, letter = await has(world, 2)
    assert [each.id for each in (await groups.dead_letters(TOPIC, "g")).letters] == [letter.id]
