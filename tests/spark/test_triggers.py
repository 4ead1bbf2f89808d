"""When the batches of a stream begin, where its first batch begins, and the lag of a stream."""

import json
from contextlib import closing

import pytest

import tms
from tests.spark.streams import Options, Stream
from tms.core.errors import InvalidRequest
from tms.spark import lag
from tms.spark.columns import DEFAULT_SCHEMA, arrow_schema
from tms.spark.options import stream_read
from tms.spark.stream import StreamReader


@pytest.fixture
def orders(client: tms.Client) -> tms.Topic:
    topic = client.topic("orders")
    topic.create()
    client.topic("bills").create()
    return topic


def test_a_batch_waits_for_enough_messages_of_all_topics(
    client: tms.Client, orders: tms.Topic, options: Options
) -> None:
    wait = {"minOffsetsPerTrigger": "3", "maxTriggerDelay": "1h"}
    stream = Stream(options, subscribe="orders,bills", **wait).start()
    orders.publish(b"1")
    assert stream.take() == [b"1"], "the first batch of a run does not wait"

    orders.publish([b"2", b"3"])
    assert stream.take() == []
    assert stream.plan()[0] == stream.plan()[1]
    client.topic("bills").publish(b"4")
    assert sorted(stream.take()) == [b"2", b"3", b"4"]
    orders.publish(b"5")
    assert stream.take() == []
    stream.reader.prepareForTriggerAvailableNow()
    assert stream.take() == [b"5"], "what is available now does not wait"
    stream.reader.stop()


def test_a_batch_waits_no_longer_than_the_delay(orders: tms.Topic, options: Options) -> None:
    stream = Stream(
        options, subscribe="orders", minOffsetsPerTrigger="3", maxTriggerDelay="0ms"
    ).start()
    for number in (b"1", b"2"):
        orders.publish(number)
        assert stream.take() == [number]
    stream.reader.stop()


class Reader(StreamReader):
    """A reader with a `close`, as other resources have."""

    close = StreamReader.stop


STRATEGY = "startingOffsetsByTimestampStrategy"


@pytest.mark.parametrize(
    "given",
    [
        {"startingTimestamp": "2100-01-01T00:00:00Z"},
        {"startingOffsetsByTimestamp": '{"orders": 4102444800000}'},
    ],
)
def test_a_stream_may_begin_at_a_time_after_all_messages(
    orders: tms.Topic, options: Options, given: Options
) -> None:
    orders.publish(b"1")

    def start_of(**more: str) -> str:
        wanted = stream_read({**options, "subscribe": "orders", **more})
        with closing(Reader(wanted, arrow_schema(DEFAULT_SCHEMA))) as reader:
            return reader.initialOffset()["orders"]

    at_end = start_of(startingOffsets="latest")
    assert start_of(**given, **{STRATEGY: "latest"}) == at_end
    assert start_of(**given) == start_of(**given, **{STRATEGY: "wait"})
    assert start_of(**given) > at_end
    with pytest.raises(InvalidRequest, match="orders has no message from the starting time on"):
        start_of(**given, **{STRATEGY: "error"})
    assert start_of(startingTimestamp="1000", **{STRATEGY: "error"}) < at_end


def test_the_lag_of_a_stream_is_reported_by_topic(orders: tms.Topic, options: Options) -> None:
    read = {**options, "subscribe": "orders,bills"}
    stream = Stream(options, subscribe="orders,bills").start()
    orders.publish(b"1")
    stream.take()
    assert {*lag(json.dumps(stream.offset), read).values()} == {(0, 0.0, False)}

    orders.publish([b"2", b"3"])
    found = lag(json.dumps(stream.offset), read)
    assert (found["orders"].messages, found["bills"].messages) == (2, 0)
    assert 0 <= found["orders"].seconds < 60
    stream.reader.stop()
    orders.delete()
    assert {*lag(json.dumps(stream.offset), read)} == {"bills"}
