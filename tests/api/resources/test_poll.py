"""Poll: where it starts, what it returns, its encodings, pages and compression."""

import asyncio
import base64
import gzip
from typing import Any

import pytest

from tests.api.rest import (
    AVRO_TYPE,
    GOLDEN,
    JSON_TYPE,
    NOW_MS,
    POINTER,
    TOPIC,
    Rest,
    avro_poll,
    avro_publish,
    live,
    refusal,
)
from tests.waiting import in_time
from tests.wire.poll_decoder import AvroPollDecoder
from tms.core.limits import Limits
from tms.core.values.message import MessageId
from tms.core.values.transaction import ALL_VISIBLE_LATEST, Transaction
from tms.wire.transaction_codec import encode_transaction

pytestmark = pytest.mark.anyio

SEES_ALL = encode_transaction(ALL_VISIBLE_LATEST)


def ids(*sequence_ids: int, at: int = NOW_MS) -> list[str]:
    return [str(MessageId(at, number)) for number in sequence_ids]


async def test_an_empty_answer_in_each_format(rest: Rest) -> None:
    await rest.create()

    in_avro = await rest.post("poll", avro_poll())
    in_json = await rest.post("poll", {})

    assert (in_avro.status_code, in_avro.content) == (200, b"\x00")
    assert in_avro.headers["content-type"] == AVRO_TYPE
    assert (in_json.status_code, in_json.content) == (200, b"[]")
    assert in_json.headers["content-type"] == JSON_TYPE


async def test_messages_in_avro_are_one_block_and_the_end(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"hello", b"")

    answer = await rest.post("poll", avro_poll())

    first, second = (bytes.fromhex(i) for i in ids(0, 1))
    assert answer.content == (
        b"\x04" + b"\x28" + first + b"\x0ahello" + b"\x28" + second + b"\x00" + b"\x00"
    )
    assert answer.headers["content-length"] == str(len(answer.content))


async def test_messages_in_json_are_text_where_they_are_text(rest: Rest) -> None:
    await rest.create()
    await rest.publish("é\n".encode(), b"\xff", b"")

    answer = await rest.post("poll", {})

    first, second, third = ids(0, 1, 2)
    assert answer.json() == [
        {"id": first, "timestamp": NOW_MS, "payload": "é\n"},
        {"id": second, "timestamp": NOW_MS, "payload": {"base64": "/w=="}},
        {"id": third, "timestamp": NOW_MS, "payload": ""},
    ]


async def test_an_empty_json_body_asks_for_the_oldest(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"a")

    answer = await rest.post("poll", b"", JSON_TYPE)

    assert [m["payload"] for m in answer.json()] == ["a"]


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({}, "abcd"),
        ({"startFrom": ids(1)[0]}, "bcd"),
        ({"startFrom": {"bytes": ids(1)[0].upper()}}, "bcd"),
        ({"startFrom": ids(1)[0], "inclusive": False}, "cd"),
        ({"startFrom": NOW_MS}, "abcd"),
        ({"startFrom": NOW_MS, "inclusive": False}, "d"),
        ({"startFrom": {"long": NOW_MS + 1}}, "d"),
        ({"startFrom": NOW_MS + 2}, ""),
        ({"limit": 2}, "ab"),
        ({"limit": {"int": 1}, "startFrom": ids(1)[0]}, "b"),
        ({"limit": 2**31 - 1}, "abcd"),
        ({"limit": 2**62}, "abcd"),
        ({"startFrom": 2**63 - 1}, ""),
        ({"startFrom": "7f" + "ff" * 9 + "7f" + "ff" * 9, "inclusive": False}, ""),
    ],
)
async def test_where_a_poll_starts_and_ends(rest: Rest, asked: dict[str, Any], given: str) -> None:
    await rest.create()
    await rest.publish(b"a", b"b", b"c")
    rest.clock.advance(1)
    await rest.publish(b"d")

    assert b"".join(await rest.payloads(**asked)) == given.encode()


async def test_golden_polls_of_the_java_client_are_taken(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"a")

    for golden in (g for g in GOLDEN["avro"] if g["schema"] == "ConsumeRequest"):
        answer = await rest.post("poll", bytes.fromhex(golden["encoded"]))
        decoder = AvroPollDecoder()
        messages = decoder.feed(answer.content)
        decoder.close()
        starts_after = golden["startFrom"] == "long:1700000000000" and not golden["inclusive"]
        starts_after |= golden["startFrom"].startswith("bytes:") if golden["startFrom"] else False
        assert answer.status_code == 200
        assert [m.payload for m in messages] == ([] if starts_after else [b"a"])


async def test_the_default_and_the_cap_of_the_limit() -> None:
    async with live(Limits(poll_messages_default=2, poll_messages_max=3)) as rest:
        await rest.create()
        await rest.publish(*b"a b c d".split())

        assert len(await rest.payloads()) == 2
        assert len(await rest.payloads(limit=1000)) == 3


async def test_a_transaction_sees_up_to_what_may_still_commit(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"plain")
    await rest.publish(b"theirs", pointer=POINTER)
    await rest.publish(b"later")

    def seen_by(**facts: Any) -> bytes:
        own = POINTER + 1
        return avro_poll(
            transaction=encode_transaction(
                Transaction(transaction_id=own, write_pointer=own, **facts)
            )
        )

    async def payloads(body: bytes) -> list[bytes]:
        answer = await rest.post("poll", body)
        return [m.payload for m in AvroPollDecoder().feed(answer.content)]

    in_progress = seen_by(read_pointer=POINTER, in_progress=(POINTER,))
    assert await payloads(in_progress) == [b"plain"]
    committed = seen_by(read_pointer=POINTER)
    assert await payloads(committed) == [b"plain", b"theirs", b"later"]
    invalid = seen_by(read_pointer=POINTER, invalids=(POINTER,))
    assert await payloads(invalid) == [b"plain", b"later"]


@pytest.mark.parametrize("content_type", [AVRO_TYPE, JSON_TYPE])
@pytest.mark.parametrize("limit", [1, 50, 99, 100, 101, 1000])
async def test_many_pages_are_one_answer(content_type: str, limit: int) -> None:
    async with live(Limits(poll_block_bytes=1000)) as rest:
        await rest.create()
        payloads = [f"{number:>90}" for number in range(100)]
        await rest.publish(*(p.encode() for p in payloads))

        body: Any = {"limit": limit} if content_type == JSON_TYPE else avro_poll(limit=limit)
        answer = await rest.post("poll", body)

        if content_type == JSON_TYPE:
            given = [m["payload"] for m in answer.json()]
        else:
            decoder = AvroPollDecoder()
            given = [m.payload.decode() for m in decoder.feed(answer.content)]
            decoder.close()
        assert given == payloads[:limit]


async def test_pages_that_hold_nothing_visible_are_passed_over() -> None:
    async with live(Limits(poll_block_bytes=1000)) as rest:
        await rest.create()
        for _ in range(10):
            published = await rest.publish(*[b"x" * 400] * 10, pointer=POINTER)
            assert (await rest.post("rollback", published.content)).status_code == 200
        await rest.publish(b"seen")
        body = avro_poll(transaction=SEES_ALL)

        answer = await rest.post("poll", body)
        in_json = await rest.post("poll", {"transaction": base64.b64encode(SEES_ALL).decode()})

        assert [m.payload for m in AvroPollDecoder().feed(answer.content)] == [b"seen"]
        assert [m["payload"] for m in in_json.json()] == ["seen"]


async def test_an_answer_is_compressed_for_those_who_take_gzip(rest: Rest) -> None:
    await rest.create()
    await rest.publish(*[b"x" * 100] * 100)
    plain = await rest.post("poll", avro_poll())

    # CDAP's Java client sends this with every poll.
    headers = {"accept-encoding": "gzip, deflate"}
    async with rest.http.stream(
        "POST", f"{TOPIC}/poll", content=avro_poll(), headers={"content-type": AVRO_TYPE, **headers}
    ) as answer:
        raw = b"".join([part async for part in answer.aiter_raw()])

    assert answer.headers["content-encoding"] == "gzip"
    assert len(raw) < len(plain.content) / 5
    assert gzip.decompress(raw) == plain.content
    assert "content-encoding" not in plain.headers


@pytest.mark.parametrize("accepted", ["identity", "deflate", "gzip;q=0", "br, gzip; q=0.0"])
async def test_an_answer_is_plain_for_others(rest: Rest, accepted: str) -> None:
    await rest.create()
    await rest.publish(*[b"x" * 100] * 100)

    answer = await rest.post("poll", avro_poll(), headers={"accept-encoding": accepted})

    assert "content-encoding" not in answer.headers
    assert len(answer.content) > 10_000


async def test_a_wait_ends_with_the_first_message(rest: Rest) -> None:
    await rest.create()
    waiting = asyncio.create_task(rest.post("poll", {}, query="?wait=60"))
    await rest.until(lambda: rest.waiters() == 1)

    await rest.publish(b"a")

    assert [m["payload"] for m in (await waiting).json()] == ["a"]


async def test_a_wait_ends_with_its_time(rest: Rest) -> None:
    await rest.create()

    answer = await rest.post("poll", avro_poll(), query="?wait=0.01")

    assert (answer.status_code, answer.content) == (200, b"\x00")


async def test_a_wait_is_capped() -> None:
    async with live(Limits(poll_wait_s_max=0.01)) as rest:
        await rest.create()

        async with in_time():
            answer = await rest.post("poll", {}, query="?wait=1e9")

        assert answer.content == b"[]"


async def test_a_wait_returns_at_once_if_there_are_messages(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"a")

    answer = await rest.post("poll", {}, query="?wait=60")

    assert [m["payload"] for m in answer.json()] == ["a"]


async def test_a_wait_ends_when_the_topic_is_deleted(rest: Rest) -> None:
    await rest.create()
    waiting = asyncio.create_task(rest.post("poll", {}, query="?wait=60"))
    await rest.until(lambda: rest.waiters() == 1)

    await rest.http.delete(TOPIC)

    assert refusal(await waiting) == (404, "topic_not_found")


async def test_a_waiting_poll_answers_when_the_service_stops(rest: Rest) -> None:
    await rest.create()
    waiting = asyncio.create_task(rest.post("poll", {}, query="?wait=60"))
    await rest.until(lambda: rest.waiters() == 1)

    rest.service.stop_waiting()

    assert (await waiting).content == b"[]"


async def test_a_message_is_not_given_after_its_time_to_live(rest: Rest) -> None:
    await rest.create(ttl=10)
    await rest.post("publish", avro_publish(b"a"))

    rest.clock.advance(10_001)

    assert await rest.payloads() == []
