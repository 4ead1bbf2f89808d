"""The time that a worker's function may take: after it, the message is redelivered."""

import asyncio
import threading
from typing import Any

import pytest

import tms
import tms.aio
from tests.client.taking import group, running
from tests.waiting import WAIT_S_MAX, in_time, wait_until
from tms.client.groups.work_limit import WorkLimit, work_limit_of

__all__ = ["group"]

MEMORY = pytest.mark.parametrize("store_kind", ["memory"])
HOW: dict[str, dict[str, Any]] = {
    "plain": {"timeout_s": 0.2},
    "transaction": {"timeout_s": "200ms", "transaction": True},
    "derived": {"transaction_timeout_s": 1, "transaction": True},
}


@MEMORY
@pytest.mark.parametrize("kind", HOW)
def test_work_that_takes_too_long_is_given_back_and_what_it_does_later_does_not_count(
    topic: tms.Topic, group: tms.TopicGroup, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread cannot be stopped: it continues, and keeps its slot."""
    group.set(retry_s=0)
    bills = topic  # what the function publishes comes back as a message
    topic.publish(b"slow")
    tried: list[int] = []
    again = threading.Event()

    def work(message: tms.GroupMessage, *tx: tms.TransactionContext) -> None:
        if message.payload != b"slow":
            return
        tried.append(message.attempt)
        if message.attempt == 1:
            assert again.wait(WAIT_S_MAX)
            if tx:
                bills.publish(b"never", tx[0])
        again.set()

    worker = group.worker(concurrency=2, **HOW[kind])(work)
    with running(worker):
        wait_until(lambda: len(tried) == 2)
        wait_until(lambda: group.show().state.unread == 0 and not group.open())
    assert tried == [1, 2]
    assert "Its thread cannot be stopped" in caplog.text
    assert ("transaction_timeout_s" if kind == "derived" else "timeout_s, 0.2 s") in caplog.text
    assert [each.payload for each in topic.poll(committed=True)] == [b"slow"]
    counts = group.show().counts
    assert (counts.taken, counts.acked, counts.failed, counts.retried) == (2, 1, 1, 1)


@MEMORY
def test_work_in_time_is_not_limited(topic: tms.Topic, group: tms.TopicGroup) -> None:
    topic.publish([b"1", b"2"])
    done: list[bytes] = []

    @group.worker(timeout_s="5m", transaction=True, transaction_timeout_s="10m")
    def work(message: tms.GroupMessage, _tx: tms.TransactionContext) -> None:
        done.append(message.payload)

    with running(work):
        wait_until(lambda: group.show().counts.acked == 2)
    assert done == [b"1", b"2"]


def test_work_in_asyncio_that_takes_too_long_is_cancelled() -> None:
    ends: list[str] = []

    async def main() -> list[tms.Message]:
        async with await tms.aio.connect("memory:") as client:
            topic, group = client.topic("orders"), client.topic("orders").group("billing")
            await topic.create()
            await group.create(retry_s=0)
            await topic.publish(b"slow")

            @group.worker(timeout_s=0.05, transaction=True)
            async def work(
                message: tms.aio.AsyncGroupMessage, tx: tms.aio.AsyncTransactionContext
            ) -> None:
                if message.attempt == 1:
                    await topic.publish(b"never", tx)
                    try:
                        await asyncio.Event().wait()
                    except asyncio.CancelledError:
                        ends.append("cancelled")
                        raise
                elif message.attempt == 2:
                    raise TimeoutError("its own")
                else:
                    [opened] = await group.open()
                    ends.append(opened.reason or "")
                    work.stop()

            async with in_time():
                await work.run()
            return [message async for message in topic.poll(committed=True)]

    left = asyncio.run(main())
    assert [each.payload for each in left] == [b"slow"]
    assert ends == ["cancelled", "TimeoutError('its own')"]


def test_what_lasts_how_long() -> None:
    assert work_limit_of(None, None, transaction=True).transaction_s is None
    assert work_limit_of("90s", None, transaction=True).transaction_s == 95
    assert work_limit_of(None, 60, transaction=True).work_s == 60
    assert work_limit_of(1.5, "1m", transaction=True) == WorkLimit(
        1.5, 60, "the work took longer than timeout_s, 1.5 s"
    )
