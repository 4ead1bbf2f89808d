"""`take_once`: one request returns a list; nothing of it is lost or held longer than its lease."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

import tms
import tms.aio
from tests.client.taking import group
from tests.waiting import WAIT_S_MAX, until, wait_until

__all__ = ["group"]

PAYLOADS = [b"%d" % number for number in range(6)]


def test_it_gives_at_most_so_many_and_then_none(topic: tms.Topic, group: tms.TopicGroup) -> None:
    assert group.take_once(3, wait_s=0.1) == []
    topic.publish(PAYLOADS)
    first = group.take_once(4)
    assert [each.payload for each in first] == PAYLOADS[:4]
    second = group.take_once(4, wait_s=20)
    assert [each.payload for each in second] == PAYLOADS[4:]
    for message in (*first, *second):
        with message:
            assert message.attempt == 1
    assert group.take_once() == []
    assert (group.show().state.open, len(group.members())) == (0, 1)
    for wrong in (0, 1_001):
        with pytest.raises(tms.InvalidRequest):
            group.take_once(wrong)
    with pytest.raises(tms.SubscriptionNotFound):
        topic.group("other").take_once()


def test_it_waits_for_a_message_that_comes(topic: tms.Topic, group: tms.TopicGroup) -> None:
    with ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(group.take_once, 2, WAIT_S_MAX / 3) for _ in range(3)]
        wait_until(lambda: len(group.members()) == 3)
        for number in range(6):
            topic.publish(b"%d" % number)
            if all(each.done() for each in waiting):
                break
        taken = [each.result(WAIT_S_MAX) for each in waiting]
    ids = [message.id for messages in taken for message in messages]
    assert all(taken)
    assert len(ids) == len(set(ids))


def test_each_way_to_settle(client: tms.Client, topic: tms.Topic, group: tms.TopicGroup) -> None:
    topic.publish(PAYLOADS)
    one, two, three, four, five, six = group.take_once(6)
    one.ack()
    two.nack(delay_s=3600, reason="not now")
    three.release()
    with client.transaction() as tx:
        topic.publish(b"answer", tx)
        four.ack(tx)
    client.publish_all({"orders": b"answer"}, acks=[five])
    assert {each.id: each.state for each in group.open()} == {
        two.id: "waiting",
        three.id: "available",
        six.id: "leased",
    }


@pytest.mark.parametrize("store_kind", ["server"])
def test_closing_the_client_gives_back(url: str, namespace: str) -> None:
    with tms.connect(url, namespace) as client:
        topic = client.topic("t")
        topic.create()
        group = topic.group("g")
        group.create()
        topic.publish(b"1")
        with tms.connect(url, namespace) as other:
            [message] = other.topic("t").group("g").take_once()
            assert group.take_once() == []
        assert [each.attempt for each in group.take_once(wait_s=20)] == [message.attempt]


@pytest.mark.parametrize("store_kind", ["server"])
@pytest.mark.anyio
async def test_a_take_that_had_no_answer_is_not_lost(url: str, namespace: str) -> None:
    """Its deadline or its task ends while it waits; the server may still lease messages to it."""
    async with tms.aio.connect(url, namespace) as client:
        topic = client.topic("t")
        await topic.create()
        group = topic.group("g")
        await group.create()

        async def is_waited_for() -> bool:
            return len(await group.members()) == 1

        task = asyncio.create_task(group.take_once(1, 30))
        await until(is_waited_for)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(tms.AnswerLost):
            await group.take_once(1, 30, timeout_s=0.5)
        await topic.publish(b"1")
        [message] = await group.take_once(1, 30)
        await message.ack()
        assert len(await group.members()) == 1
        assert await group.take_once() == []


@pytest.mark.parametrize("store_kind", ["server"])
def test_a_nack_that_had_no_answer_goes_with_the_next(
    topic: tms.Topic, group: tms.TopicGroup
) -> None:
    topic.publish(b"1")
    [message] = group.take_once()
    with tms.deadline(0), pytest.raises(tms.ServerUnreachable):
        message.nack(delay_s=0)
    assert [each.payload for each in group.take_once(wait_s=20)] == [b"1"]
