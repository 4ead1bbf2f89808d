"""A batch is written once per topic; a batch number that goes back is an error, not a loss.

The writers are called as Spark calls them, without Spark.
"""

from collections.abc import Iterator
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import TaskContext

import tms
from tms.core.limits import NAME_CHARS_MAX
from tms.core.services.transactions import check_owner
from tms.spark.batch_owner import BATCH_ORIGIN, named_owner
from tms.spark.options import batch_write, stream_write
from tms.spark.writer import BatchWriter, StreamWriter

Options = dict[str, str]
names = st.text(st.sampled_from("ab_-"), min_size=1, max_size=NAME_CHARS_MAX)
spaces = st.text(st.sampled_from("ab_"), min_size=1, max_size=NAME_CHARS_MAX)
works = st.tuples(
    st.text(st.sampled_from("a/:*-"), min_size=1, max_size=NAME_CHARS_MAX),
    spaces,
    st.none() | names,
)


@given(works, works)
def test_each_application_namespace_and_topic_is_an_owner_of_its_own(
    first: tuple[str, str, str | None], second: tuple[str, str, str | None]
) -> None:
    owners = []
    for app, namespace, topic in (first, second):
        given_one = {"url": "http://s", "namespace": namespace, "txnAppId": app}
        options = batch_write(given_one if topic is None else {**given_one, "topic": topic})
        work = named_owner(options, 1, BATCH_ORIGIN)
        check_owner(work.owner, work.sequence, work.origin)
        owners.append(work.owner)

    assert (owners[0] == owners[1]) == (first == second)


def rows(payloads: tuple[bytes, ...]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"payload": pa.array(payloads, pa.binary())})


def write(options: Options, version: int, *payloads: bytes, **more: str) -> None:
    asked = {**options, "txnAppId": options["namespace"], "txnVersion": str(version), **more}
    columns = ["payload"] if "topic" in more else ["topic", "payload"]
    batch = BatchWriter(batch_write(asked), columns)
    batch.commit([batch.write(rows(payloads))])


def published(client: tms.Client, name: str) -> list[bytes]:
    return [message.payload for message in client.topic(name).poll(committed=True)]


def make(client: tms.Client, *topics: str) -> None:
    for name in topics:
        client.topic(name).create()


def test_one_version_is_written_once_to_each_topic(client: tms.Client, options: Options) -> None:
    make(client, "a", "b")
    for _ in range(2):
        for name in ("a", "b"):
            write(options, 1, b"x", topic=name)

    assert (published(client, "a"), published(client, "b")) == ([b"x"], [b"x"])


def test_one_version_is_written_once_to_each_namespace(
    client: tms.Client, options: Options
) -> None:
    other = f"{client.namespace}_2"
    with tms.connect(options["url"], other) as elsewhere:
        make(client, "a")
        make(elsewhere, "a")
        app = {"topic": "a", "txnAppId": client.namespace}
        for namespace in (client.namespace, other, client.namespace, other):
            write({**options, "namespace": namespace}, 1, b"x", **app)

        assert (published(client, "a"), published(elsewhere, "a")) == ([b"x"], [b"x"])


def as_before(client: tms.Client, sequence: int, *, origin: str, payload: bytes) -> None:
    """Write as earlier versions did, whose owner was the `txnAppId` alone."""
    namespace = client.namespace
    request = tms.StartRequest(
        owner=namespace, sequence=sequence, origin=origin, namespace=namespace
    )
    started = client.transactions.start(request)
    client.topic("a").publish(payload, started)
    client.transactions.commit(started.transaction_id)


def test_a_job_that_was_upgraded_does_not_repeat_what_it_wrote_before(
    client: tms.Client, options: Options
) -> None:
    make(client, "a")
    as_before(client, 4, origin=BATCH_ORIGIN, payload=b"4")
    for version in (4, 5, 5):
        write(options, version, b"%d" % version, topic="a")

    assert published(client, "a") == [b"4", b"5"]
    assert not [one for one in client.transactions.in_progress() if one.client == "spark"]


def test_an_open_transaction_under_the_former_name_is_in_nobodys_way(
    client: tms.Client, options: Options
) -> None:
    make(client, "a")
    namespace = client.namespace
    client.transactions.start(
        tms.StartRequest(owner=namespace, sequence=4, origin=BATCH_ORIGIN, namespace=namespace)
    )
    for version in (3, 4, 5):
        write(options, version, b"%d" % version, topic="a")

    assert published(client, "a") == [b"3", b"4", b"5"]


class Stream:
    """A streaming query's sink, of batch after batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, options: Options, **more: str) -> None:
        asked = {**options, "topic": "a", "checkpointLocation": "/data/checkpoint", **more}
        self._writer = StreamWriter(stream_write(asked), ["payload"])
        self._query = f"query-of-{options['namespace']}"
        self._monkeypatch = monkeypatch

    def take(self, batch: int, payload: bytes) -> None:
        """Write and commit a batch of one task."""
        told = {"sql.streaming.queryId": self._query, "streaming.sql.batchId": str(batch)}
        context = SimpleNamespace(getLocalProperty=told.get)
        self._monkeypatch.setattr(TaskContext, "get", lambda: context)
        self._writer.commit([self._writer.write(rows((payload,)))], batch)


@pytest.mark.parametrize("named", [{}, {"txnAppId": "app"}])
def test_a_stream_may_repeat_its_last_batch_only(
    client: tms.Client, options: Options, monkeypatch: pytest.MonkeyPatch, named: Options
) -> None:
    make(client, "a")
    more = {name: f"{text}{client.namespace}" for name, text in named.items()}
    stream = Stream(monkeypatch, options, **more)
    for batch in (0, 1, 2, 2):
        stream.take(batch, b"%d" % batch)
    with pytest.raises(tms.CheckpointBehind) as caught:
        stream.take(1, b"new")

    assert caught.value.detail["checkpoint"] == "/data/checkpoint"
    assert (caught.value.detail["batch"], caught.value.detail["last_batch"]) == (1, 2)
    assert published(client, "a") == [b"0", b"1", b"2"]


def test_a_stream_that_was_upgraded_with_an_old_checkpoint_is_told_too(
    client: tms.Client, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(client, "a")
    as_before(client, 4, origin=f"query-of-{client.namespace}", payload=b"4")
    stream = Stream(monkeypatch, options, txnAppId=client.namespace)
    stream.take(4, b"4")
    with pytest.raises(tms.CheckpointBehind, match="last_batch=4"):
        stream.take(3, b"new")
    stream.take(5, b"5")

    assert published(client, "a") == [b"4", b"5"]


def test_a_job_within_a_stream_is_informed_that_its_versions_went_back(
    client: tms.Client, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`foreachBatch` sets these properties; for other jobs an older version counts as done."""
    make(client, "a")
    write(options, 5, b"5", topic="a")
    write(options, 4, b"done before", topic="a")
    context = SimpleNamespace(getLocalProperty={"sql.streaming.queryId": "a query"}.get)
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    write(options, 5, b"repeated", topic="a")
    with pytest.raises(tms.CheckpointBehind, match="query=a query"):
        write(options, 4, b"new", topic="a")

    assert published(client, "a") == [b"5"]
