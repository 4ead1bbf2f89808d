"""Publish, store and rollback, in Avro and JSON: their answers, and that errors change nothing."""

import asyncio
import json
from typing import Any

import pytest

from tests.api.rest import (
    AVRO_TYPE,
    GOLDEN,
    JSON_TYPE,
    NOW_MS,
    POINTER,
    Rest,
    avro_poll,
    avro_publish,
    live,
    refusal,
)
from tests.waiting import turns
from tms.core.limits import Limits
from tms.core.services.messaging import RollbackRange
from tms.wire.avro_bodies import AVRO
from tms.wire.json_bodies import JSON

pytestmark = pytest.mark.anyio

RANGE = {
    "transactionWritePointer": str(POINTER),
    "rollbackRange": {
        "startTimestamp": NOW_MS,
        "startSequenceId": 0,
        "endTimestamp": NOW_MS,
        "endSequenceId": 1,
    },
}


async def test_a_plain_publish_answers_nothing(rest: Rest) -> None:
    await rest.create()

    answer = await rest.post("publish", avro_publish(b"a", b"b"))

    assert (answer.status_code, answer.content) == (200, b"")
    assert "content-type" not in answer.headers
    assert await rest.payloads() == [b"a", b"b"]


async def test_a_transactional_publish_answers_what_rolls_it_back(rest: Rest) -> None:
    await rest.create()

    answer = await rest.post("publish", avro_publish(b"a", b"b", pointer=POINTER))

    assert answer.status_code == 200
    assert answer.headers["content-type"] == AVRO_TYPE
    assert AVRO.decode_range(answer.content) == RollbackRange(POINTER, NOW_MS, 0, NOW_MS, 1)


async def test_a_publish_reports_the_ids_if_it_is_asked(rest: Rest) -> None:
    await rest.create()

    in_json = await rest.post("publish", {"messages": ["a", "b"]}, query="?ids=true")
    in_avro = await rest.post("publish", avro_publish(b"c", b"d"), query="?ids=true")
    unasked = await rest.post("publish", {"messages": ["e"]}, query="?ids=false")

    assert (unasked.status_code, unasked.content) == (200, b"")
    assert in_json.headers["content-type"] == JSON_TYPE
    assert in_avro.headers["content-type"] == AVRO_TYPE
    by_avro = AVRO.decode_published(in_avro.content, 2)
    told = in_json.json()["ids"] + [each.hex() for each in by_avro]
    assert told == [message_id for message_id, _ in await rest.messages()][:4]
    assert set(in_json.json()) == {"ids"}
    assert by_avro.rollback_range is None


async def test_in_a_transaction_it_reports_the_ids_and_what_rolls_it_back(rest: Rest) -> None:
    await rest.create()
    body = {"messages": ["a"], "transactionWritePointer": str(POINTER)}

    in_json = await rest.post("publish", body, query="?ids=true")
    in_avro = await rest.post("publish", avro_publish(b"b", pointer=POINTER), query="?ids=true")

    assert in_avro.content == AVRO.encode_range(AVRO.decode_range(in_avro.content))
    by_avro = AVRO.decode_published(in_avro.content, 1)
    told = in_json.json()["ids"] + [each.hex() for each in by_avro]
    assert told == [message_id for message_id, _ in await rest.messages()]
    assert (await rest.post("rollback", in_json.json())).status_code == 200
    assert (await rest.post("rollback", in_avro.content)).status_code == 200
    everything = bytes.fromhex(
        next(t for t in GOLDEN["transactions"] if t["name"] == "ALL_VISIBLE_LATEST")["encoded"]
    )
    seen = await rest.post("poll", avro_poll(transaction=everything))
    assert seen.content == b"\x00", "no transaction sees them any more"


async def test_the_ids_of_what_was_stored_before_are_not_reported(rest: Rest) -> None:
    await rest.create()
    await rest.post("store", avro_publish(b"a", b"b", pointer=POINTER))
    body = {"messages": [], "transactionWritePointer": str(POINTER)}

    answer = await rest.post("publish", body, query="?ids=true")

    assert answer.json()["ids"] == []
    assert answer.json()["transactionWritePointer"] == str(POINTER)
    assert await rest.payloads() == [b"a", b"b"]


async def test_a_wrong_word_for_ids_publishes_nothing(rest: Rest) -> None:
    await rest.create()

    answer = await rest.post("publish", {"messages": ["a"]}, query="?ids=yes")

    assert refusal(answer) == (400, "invalid_query")
    assert await rest.payloads() == []


async def test_json_publishes_text_base64_and_tagged_bytes(rest: Rest) -> None:
    await rest.create()

    answer = await rest.post(
        "publish",
        {
            "messages": ["text", "é", {"base64": "/wA="}, {"bytes": "tagged"}],
            "transactionWritePointer": None,
        },
    )

    assert (answer.status_code, answer.content) == (200, b"")
    assert await rest.payloads() == [b"text", "é".encode(), b"\xff\x00", b"tagged"]


@pytest.mark.parametrize("pointer", [str(POINTER), {"long": str(POINTER)}])
async def test_a_transactional_publish_in_json_answers_in_json(rest: Rest, pointer: object) -> None:
    await rest.create()

    answer = await rest.post(
        "publish", {"transactionWritePointer": pointer, "messages": ["a", "b"]}
    )

    assert answer.status_code == 200
    assert answer.headers["content-type"] == JSON_TYPE
    assert answer.json() == RANGE


async def test_golden_publish_bodies_of_the_java_client_are_taken(rest: Rest) -> None:
    await rest.create()
    bodies = [g for g in GOLDEN["avro"] if g["schema"] == "PublishRequest"]
    published: list[bytes] = []

    for golden in bodies:
        answer = await rest.post("publish", bytes.fromhex(golden["encoded"]))
        pointer = golden["transactionWritePointer"]
        if pointer is None and not golden["messages"]:
            assert refusal(answer) == (400, "empty_publish")
        elif pointer == "-1":
            assert refusal(answer) == (400, "invalid_write_pointer")
        elif pointer == "1":
            assert refusal(answer) == (409, "transaction_expired")
        else:
            assert answer.status_code == 200
            published += [bytes.fromhex(message) for message in golden["messages"]]

    assert await rest.payloads() == published != []


async def test_stored_messages_appear_when_they_are_published(rest: Rest) -> None:
    await rest.create()

    first = await rest.post("store", avro_publish(b"a", b"b", pointer=POINTER))
    second = await rest.post(
        "store", {"transactionWritePointer": str(POINTER), "messages": ["c"]}, JSON_TYPE
    )

    assert [(a.status_code, a.content) for a in (first, second)] == [(200, b"")] * 2
    assert await rest.payloads() == []
    assert (await rest.post("publish", avro_publish(pointer=POINTER))).status_code == 200
    assert await rest.payloads() == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": ["a"]},
        {"messages": ["a"], "transactionWritePointer": None},
        {"messages": [], "transactionWritePointer": str(POINTER)},
    ],
)
async def test_a_store_is_transactional_and_has_messages(rest: Rest, body: dict[str, Any]) -> None:
    await rest.create()

    assert refusal(await rest.post("store", body)) == (400, "invalid_store")


@pytest.mark.parametrize("verb", ["publish", "store"])
@pytest.mark.parametrize(
    ("pointer", "refused"),
    [
        (0, (400, "invalid_write_pointer")),
        (-POINTER, (400, "invalid_write_pointer")),
        (1, (409, "transaction_expired")),
        (POINTER - 25 * 3600 * 1000 * 1_000_000, (409, "transaction_expired")),
    ],
)
async def test_a_write_pointer_out_of_its_time_is_refused(
    rest: Rest, verb: str, pointer: int, refused: tuple[int, str]
) -> None:
    await rest.create()

    in_avro = await rest.post(verb, avro_publish(b"a", pointer=pointer))
    in_json = await rest.post(verb, {"messages": ["a"], "transactionWritePointer": str(pointer)})

    assert refusal(in_avro) == refusal(in_json) == refused
    assert await rest.payloads() == []


async def test_a_rollback_takes_the_answer_of_the_publish_as_it_is(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"plain")
    published = await rest.publish(b"a", b"b", pointer=POINTER)

    twice = [await rest.post("rollback", published.content) for _ in range(2)]

    assert [(a.status_code, a.content) for a in twice] == [(200, b"")] * 2
    everything = bytes.fromhex(
        next(t for t in GOLDEN["transactions"] if t["name"] == "ALL_VISIBLE_LATEST")["encoded"]
    )
    seen = await rest.post("poll", avro_poll(transaction=everything))
    assert b"plain" in seen.content
    assert seen.content[0] == 2, "one message is left to a transaction"
    assert await rest.payloads() == [b"plain", b"a", b"b"], "a log without one is repeatable"


@pytest.mark.parametrize("content_type", [None, "", "application/octet-stream", "text/plain; x"])
async def test_a_rollback_names_its_format(rest: Rest, content_type: str | None) -> None:
    await rest.create()
    published = await rest.publish(b"a", pointer=POINTER)
    headers = {} if content_type is None else {"content-type": content_type}

    answer = await rest.http.post(
        "/v1/namespaces/ns/topics/t/rollback", content=published.content, headers=headers
    )

    assert refusal(answer) == (415, "unsupported_content_type")
    assert (await rest.post("rollback", published.content)).status_code == 200


async def test_a_rollback_in_json(rest: Rest) -> None:
    await rest.create()
    published = await rest.post(
        "publish", {"messages": ["a"], "transactionWritePointer": str(POINTER)}
    )

    assert (await rest.post("rollback", published.json())).status_code == 200
    tagged = {**published.json(), "transactionWritePointer": {"long": str(POINTER)}}
    assert (await rest.post("rollback", tagged)).status_code == 200


async def test_a_rollback_of_others_entries_is_refused(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"plain", b"plain")

    assert refusal(await rest.post("rollback", RANGE)) == (409, "rollback_refused")


@pytest.mark.parametrize(
    "change",
    [
        {"startSequenceId": 65536},
        {"startSequenceId": -1},
        {"endTimestamp": -1},
        {"endTimestamp": NOW_MS - 1},
    ],
)
async def test_a_range_that_no_publish_answered_is_refused(
    rest: Rest, change: dict[str, int]
) -> None:
    await rest.create()
    body = {**RANGE, "rollbackRange": {**RANGE["rollbackRange"], **change}}  # type: ignore[dict-item]

    assert refusal(await rest.post("rollback", body)) == (400, "invalid_rollback_range")


async def test_a_rollback_without_a_write_pointer_is_refused(rest: Rest) -> None:
    await rest.create()
    body = {**RANGE, "transactionWritePointer": None}

    in_json = await rest.post("rollback", body)
    in_avro = await rest.post("rollback", b"\x02" + bytes(4))

    assert refusal(in_json)[0] == 400
    assert refusal(in_avro) == (400, "invalid_write_pointer")


@pytest.mark.parametrize("verb", ["publish", "store", "rollback", "poll"])
async def test_a_topic_that_is_not_there(rest: Rest, verb: str) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "publish": {"messages": ["a"]},
        "store": {"messages": ["a"], "transactionWritePointer": str(POINTER)},
        "rollback": RANGE,
        "poll": {},
    }

    assert refusal(await rest.post(verb, bodies[verb])) == (404, "topic_not_found")


@pytest.mark.parametrize("content_type", [AVRO_TYPE, JSON_TYPE])
@pytest.mark.parametrize("verb", ["publish", "store"])
async def test_caps_on_messages_are_named_and_nothing_is_written(
    verb: str, content_type: str
) -> None:
    limits = Limits(message_bytes_max=10, request_messages_max=3)
    async with live(limits) as rest:
        await rest.create()

        def body(*payloads: str) -> bytes | dict[str, Any]:
            if content_type == AVRO_TYPE:
                return avro_publish(*(p.encode() for p in payloads), pointer=POINTER)
            return {"messages": payloads, "transactionWritePointer": str(POINTER)}

        long = await rest.post(verb, body("fits", "x" * 11))
        many = await rest.post(verb, body(*"abcd"))

        assert refusal(long) == (413, "message_too_large")
        assert long.json()["error"]["detail"] == {"bytes": 11, "message_bytes_max": 10}
        assert refusal(many) == (413, "too_many_messages")
        assert many.json()["error"]["detail"] == {"count": 4, "request_messages_max": 3}
        assert await rest.payloads() == []
        assert (await rest.post(verb, body("x" * 10, "b", "c"))).status_code == 200


async def test_more_messages_than_one_millisecond_has_ids(rest: Rest) -> None:
    await rest.create()

    answer = await rest.publish(*[b""] * 70_000, pointer=POINTER)

    assert AVRO.decode_range(answer.content) == RollbackRange(POINTER, NOW_MS, 0, NOW_MS + 1, 4463)


async def test_a_body_of_many_messages_lets_others_have_their_turn(rest: Rest) -> None:
    await rest.create()
    messages = [str(number) for number in range(20_000)]
    counted = 0

    async def count() -> None:
        nonlocal counted
        while True:
            await turns()
            counted += 1

    steps = JSON.publish_steps(json.dumps({"messages": messages}).encode(), 100_000)
    assert sum(1 for _ in steps) == 10
    counting = asyncio.create_task(count())
    try:
        assert (await rest.post("publish", {"messages": messages})).status_code == 200
    finally:
        counting.cancel()

    assert counted >= 9
    assert await rest.payloads(limit=20_000) == [message.encode() for message in messages]


@pytest.mark.parametrize("content_type", [AVRO_TYPE, JSON_TYPE])
async def test_a_publish_may_be_on_condition(rest: Rest, content_type: str) -> None:
    await rest.create()
    body: Any = avro_publish(b"x") if content_type == AVRO_TYPE else {"messages": ["x"]}

    def publish(if_last: str) -> Any:
        return rest.post("publish", body, content_type, query=f"?if_last={if_last}")

    assert (await publish("empty")).status_code == 200
    [(first, _)] = await rest.messages()
    moved = await publish("empty")
    assert refusal(moved) == (409, "topic_moved")
    assert moved.json()["error"]["detail"] == {"topic": "ns:t", "last_id": first}
    assert (await publish(first)).status_code == 200
    assert refusal(await publish(first)) == (409, "topic_moved")
    assert refusal(await publish("none")) == (400, "invalid_message_id")
    assert refusal(await publish("")) == (400, "invalid_message_id")
    assert refusal(await publish(f"{first}&if_last=empty")) == (400, "invalid_message_id")
    assert len(await rest.messages()) == 2
