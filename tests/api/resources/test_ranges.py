"""Positions, splits and reach over REST."""

from typing import Any

import pytest

from tests.api.rest import NOW_MS, TOPIC, TOPICS, Live, Rest, avro_publish, refusal
from tests.api.transactions import started
from tests.waiting import in_time
from tms.core.limits import TTL_S_DEFAULT
from tms.core.values.message import first_id_at
from tms.core.values.topic import TopicId

pytestmark = pytest.mark.anyio

NAMESPACE = "/v1/namespaces/ns"
FIRST = "0" * 40


async def positions(rest: Rest, *topics: str, **asked: Any) -> dict[str, Any]:
    answer = await rest.http.post(f"{NAMESPACE}/positions", json={"topics": topics, **asked})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def end_of(rest: Rest, isolation: str = "committed") -> str:
    told = await positions(rest, "t", isolation=isolation)
    return str(told["topics"]["t"]["end"])


async def test_positions_are_reported_for_each_topic_and_null_for_none(own: Rest) -> None:
    await own.create()
    await own.create(f"{TOPICS}/empty")
    await own.publish(b"a", b"b")

    told = await positions(own, "t", "empty", "missing", "t")

    [first, second] = [message_id for message_id, _ in await own.messages()]
    assert told["time_ms"] == NOW_MS
    assert set(told["topics"]) == {"t", "empty", "missing"}
    assert told["topics"]["missing"] is None
    expired = first_id_at(NOW_MS - TTL_S_DEFAULT * 1000).hex()
    assert told["topics"]["empty"] == {
        "start": FIRST,
        "end": FIRST,
        "generation": 1,
        "expired_before": expired,
    }
    assert told["topics"]["t"]["start"] == first
    assert told["topics"]["t"]["end"] > second
    assert told["topics"]["t"]["generation"] == 1


async def test_a_position_stands_before_what_is_in_progress(own: Rest) -> None:
    await own.create()
    await own.publish(b"before")
    pointer = await started(own)
    before = await end_of(own)
    await own.publish(b"in progress", pointer=pointer)
    await own.publish(b"behind")

    assert await end_of(own) == before
    assert await end_of(own, "all") > before

    answer = await own.http.post(f"/v1/transactions/{pointer}/commit")
    assert answer.status_code == 200
    assert await end_of(own) == await end_of(own, "all")


async def test_all_is_held_back_at_a_reference_that_can_still_grow(own: Rest) -> None:
    await own.create()
    pointer = await started(own)
    await own.post("store", avro_publish(b"one", pointer=pointer))
    await own.publish(pointer=pointer)
    held = await end_of(own, "all")
    [(message_id, _)] = await own.messages()

    assert message_id[:20] == held[:20]

    await own.http.post(f"/v1/transactions/{pointer}/commit")
    assert await end_of(own, "all") > held


async def test_what_has_expired_is_behind_the_start(own: Rest) -> None:
    await own.create(ttl=10)
    await own.publish(b"old")
    own.clock.advance(6000)
    await own.publish(b"young")
    own.clock.advance(6000)

    told = (await positions(own, "t"))["topics"]["t"]
    [(young, _)] = await own.messages()
    assert told["start"] == young

    own.clock.advance(6000)
    told = (await positions(own, "t"))["topics"]["t"]
    assert told["start"] == told["end"] > young


async def test_a_topic_that_was_created_again_has_another_generation(own: Rest) -> None:
    await own.create()
    await own.http.delete(TOPIC)
    await own.create()

    assert (await positions(own, "t"))["topics"]["t"]["generation"] == 2


async def test_what_is_committed_is_not_known_where_others_manage_it(rest: Rest) -> None:
    await rest.create()
    answer = await rest.http.post(f"{NAMESPACE}/positions", json={"topics": ["t"]})
    assert refusal(answer) == (409, "transactions_elsewhere")

    told = await positions(rest, "t", isolation="all")
    assert told["topics"]["t"]["end"] == FIRST


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ("", (400, "invalid_body")),
        ("{}", (400, "invalid_body")),
        ('{"topics": "t"}', (400, "invalid_body")),
        ('{"topics": ["t"], "isolation": "some"}', (400, "invalid_body")),
        ('{"topics": ["a b"]}', (400, "invalid_topic_name")),
    ],
)
async def test_wrong_bodies_are_refused(own: Rest, body: str, refused: tuple[int, str]) -> None:
    assert refusal(await own.http.post(f"{NAMESPACE}/positions", content=body)) == refused


async def test_more_topics_than_may_be_are_refused(own: Rest) -> None:
    names = [f"t{number}" for number in range(10_001)]
    answer = await own.http.post(f"{NAMESPACE}/positions", json={"topics": names})
    assert refusal(answer) == (413, "too_many_topics")


async def reach(rest: Rest, **asked: Any) -> dict[str, Any]:
    answer = await rest.http.get(f"{TOPIC}/reach", params={"start": FIRST, **asked})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_reach_is_bounded_in_messages_and_bytes(own: Rest) -> None:
    await own.create()
    await own.publish(*(b"x" * 10 for _ in range(10)))
    end = await end_of(own)
    ids = [message_id for message_id, _ in await own.messages()]

    assert await reach(own, end=end) == {"end": end, "messages": 10, "bytes": 100}
    told = await reach(own, end=end, messages=4)
    assert (told["messages"], told["bytes"]) == (4, 40)
    assert ids[3] < told["end"] <= ids[4]
    assert (await reach(own, end=end, bytes=39))["messages"] == 3
    assert (await reach(own, end=end, bytes=40))["messages"] == 4
    assert (await reach(own, end=end, bytes=1))["messages"] == 1
    assert (await reach(own, end=ids[2], messages=5)) == {"end": ids[2], "messages": 2, "bytes": 20}
    assert (await reach(own, end=end, start=end)) == {"end": end, "messages": 0, "bytes": 0}


async def test_reach_goes_no_further_than_what_is_decided(own: Rest) -> None:
    await own.create()
    await own.publish(b"before")
    pointer = await started(own)
    await own.publish(b"in progress", pointer=pointer)

    assert (await reach(own, end="7f" + "0" * 38))["messages"] == 1
    assert (await reach(own, end="7f" + "0" * 38, isolation="all"))["messages"] == 2


async def test_reach_may_end_inside_of_what_was_stored(own: Rest) -> None:
    await own.create()
    pointer = await started(own)
    await own.post("store", avro_publish(*(b"%d" % n for n in range(5)), pointer=pointer))
    await own.publish(pointer=pointer)
    await own.http.post(f"/v1/transactions/{pointer}/commit")
    end = await end_of(own)

    half = await reach(own, end=end, messages=3)
    rest = await reach(own, start=half["end"], end=end)

    assert (half["messages"], rest["messages"]) == (3, 2)
    assert half["end"][20:] != "0" * 20


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("", (400, "invalid_query")),
        (f"?start={FIRST}", (400, "invalid_query")),
        (f"?start=0&end={FIRST}", (400, "invalid_message_id")),
        (f"?start={'1' * 40}&end={FIRST}", (400, "invalid_range")),
        (f"?start={FIRST}&end={FIRST}&messages=0", (400, "invalid_range")),
        (f"?start={FIRST}&end={FIRST}&parts=0", (400, "invalid_range")),
        (f"?start={FIRST}&end={FIRST}&parts=-1", (400, "invalid_query")),
        (f"?start={FIRST}&end={FIRST}&messages=x", (400, "invalid_query")),
        (f"?start={FIRST}&end={FIRST}&messages=1&parts=1", (400, "unknown_query_parameter")),
    ],
)
async def test_wrong_queries_are_refused(own: Rest, query: str, refused: tuple[int, str]) -> None:
    await own.create()
    verb = "splits" if "parts" in query else "reach"
    assert refusal(await own.http.get(f"{TOPIC}/{verb}{query}")) == refused


async def test_ranges_of_no_topic_are_refused(own: Rest) -> None:
    for verb in ("splits", "reach"):
        answer = await own.http.get(f"{TOPIC}/{verb}?start={FIRST}&end={FIRST}")
        assert refusal(answer) == (404, "topic_not_found")


async def test_splits_are_not_answered_once_their_client_has_left(served: Live) -> None:
    await served.create()
    await served.service.publish(TopicId("ns", "t"), [b"x"] * 50_000)
    wire = await served.connect()
    target = f"{TOPIC}/splits?start={FIRST}&end={await end_of(served, 'all')}&parts=1000"
    wire.writer.write(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    wire.writer.write_eof()

    async with in_time():
        assert await wire.reader.read() == b""


async def test_reach_ends_when_its_client_leaves(served: Live) -> None:
    """If a client closes its side at once, the work ends at its first turn, without an answer."""
    await served.create()
    for _ in range(4):
        await served.service.publish(TopicId("ns", "t"), [b"x"] * 50_000)
    end = await end_of(served, "all")
    before = served.registry.get_sample_value("tms_cache_hits_total")
    wire = await served.connect()
    target = f"{TOPIC}/reach?start={FIRST}&end={end}&isolation=all"
    wire.writer.write(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    wire.writer.write_eof()

    async with in_time():
        assert await wire.reader.read() == b""

    after = served.registry.get_sample_value("tms_cache_hits_total")
    assert before is not None
    assert after is not None
    assert after - before < 20
