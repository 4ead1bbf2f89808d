"""Dead letters as programs make them: rejected messages, and workers that give up."""

import pytest

import tms
from tests.client.taking import group, running, taken
from tests.waiting import wait_until
from tms.core.values.dead_letters import Disposition

__all__ = ["group"]


def letters(group: tms.TopicGroup, count: int) -> list[tms.DeadLetter]:
    """Wait until a group has this number of dead letters, and return them."""
    wait_until(lambda: len(group.dead_letters().letters) >= count)
    found = list(group.dead_letters().letters)
    assert len(found) == count
    return found


def test_a_rejected_message_is_a_dead_letter(topic: tms.Topic, group: tms.TopicGroup) -> None:
    group.set(attempts_max=5)
    topic.publish(b"bad", key=b"k", headers={"a": b"1"})
    [message] = taken(group, 1)
    message.reject("no such customer")
    message.reject()  # it is settled already
    [letter] = letters(group, 1)
    assert letter.message == message.message
    assert (letter.origin.disposition, letter.origin.reason) == (
        Disposition.REJECTED,
        "no such customer",
    )
    assert group.redrive([letter]).redriven == 1
    [again] = taken(group, 1)
    assert (again.id, again.attempt) == (message.id, 1)
    again.ack()


def test_without_a_topic_of_dead_letters_a_message_stays_held(
    topic: tms.Topic, group: tms.TopicGroup
) -> None:
    topic.publish(b"bad")
    [message] = taken(group, 1)
    with pytest.raises(tms.InvalidRequest, match="no topic of dead letters"):
        message.reject()
    message.ack()
    with pytest.raises(TypeError):
        message.reject(b"bytes")  # type: ignore[arg-type]


def test_a_body_that_raises_reject_makes_a_dead_letter(
    topic: tms.Topic, group: tms.TopicGroup
) -> None:
    group.set(attempts_max=5)
    topic.publish(b"bad")
    [message] = taken(group, 1)
    with pytest.raises(tms.Reject), message:
        raise tms.Reject("torn")
    assert letters(group, 1)[0].origin.reason == "torn"


def test_a_worker_rejects_and_retries_up_to_the_last_attempt(
    topic: tms.Topic, group: tms.TopicGroup
) -> None:
    group.set(attempts_max=2, retry_s=0)
    topic.publish([b"reject", b"fail", b"good"])
    done = []

    @group.worker(concurrency=2)
    def work(message: tms.GroupMessage) -> None:
        if message.payload == b"reject":
            raise tms.Reject("torn")
        if message.payload == b"fail":
            raise ValueError
        done.append(message.payload)

    with running(work):
        found = {each.message.payload: each.origin for each in letters(group, 2)}
        wait_until(lambda: done == [b"good"])
    assert (found[b"reject"].disposition, found[b"reject"].attempts) == ("rejected", 1)
    assert (found[b"fail"].disposition, found[b"fail"].attempts) == ("attempts", 2)


def test_an_operator_skips_and_takes_back(topic: tms.Topic, group: tms.TopicGroup) -> None:
    topic.publish([b"1", b"2"])
    first, second = taken(group, 2)
    assert group.skip([first]) == 1
    assert group.take_back([second.id]) == 1
    [again] = taken(group, 1)
    assert (again.payload, again.attempt) == (b"2", 1)
    again.ack()
    assert group.show().state.open == 0
