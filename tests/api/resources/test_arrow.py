"""Arrow over REST: the answers to polls, and what publishes and stores accept."""

import sys
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.api.rest import TOPIC, Rest, avro_poll, avro_publish, live, refusal
from tests.api.transactions import started
from tests.arrow.bodies import encode_batches, encode_payloads
from tms.arrow.polled import SCHEMA
from tms.core.limits import Limits
from tms.core.values.message import MessageId
from tms.wire.media_types import ARROW_TYPE, POLLED_ARROW_TYPE

pytestmark = pytest.mark.anyio

ACCEPT = {"accept": ARROW_TYPE}


async def polled(rest: Rest, query: str = "", **asked: Any) -> pa.Table:
    answer = await rest.post("poll", asked, query=query, headers=ACCEPT)
    return table_of(answer)


def table_of(answer: httpx.Response) -> pa.Table:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == POLLED_ARROW_TYPE
    with pa.ipc.open_stream(answer.content) as reader:
        assert reader.schema.equals(SCHEMA)
        return reader.read_all()


async def test_a_poll_answers_columns(own: Rest) -> None:
    await own.create()
    await own.publish(b"plain", b"", b"x" * 1000)
    pointer = await started(own)
    await own.post("store", avro_publish(b"stored", pointer=pointer))
    await own.publish(pointer=pointer)
    await own.http.post(f"/v1/transactions/{pointer}/commit")

    rows = (await polled(own, isolation="committed")).to_pylist()

    assert [row["payload"] for row in rows] == [b"plain", b"", b"x" * 1000, b"stored"]
    for row, (message_id, _) in zip(rows, await own.messages(), strict=True):
        assert row["message_id"].hex() == message_id
        parts = MessageId.decode(row["message_id"])
        assert row["timestamp"].timestamp() * 1000 == parts.publish_timestamp
        assert row["seq"] == parts.sequence_id
    assert [row["payload_seq"] for row in rows] == [None, None, None, 0]
    assert rows[3]["payload_timestamp"] is not None
    assert rows[0]["payload_timestamp"] is None


async def test_an_empty_answer_has_the_columns_too(rest: Rest) -> None:
    await rest.create()

    assert (await polled(rest)).num_rows == 0


async def test_the_request_may_be_avro(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"one", b"two")

    answer = await rest.post("poll", avro_poll(limit=1), headers=ACCEPT)

    assert table_of(answer).column("payload").to_pylist() == [b"one"]


async def test_a_long_answer_is_a_stream_of_bounded_batches() -> None:
    async with live(Limits(poll_block_bytes=4096)) as rest:
        await rest.create()
        payloads = [b"%d" % number for number in range(25_000)]
        await rest.publish(*payloads)

        answer = await rest.post("poll", {"limit": 1_000_000}, headers=ACCEPT)

        with pa.ipc.open_stream(answer.content) as reader:
            batches = list(reader)
        assert [batch.num_rows for batch in batches] == [10_000, 10_000, 5_000]
        assert [p for batch in batches for p in batch.column("payload").to_pylist()] == payloads


async def test_a_batch_of_long_messages_is_bounded_in_bytes(rest: Rest) -> None:
    await rest.create()
    await rest.publish(*(b"x" * 100_000 for _ in range(40)))

    answer = await rest.post("poll", {"limit": 1000}, headers=ACCEPT)

    with pa.ipc.open_stream(answer.content) as reader:
        sizes = [batch.nbytes for batch in reader]
    assert sum(sizes) > 4_000_000
    assert max(sizes) < 1_600_000


@pytest.mark.parametrize("in_query", [True, False])
async def test_a_range_is_read_up_to_its_end(own: Rest, *, in_query: bool) -> None:
    await own.create()
    await own.publish(*(b"%d" % number for number in range(10)))
    ids = [message_id for message_id, _ in await own.messages()]

    if in_query:
        found = await polled(own, f"?end={ids[7]}&isolation=committed", startFrom=ids[3])
    else:
        found = await polled(own, startFrom=ids[3], end=ids[7], isolation="committed")

    assert found.column("payload").to_pylist() == [b"3", b"4", b"5", b"6"]
    assert await own.payloads(startFrom=ids[3], end=ids[5]) == [b"3", b"4"]
    assert await own.payloads(startFrom=ids[3], end=ids[3]) == []


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("?end=00", {}),
        ("?isolation=all", {"isolation": "committed"}),
        (f"?end={'0' * 40}", {"end": "1" * 40}),
        (f"?end={'0' * 40}&wait=1", {}),
        ("?wait=1", {"end": "1" * 40}),
        ("?transaction_id=1", {"isolation": "committed"}),
    ],
)
async def test_what_contradicts_is_refused(own: Rest, query: str, body: dict[str, Any]) -> None:
    await own.create()
    status, code = refusal(await own.post("poll", body, query=query))
    assert (status, code) in {(400, "invalid_query"), (400, "invalid_message_id")}


async def test_errors_before_the_first_byte_are_json(rest: Rest) -> None:
    assert refusal(await rest.post("poll", {}, headers=ACCEPT)) == (404, "topic_not_found")


async def test_any_other_accept_is_answered_in_the_format_of_the_request(rest: Rest) -> None:
    await rest.create()
    for accept in ("*/*", "application/json", f"{ARROW_TYPE};q=0"):
        answer = await rest.post("poll", {}, headers={"accept": accept})
        assert answer.json() == []
    mixed = await rest.post("poll", {}, headers={"accept": f"text/html, {ARROW_TYPE}; q=0.9"})
    assert table_of(mixed).num_rows == 0


async def test_without_the_extra_it_is_named(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    await rest.create()
    for name in ("polled", "published"):
        monkeypatch.setitem(sys.modules, f"tms.arrow.{name}", None)

    answer = await rest.post("poll", {}, headers=ACCEPT)

    assert refusal(answer) == (406, "not_acceptable")
    assert answer.json()["error"]["detail"]["needs"] == "tms-messaging[arrow]"
    assert (await rest.http.get(TOPIC)).status_code == 200


async def written(rest: Rest, verb: str, body: bytes, query: str = "") -> httpx.Response:
    return await rest.post(verb, body, ARROW_TYPE, query=query)


async def test_a_column_is_published(rest: Rest) -> None:
    await rest.create()
    payloads = [b"one", b"", b"\xff" * 300]

    answer = await written(rest, "publish", encode_payloads(payloads))

    assert (answer.status_code, answer.json()) == (200, {"messages": 3})
    assert await rest.payloads() == payloads


async def test_several_batches_and_other_columns_and_types(rest: Rest) -> None:
    await rest.create()
    for kind in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string()):
        column = pa.array([b"a", b"b", b"c"]).cast(kind)
        batch = pa.record_batch([pa.array([1, 2, 3]), column], names=["n", "payload"])
        body = encode_batches([batch.slice(1, 2), batch.slice(0, 1)])
        assert (await written(rest, "publish", body)).json() == {"messages": 3}

    assert await rest.payloads() == [b"b", b"c", b"a"] * 4


async def test_in_a_transaction_it_is_rolled_back_by_the_answer(own: Rest) -> None:
    await own.create()
    pointer = await started(own)

    answer = await written(own, "publish", encode_payloads([b"x"]), f"?write_pointer={pointer}")

    assert answer.json()["messages"] == 1
    assert answer.json()["transactionWritePointer"] == str(pointer)
    undone = await own.post("rollback", answer.content, "application/json")
    assert undone.status_code == 200
    ended = await own.http.post(f"/v1/transactions/{pointer}/abort")
    assert ended.json() == {"status": "aborted"}


async def test_a_column_is_stored_and_published_by_the_commit(own: Rest) -> None:
    await own.create()
    pointer = await started(own)
    payloads = [b"%d" % number for number in range(1000)]

    answer = await written(own, "store", encode_payloads(payloads), f"?write_pointer={pointer}")

    assert answer.json() == {"messages": 1000}
    listed = {"namespace": "ns", "topic": "t", "write_pointer": str(pointer)}
    await own.http.post(f"/v1/transactions/{pointer}/commit", json={"publish": [listed]})
    assert (await polled(own, limit=10_000)).column("payload").to_pylist() == payloads


async def test_caps_hold(rest: Rest) -> None:
    await rest.create()
    many = encode_payloads([b""] * 100_001)
    long = encode_payloads([b"x" * (10 * 1024 * 1024 + 1)])

    assert refusal(await written(rest, "publish", many)) == (413, "too_many_messages")
    assert refusal(await written(rest, "publish", long)) == (413, "message_too_large")


async def test_what_must_not_be_empty(own: Rest) -> None:
    await own.create()
    pointer = await started(own)
    none = encode_payloads([])

    assert refusal(await written(own, "publish", none)) == (400, "empty_publish")
    assert refusal(await written(own, "store", none)) == (400, "invalid_store")
    stored = await written(own, "store", none, f"?write_pointer={pointer}")
    assert refusal(stored) == (400, "invalid_store")
    wrong = await written(own, "store", none, "?write_pointer=x")
    assert refusal(wrong) == (400, "invalid_query")


async def test_a_body_without_the_extra_is_refused(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rest.create()
    body = encode_payloads([b"x"])
    for name in ("polled", "published"):
        monkeypatch.setitem(sys.modules, f"tms.arrow.{name}", None)

    answer = await written(rest, "publish", body)

    assert refusal(answer) == (415, "unsupported_content_type")
    assert answer.json()["error"]["detail"]["needs"] == "tms-messaging[arrow]"
