"""The settings of a worker: wrong ones are refused when it is made."""

from typing import Any

import pytest

import tms
from tests.client.taking import group, running
from tests.waiting import WAIT_S_MAX, wait_until

__all__ = ["group"]

pytestmark = pytest.mark.parametrize("store_kind", ["memory"])


@pytest.mark.parametrize(
    "bad",
    [
        {"concurrency": 0},
        {"concurrency": 600},
        {"stop_s": -1},
        {"lease_s": 0},
        {"lease_s": 10**6},
        {"hold_s_max": 0},
        {"transaction_timeout_s": 60},
        {"transaction": True, "transaction_timeout_s": "soon"},
        {"transaction": True, "transaction_timeout_s": 0},
        {"timeout_s": 0},
        {"timeout_s": "soon"},
        {"timeout_s": 61, "transaction": True, "transaction_timeout_s": 60},
    ],
)
def test_what_cannot_be_is_refused_when_the_worker_is_made(
    group: tms.TopicGroup, bad: dict[str, Any]
) -> None:
    with pytest.raises((ValueError, tms.InvalidRequest)):
        group.worker(**bad)


def test_the_most_messages_may_be_worked_on_at_a_time(
    topic: tms.Topic, group: tms.TopicGroup
) -> None:
    topic.publish([b"1", b"2"])

    @group.worker(concurrency=500)
    def work(_message: tms.GroupMessage) -> None: ...

    with running(work):
        wait_until(lambda: group.show().state.unread == 0 and not group.open())


def test_work_that_is_longer_than_its_transaction_says_what_to_change(
    client: tms.Client,
    topic: tms.Topic,
    group: tms.TopicGroup,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic.publish(b"1")
    tried: list[int] = []

    def end(transaction_id: int) -> bool:
        status = client.transactions.info(transaction_id).status
        return status is tms.TransactionStatus.INVALID

    @group.worker(transaction=True, transaction_timeout_s=1)
    def work(message: tms.GroupMessage, tx: tms.TransactionContext) -> None:
        tried.append(message.attempt)
        if message.attempt == 1:
            wait_until(lambda: end(tx.transaction_id))

    with running(work):
        wait_until(lambda: group.show().state.unread == 0 and not group.open())
    assert tried == [1, 2]
    assert "give the worker transaction_timeout_s" in caplog.text


def test_a_transaction_may_last_longer_than_the_servers_default(
    client: tms.Client, topic: tms.Topic, group: tms.TopicGroup
) -> None:
    topic.publish(b"1")
    ends: list[int | None] = []

    @group.worker(transaction=True, transaction_timeout_s="10m")
    def work(_message: tms.GroupMessage, tx: tms.TransactionContext) -> None:
        ends.append(client.transactions.info(tx.transaction_id).ends_in_ms)
        work.stop()

    work.run()
    [ends_in_ms] = ends
    assert ends_in_ms is not None
    assert ends_in_ms > WAIT_S_MAX * 1000
