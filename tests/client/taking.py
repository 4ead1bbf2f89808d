"""A group of a topic and a few of its messages, for the tests of groups."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import tms
from tests.waiting import WAIT_S_MAX, wait_until


@pytest.fixture
def group(topic: tms.Topic) -> tms.TopicGroup:
    group = topic.group("billing")
    group.create(retry_s=1)
    return group


def taken(group: tms.TopicGroup, count: int) -> Iterator[tms.GroupMessage]:
    """Take this number of messages, then end the loop."""
    loop = group.take(lease_s=5)
    for _ in range(count):
        yield next(loop)


@contextmanager
def running(worker: tms.GroupWorker) -> Iterator[None]:
    """Run a worker in a thread until the end of the block."""
    working = threading.Thread(target=worker.run, daemon=True)
    working.start()
    try:
        yield
    finally:
        worker.stop()
        working.join(WAIT_S_MAX)
    assert not working.is_alive()


def wait_for_next_millisecond(topic: tms.Topic) -> None:
    """Wait until a message published next has a later time than all existing messages."""
    *_, last = topic.poll()
    wait_until(lambda: time.time() * 1000 >= last.publish_timestamp + 1)
