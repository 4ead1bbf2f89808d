"""Lost messages of a stream are an error, or are logged and skipped, as its options say.

The readers are called as Spark calls them, without Spark (`tests.spark.streams`).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

import tms
from tests.servers.server_process import ServerProcess
from tests.servers.stepping_clock import SteppingClock
from tests.spark.streams import Options, Stream
from tms.core.errors import DataLost, TopicNotFound

New = Callable[..., Stream]
TTL_S = 3600


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SteppingClock]:
    with closing(SteppingClock(tmp_path_factory.mktemp("clock"))) as clock:
        yield clock


@pytest.fixture(scope="module")
def server(clock: SteppingClock) -> Iterator[ServerProcess]:
    """A server whose time a test controls."""
    with ServerProcess("memory:", clock=clock) as server:
        yield server
        assert server.stop() == 0


@pytest.fixture
def expire(clock: SteppingClock) -> Callable[[], None]:
    """Return a function that lets all messages expire."""
    return partial(clock.suspend, 2 * TTL_S * 1000)


@pytest.fixture
def new(options: Options) -> Iterator[New]:
    """Return a function that makes streams; they are stopped at the end."""
    with ExitStack() as made:

        def make(**more: str) -> Stream:
            stream = Stream(options, **more)
            made.callback(stream.reader.stop)
            return stream

        yield make


@pytest.fixture
def stream(client: tms.Client, new: New, request: pytest.FixtureRequest) -> Stream:
    """A stream of the existing topic `t`."""
    client.topic("t").create(ttl=TTL_S)
    return new(subscribe="t", failOnDataLoss=str(request.param).lower()).start()


def create_anew(client: tms.Client, name: str) -> None:
    client.topic(name).delete()
    client.topic(name).create()


failing = pytest.mark.parametrize("stream", [True], indirect=True)
going_on = pytest.mark.parametrize("stream", [False], indirect=True)


@failing
def test_a_slow_stream_that_is_overtaken_fails(
    stream: Stream, client: tms.Client, expire: Callable[[], None]
) -> None:
    client.topic("t").publish([b"0", b"1"])
    taken = stream.take(ReadMaxRows(1))
    client.topic("t").publish(b"2")
    expire()

    assert taken == [b"0", b"1"], "a limit that was no option is not kept to"
    with pytest.raises(DataLost, match="messages have expired"):
        stream.plan()


@failing
def test_what_had_expired_is_lost_whatever_the_ttl_is_raised_to(
    stream: Stream, client: tms.Client, expire: Callable[[], None]
) -> None:
    client.topic("t").publish(b"0")
    stream.take()
    client.topic("t").publish(b"1")
    expire()
    client.topic("t").replace_properties(ttl=100 * TTL_S)
    client.topic("t").publish(b"2")

    with pytest.raises(DataLost, match="messages have expired"):
        stream.plan()


@going_on
def test_a_slow_stream_that_is_overtaken_continues_if_it_may(
    stream: Stream, client: tms.Client, expire: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    client.topic("t").publish(b"0")
    first = stream.take()
    client.topic("t").publish(b"1")
    expire()
    client.topic("t").publish(b"2")

    assert (first, stream.take()) == ([b"0"], [b"2"])
    assert "messages have expired" in caplog.text


@failing
def test_a_stream_that_has_read_all_loses_nothing_by_expiry(
    stream: Stream, client: tms.Client, expire: Callable[[], None]
) -> None:
    client.topic("t").publish(b"0")
    first = stream.take()
    expire()
    idle = stream.take()
    client.topic("t").publish(b"1")

    assert (first, idle, stream.take()) == ([b"0"], [], [b"1"])


@failing
def test_a_planned_batch_that_expires_before_it_is_read_fails(
    stream: Stream, client: tms.Client, expire: Callable[[], None]
) -> None:
    client.topic("t").publish(b"0")
    stream.take()
    client.topic("t").publish(b"1")
    start, end = stream.plan()
    partitions = stream.reader.partitions(start, end)
    expire()

    with pytest.raises(DataLost, match="messages have expired"):
        [list(stream.reader.read(partition)) for partition in partitions]


@failing
def test_a_topic_that_is_deleted_fails_the_stream(stream: Stream, client: tms.Client) -> None:
    client.topic("t").publish(b"0")
    stream.take()
    client.topic("t").delete()

    with pytest.raises(DataLost, match="the topic was deleted"):
        stream.plan()


@failing
def test_a_topic_that_is_created_again_fails_the_stream(stream: Stream, client: tms.Client) -> None:
    client.topic("t").publish(b"0")
    stream.take()
    create_anew(client, "t")
    client.topic("t").publish(b"1")

    with pytest.raises(DataLost, match="the topic was created again"):
        stream.plan()


@going_on
def test_a_topic_that_is_created_again_is_read_from_its_start_if_that_may_be(
    stream: Stream, client: tms.Client
) -> None:
    client.topic("t").publish(b"0")
    first = stream.take()
    create_anew(client, "t")
    client.topic("t").publish([b"1", b"2"])

    assert (first, stream.take(), stream.take()) == ([b"0"], [b"1", b"2"], [])


@failing
def test_a_topic_that_is_created_again_within_a_batch_fails_its_tasks(
    stream: Stream, client: tms.Client
) -> None:
    client.topic("t").publish(b"0")
    partitions = stream.reader.partitions(*stream.plan())
    create_anew(client, "t")
    client.topic("t").publish(b"1")

    with pytest.raises(DataLost, match="the topic was created again"):
        [list(stream.reader.read(partition)) for partition in partitions]


def test_a_topic_that_is_not_there_is_an_error_at_the_start(new: New) -> None:
    with pytest.raises(TopicNotFound):
        new(subscribe="missing").start()


def test_limits_are_shared_by_what_topics_have(client: tms.Client, new: New) -> None:
    for name, count in (("large", 3000), ("small", 300), ("empty", 0)):
        client.topic(name).create()
        if count:
            client.topic(name).publish([b"x" * 100] * count)
    stream = new(subscribePattern=".*", maxOffsetsPerTrigger="1000").start()
    limit = stream.reader.getDefaultReadLimit()
    sizes: list[int] = []
    while taken := stream.take(limit):
        sizes.append(len(taken))

    assert sum(sizes) == 3300
    assert max(sizes) <= 1001
    assert len(sizes) <= 7


def test_bytes_are_limited_too(client: tms.Client, new: New) -> None:
    client.topic("t").create()
    client.topic("t").publish([b"x" * 100] * 10)
    stream = new(subscribe="t", maxBytesPerTrigger="350").start()
    limit = stream.reader.getDefaultReadLimit()

    assert [len(stream.take(limit)) for _ in range(5)] == [3, 3, 3, 1, 0]


def test_what_is_available_now_is_all_that_a_run_reads(client: tms.Client, new: New) -> None:
    client.topic("a").create()
    client.topic("a").publish([b"1", b"2", b"3"])
    stream = new(subscribePattern=".*", maxOffsetsPerTrigger="2").start()
    stream.reader.prepareForTriggerAvailableNow()
    client.topic("a").publish(b"4")
    client.topic("b").create()
    client.topic("b").publish(b"5")
    limit = stream.reader.getDefaultReadLimit()

    assert [stream.take(limit) for _ in range(3)] == [[b"1", b"2"], [b"3"], []]
    assert new(subscribePattern=".*").start().take() == [b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.slow
def test_thousands_of_topics_by_pattern(client: tms.Client, new: New) -> None:
    names = [f"t{n}" for n in range(2000)]
    with ThreadPoolExecutor(32) as threads:
        list(threads.map(lambda name: client.topic(name).create(), names))
    active = names[::10]
    client.publish_all({name: name.encode() for name in active})
    stream = new(subscribePattern="t.*", minPartitions="4").start()
    start, end = stream.plan()

    assert len(start) == len(end) == 2000
    assert len(stream.reader.partitions(start, end)) <= 4
    assert sorted(stream.read(start, end)) == sorted(name.encode() for name in active)


def test_a_topic_that_is_not_read_any_more_fails_the_stream(client: tms.Client, new: New) -> None:
    for name in ("a", "b"):
        client.topic(name).create()
    both = new(subscribe="a,b").start()
    both.take()
    for options in ({"subscribe": "a"}, {"subscribePattern": "[ac]"}):
        fewer = new(**options)
        fewer.offset = both.offset
        with pytest.raises(DataLost, match="topic=b, reason=the topic is not read any more"):
            fewer.plan()


def test_a_topic_that_comes_back_is_read_on_from_where_it_was_left(
    client: tms.Client, new: New, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        client.topic(name).create()
        client.topic(name).publish(f"{name}1".encode())
    taken: list[list[bytes]] = []
    offset = new(subscribe="a,b").start().offset
    for number, topics in enumerate(("a,b", "a", "a", "a,b"), 2):
        stream = new(subscribe=topics, failOnDataLoss="false", maxOffsetsPerTrigger="100")
        stream.offset = offset
        stream.reader.prepareForTriggerAvailableNow()
        limit = stream.reader.getDefaultReadLimit()
        taken += [sorted(stream.take(limit)), stream.take(limit)]
        offset = stream.offset
        for name in ("a", "b"):
            client.topic(name).publish(f"{name}{number}".encode())

    assert taken[::2] == [[b"a1", b"b1"], [b"a2"], [b"a3"], [b"a4", b"b2", b"b3", b"b4"]]
    assert not any(taken[1::2])
    assert caplog.text.count("not read any more") == 2, "once in each run without it"
