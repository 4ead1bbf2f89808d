"""The counts of groups, and the time from publish to ack."""

from collections.abc import Iterator
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric

from tests.messaging.conftest import TOPIC
from tests.messaging.groups.conftest import World, ids, number, payloads
from tests.waiting import until
from tms.core.values.group_counts import GroupCounts
from tms.core.values.groups import Acks, Nacks
from tms.core.values.histogram import Histogram
from tms.core.values.message import FIRST_ID
from tms.core.values.topic import TopicId
from tms.messaging.groups.counts import _SECONDS, CountsByGroup, Tally
from tms.messaging.groups.service import GroupService
from tms.messaging.traffic import OTHER

NOW_MS = 10**12


async def counts(world: World) -> GroupCounts:
    return (await world.services.groups.group(TOPIC, "g")).counts


@pytest.mark.anyio
async def test_what_members_do_is_counted(world: World) -> None:
    await world.services.groups.set_group(TOPIC, "g", {"attempts_max": 2, "retry_s": 0})
    await world.publish(b"1", b"2", b"3")
    taken = await world.take("a", 2)
    await world.settle(acks=[Acks(number(taken), ids(taken)[:1])], nacks=[Nacks(number(taken))])
    assert await counts(world) == GroupCounts(taken=2, acked=1, failed=1)
    again = await world.take("a", 1)
    await world.settle(nacks=[Nacks(number(again))])

    async def is_dead() -> bool:
        return (await counts(world)).dead == 1

    await until(is_dead)
    await world.settle(acks=[Acks(number(again))])
    await world.services.groups.skip(TOPIC, "g", ids(again))
    last = await world.take("a", 5)
    assert payloads(last) == [b"3"]
    await world.services.groups.skip(TOPIC, "g", ids(last))
    await world.services.groups.set_group(TOPIC, "g", {"paused": True})
    await world.take()
    assert asdict(await counts(world)) == {
        "taken": 4,
        "retried": 1,
        "acked": 1,
        "failed": 2,
        "dead": 1,
        "gone": 0,
        "skipped": 1,
        "refused": 1,
        "limited": 1,
    }


@pytest.mark.anyio
async def test_messages_that_are_gone_are_counted(world: World) -> None:
    await world.publish(b"1", b"2")
    taken = await world.take()
    await world.settle(nacks=[Nacks(number(taken))])
    world.clock.advance(5_000)
    await world.services.messaging.trim_topic(TOPIC, world.clock.now_ms())
    assert (await world.take()).delivery is None
    assert (await counts(world)).gone >= 1


@pytest.mark.anyio
async def test_counts_stay_while_a_group_leaves_memory_and_end_with_it(world: World) -> None:
    await world.publish(b"1")
    await world.settle(acks=[Acks(number(await world.take()))])
    service = world.services.groups
    assert isinstance(service, GroupService)
    [loaded] = service._groups.loaded
    service._groups.drop(loaded)
    assert (await counts(world)).acked == 1
    await world.services.groups.delete_group(TOPIC, "g")
    await world.services.groups.create_group(TOPIC, "g")
    assert (await counts(world)).acked == 0
    await world.services.groups.delete_group(TOPIC, "g")
    await world.services.refresh_lags()
    assert not list(names(service._groups.counts))


def names(counts: CountsByGroup) -> Iterator[str]:
    family = next(each for each in counts.collect() if each.name == "tms_group_acked")
    return (each.labels["group"] for each in family.samples if each.labels["group"] != OTHER)


def value(families: dict[str, Metric], group: str, name: str) -> float:
    [found] = [
        each.value
        for each in families["tms_group_acked"].samples
        if each.labels["group"] == group and each.name == name
    ]
    return found


def test_groups_beyond_the_bound_are_counted_together() -> None:
    of = CountsByGroup(series_max=1)
    topic_id = TopicId("default", "t")
    own, second, third = (of.begin(topic_id, name, 1) for name in ("a", "b", "c"))
    for each, times in ((own, 1), (second, 2), (third, 4)):
        each.ack([FIRST_ID] * times, NOW_MS)
    of.end(second)
    families = {each.name: each for each in of.collect()}
    assert value(families, "a", "tms_group_acked_total") == 1
    assert value(families, OTHER, "tms_group_acked_total") == 6
    count = [
        each.value
        for each in families["tms_group_ack_seconds"].samples
        if each.name == "tms_group_ack_seconds_count" and each.labels["group"] == OTHER
    ]
    assert count == [6]
    assert of.begin(topic_id, "b", 1).acked == 0, "what left memory stays in the sum alone"
    of.keep([])
    assert of.begin(topic_id, "d", 1) is of.begin(topic_id, "d", 1), "there is room again"


AGES_MS = st.lists(
    st.integers(-5, 200_000_000) | st.sampled_from([int(each * 1000) for each in _SECONDS]),
    min_size=1,
    max_size=50,
)


@given(AGES_MS)
def test_the_buckets_of_an_ack_are_those_of_its_messages(ages_ms: list[int]) -> None:
    times = sorted(NOW_MS - each for each in ages_ms)
    counts, one_by_one = Tally(), Histogram(_SECONDS)
    ids = [each.to_bytes(8) + bytes([0, at] * 6) for at, each in enumerate(times)]
    counts.ack(ids, NOW_MS)
    for each in times:
        one_by_one.observe(max(0, NOW_MS - each) / 1000)
    assert counts.shown().acked == len(ages_ms)
    assert counts.ack_seconds.buckets() == one_by_one.buckets()


@given(AGES_MS)
def test_acks_of_one_message_are_counted_as_each_of_them(ages_ms: list[int]) -> None:
    counts, one_by_one = Tally(), Histogram(_SECONDS)
    for at, age_ms in enumerate(ages_ms * 2):  # more than are counted together
        counts.ack([(NOW_MS - age_ms + at).to_bytes(8) + bytes(12)], NOW_MS + at)
        one_by_one.observe(max(0, age_ms) / 1000)
    assert counts.shown().acked == 2 * len(ages_ms)
    assert counts.ack_seconds.buckets() == one_by_one.buckets()
    assert counts.ack_seconds.total == pytest.approx(one_by_one.total)
