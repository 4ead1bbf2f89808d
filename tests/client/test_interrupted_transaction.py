"""Ctrl-C within a transaction: nothing is left half done, and the client stays usable."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tms
from tests.client.participant import Noting
from tests.waiting import WAIT_S_MAX, until, wait_until


@contextmanager
def interrupted(begun: threading.Event, sent: threading.Event | None = None) -> Iterator[None]:
    """Raise Ctrl-C in this thread after an event, and expect it."""

    def interrupt() -> None:
        begun.wait(WAIT_S_MAX)
        os.kill(os.getpid(), signal.SIGINT)
        if sent is not None:
            sent.set()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        yield
    thread.join()


class Slow(Noting):
    """Is slow in one verb, and signals when it gets there."""

    def __init__(self, verb: str) -> None:
        super().__init__("slow")
        self._slow_at = verb
        self.begun = threading.Event()

    def _note(self, verb: str) -> None:
        super()._note(verb)
        if verb == self._slow_at:
            self.begun.set()
            wait_until(lambda: False)


def committed(topic: tms.Topic) -> list[bytes]:
    return [message.payload for message in topic.poll(committed=True)]


@pytest.mark.parametrize("verb", ["start", "changes", "persist"])
def test_before_the_commit_it_is_rolled_back(
    client: tms.Client, topic: tms.Topic, verb: str
) -> None:
    slow, last = Slow(verb), Noting("last")
    tx = client.transaction(participants=[slow, last])
    with interrupted(slow.begun), tx:
        topic.publish(b"one", tx)

    assert slow.calls[-1] == "slow.rollback"
    assert verb == "start" or last.calls[-1] == "last.rollback"
    assert client.transactions.info(tx.transaction_id).status == "aborted"
    topic.publish(b"after")
    assert committed(topic) == [b"after"]


def test_after_the_commit_it_stays(client: tms.Client, topic: tms.Topic) -> None:
    slow, last = Slow("post_commit"), Noting("last")
    with interrupted(slow.begun), client.transaction(participants=[slow, last]) as tx:
        topic.publish(b"one", tx)

    assert tx.is_committed
    assert last.calls[-1] == "last.post_commit"
    assert committed(topic) == [b"one"]


def test_amid_the_commit_it_is_settled(
    client: tms.Client, topic: tms.Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, sent = threading.Event(), threading.Event()
    remote = type(client._client.transactions)
    commit = remote.commit

    async def telling(*arguments: object) -> None:
        begun.set()
        await commit(*arguments)  # type: ignore[arg-type]
        await until(sent.is_set)  # the interruption comes before the answer

    monkeypatch.setattr(remote, "commit", telling)
    participant = Noting()
    with interrupted(begun, sent), client.transaction(participants=[participant]) as tx:
        topic.publish(b"one", tx)

    assert tx.is_committed
    assert participant.calls[-1] == "one.post_commit"
    assert committed(topic) == [b"one"]


def test_in_the_body_it_is_rolled_back(client: tms.Client, topic: tms.Topic) -> None:
    begun = threading.Event()
    with interrupted(begun), client.transaction() as tx:
        topic.publish(b"one", tx)
        begun.set()
        wait_until(lambda: False)

    assert client.transactions.info(tx.transaction_id).status == "aborted"
