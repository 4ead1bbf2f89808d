"""Celery's own worker runs tasks over our transport."""

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from celery.signals import setup_logging
from kombu import Connection, Exchange, Producer, Queue

import tms
import tms.contrib.celery
from tests.waiting import WAIT_S_MAX, wait_until
from tms.contrib.celery import topic_of


@setup_logging.connect
def _leave_logging_alone(**_: Any) -> None:
    """Keep a worker from setting the level of all loggers of this process."""


@pytest.fixture
def app(url: str) -> Iterator[Celery]:
    app = Celery(broker=url.replace("http://", "tms://"), backend="cache+memory://")
    app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1, task_default_queue="jobs")
    yield app
    app.close()


def test_tasks_run_and_are_acknowledged(app: Celery, url: str) -> None:
    ran: list[int] = []

    @app.task(name="add")
    def add(one: int, other: int) -> None:
        ran.append(one + other)

    for number in range(10):
        add.delay(number, 1)
    with start_worker(app, perform_ping_check=False, shutdown_timeout=WAIT_S_MAX):
        wait_until(lambda: sorted(ran) == list(range(1, 11)))
    with tms.connect(url) as client:
        state = client.topic("jobs").group("celery").show().state
        assert (state.unread, state.open) == (0, 0)


def test_a_task_that_asks_for_it_runs_again(app: Celery) -> None:
    attempts: list[int] = []

    @app.task(name="fail", bind=True, max_retries=2, default_retry_delay=0)
    def fail(self: Any) -> None:
        attempts.append(self.request.retries)
        raise self.retry()

    fail.delay()
    with start_worker(app, perform_ping_check=False, shutdown_timeout=WAIT_S_MAX):
        wait_until(lambda: attempts == [0, 1, 2])


def test_messages_are_given_back_rejected_and_purged(url: str) -> None:
    with Connection(url.replace("http://", "tms://")) as connection:
        queue = connection.SimpleQueue("by hand/1")
        for number in range(3):
            queue.put({"number": number})
        first = queue.get(timeout=WAIT_S_MAX)
        assert first.payload == {"number": 0}
        first.requeue()
        again = queue.get(timeout=WAIT_S_MAX)
        assert again.payload == {"number": 0}
        again.reject()
        queue.get(timeout=WAIT_S_MAX)  # neither acknowledged nor rejected
        queue.close()
    with Connection(url.replace("http://", "tms://")) as connection:
        queue = connection.SimpleQueue("by hand/1")
        message = queue.get(timeout=WAIT_S_MAX)
        assert message.payload == {"number": 1}
        message.ack()
        assert queue.qsize() == 1
        assert queue.clear() == 1
        assert queue.qsize() == 0
        with pytest.raises(queue.Empty):
            queue.get(block=False)


@pytest.mark.parametrize("settle", ["ack", "reject", "requeue"])
def test_a_task_whose_settlement_is_refused_makes_room_for_another(url: str, settle: str) -> None:
    with Connection(url.replace("http://", "tms://")) as connection:
        queue = connection.SimpleQueue("refused")
        queue.put({})
        message = queue.get(timeout=WAIT_S_MAX)
        message.channel.basic_qos(0, 1, False)
        with tms.connect(url) as client:
            client.topic("refused").delete()
        assert not message.channel.qos.can_consume()
        with pytest.raises(tms.TopicNotFound):
            getattr(message, settle)()
        assert message.channel.qos.can_consume()


def test_a_message_in_two_queues_is_settled_in_each(url: str) -> None:
    """If one cannot be given back when the channel closes, the others are."""
    with Connection(url.replace("http://", "tms://")) as connection, tms.connect(url) as client:
        channel = connection.channel()
        exchange = Exchange("orders", type="topic", channel=channel)
        for name in ("audit", "billing", "deleted"):
            Queue(name, exchange, routing_key="order.#", channel=channel).declare()
        Producer(channel, exchange).publish({}, routing_key="order.new")
        channel.basic_get("deleted")
        audit, _ = channel.basic_get("audit"), channel.basic_get("billing")
        audit.ack()
        groups = [client.topic(name).group("celery") for name in ("audit", "billing")]
        assert [group.show().state.open for group in groups] == [0, 1]
        client.topic("deleted").delete()
        channel.close()
        assert [len(group.take_once(1, 0)) for group in groups] == [0, 1]


def test_queues_with_names_that_no_topic_may_have_stay_apart() -> None:
    names = ["a", "a.b", "a@b", "a_b"]
    assert topic_of("a") == "a"
    assert len({topic_of(name) for name in names}) == len(names)
