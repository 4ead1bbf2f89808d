"""What the tests of groups share: a group of a topic, and a few of its messages."""

import time
from collections.abc import Iterator

import pytest

import tms


@pytest.fixture
def group(topic: tms.Topic) -> tms.TopicGroup:
    group = topic.group("billing")
    group.create(retry_s=1)
    return group


def taken(group: tms.TopicGroup, count: int) -> Iterator[tms.GroupMessage]:
    """Give so many messages, then end the loop."""
    loop = group.take(lease_s=5)
    for _ in range(count):
        yield next(loop)


def wait_until(condition: object) -> None:
    end = time.monotonic() + 40
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.01)
