"""Values over REST: JSON is encoded by schemas and polled decoded, and payloads are checked."""

import base64
import json
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.api.rest import (
    JSON_TYPE,
    POINTER,
    TOPIC,
    TOPICS,
    Rest,
    avro_publish,
    live,
    refusal,
)
from tests.arrow.bodies import encode_batches
from tms.core.limits import Limits
from tms.serdes.wire_format import start_of
from tms.wire.json_values import bytes_of
from tms.wire.media_types import ARROW_TYPE, DECODED_TYPE

pytestmark = pytest.mark.anyio

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
GOOD = b"\x02a\x00"
"""The order `a`, without its id."""
CUT_OFF = b"\x04a"


async def register(rest: Rest, subject: str, schema: str, kind: str = "AVRO") -> int:
    return (await rest.services.schemas.register(subject, schema, kind)).id


async def publish(rest: Rest, *messages: Any, topic: str = TOPIC, verb: str = "publish") -> Any:
    return await rest.post(verb, {"messages": list(messages)}, topic=topic)


async def decoded(rest: Rest, topic: str = TOPIC, query: str = "", **asked: Any) -> Any:
    answer = await rest.post(
        "poll", asked, topic=topic, query=query, headers={"accept": DECODED_TYPE}
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == JSON_TYPE
    return [{name: each[name] for name in each if name != "id"} for each in answer.json()]


def detail(answer: httpx.Response) -> dict[str, Any]:
    told: dict[str, Any] = answer.json()["error"]["detail"]
    return told


async def test_values_are_encoded_by_the_latest_schema_and_reported_again(rest: Rest) -> None:
    await rest.create(key_subject="keys")
    schema_id = await register(rest, "ns:t-value", ORDER)
    await register(rest, "keys", '"string"')
    given: list[dict[str, Any]] = [
        {"value": {"id": "a", "note": {"string": "x"}}, "keyValue": "k", "headers": {"h": "1"}},
        {"value": {"id": "b"}},
        {"payload": None, "keyValue": "k"},
    ]

    assert (await publish(rest, *given)).status_code == 200

    assert await decoded(rest) == [
        {**given[0], "schemaId": schema_id},
        {"value": {"id": "b", "note": None}, "schemaId": schema_id},
        {"value": None, "keyValue": "k"},
    ]
    [*_, second, _] = (await rest.post("poll", {})).json()
    assert bytes_of(second["payload"]) == start_of(schema_id) + b"\x02b\x00"


async def test_bytes_and_values_may_be_mixed(rest: Rest) -> None:
    await rest.create()
    schema_id = await register(rest, "ns:t-value", ORDER)

    answer = await publish(rest, "raw", {"value": {"id": "a"}, "key": "k"}, {"payload": "p"})

    assert answer.status_code == 200
    told = await decoded(rest)
    reason = "it does not begin with a zero byte and a schema's id"
    assert told == [
        {"payload": "raw", "error": reason},
        {"value": {"id": "a", "note": None}, "schemaId": schema_id, "key": "k"},
        {"payload": "p", "error": reason},
    ]


@pytest.mark.parametrize(
    ("kind", "schema", "value", "told"),
    [
        ("JSON", '{"required":["n"]}', {"n": 1, "m": [2]}, {"n": 1, "m": [2]}),
        (
            "PROTOBUF",
            'syntax="proto3"; message M { int64 n = 1; M in = 2; }',
            {"n": "5", "in": {}},
            {"n": "5", "in": {"n": "0"}},
        ),
        ("AVRO", '["null",{"type":"map","values":"bytes"}]', {"map": {"a": "\xff"}}, None),
    ],
)
async def test_each_type_has_its_json(
    rest: Rest, kind: str, schema: str, value: Any, told: Any
) -> None:
    await rest.create()
    await register(rest, "ns:t-value", schema, kind)
    assert (await publish(rest, {"value": value})).status_code == 200
    [message] = await decoded(rest)
    assert message["value"] == (told or value)


async def test_a_value_that_does_not_fit_is_named_and_nothing_is_published(rest: Rest) -> None:
    await rest.create()
    await register(rest, "ns:t-value", ORDER)

    answer = await publish(rest, {"value": {"id": "a"}}, {"value": {"id": 1}})

    assert refusal(answer) == (422, "value_unfit")
    assert (detail(answer)["index"], detail(answer)["field"]) == (1, "id")
    assert await rest.messages() == []


@pytest.mark.parametrize(
    "message",
    [
        {"value": {}, "payload": "x"},
        {"value": {}, "payload": None},
        {"value": {}, "base64": "AA=="},
        {"value": {}, "bytes": "x"},
        {"value": {}, "key": "k", "keyValue": "k"},
        {"keyValue": "k"},
        {"payload": "x", "keyValue": "k"},
    ],
)
async def test_a_value_beside_a_payload_is_refused(rest: Rest, message: dict[str, Any]) -> None:
    await rest.create()
    await register(rest, "ns:t-value", ORDER)
    assert refusal(await publish(rest, message)) == (400, "invalid_body")


async def test_values_are_published_to_one_topic_at_a_time(own: Rest) -> None:
    await own.create()
    answer = await own.http.post(
        "/v1/namespaces/ns/publish", json={"topics": {"t": [{"value": {"id": "a"}}]}}
    )
    assert refusal(answer) == (400, "invalid_body")


async def test_without_a_schema_values_are_refused(rest: Rest) -> None:
    await rest.create()
    assert refusal(await publish(rest, {"value": 1})) == (422, "schema_unusable")
    await rest.create(f"{TOPICS}/r", subject_strategy="record")
    answer = await publish(rest, {"value": 1}, topic=f"{TOPICS}/r")
    assert refusal(answer) == (422, "schema_unusable")
    assert refusal(await publish(rest, {"value": 1}, topic=f"{TOPICS}/none")) == (
        404,
        "topic_not_found",
    )


async def test_a_poll_waits_and_is_answered_in_parts() -> None:
    async with live(limits=Limits(poll_block_bytes=1000)) as rest:
        await rest.create()
        await register(rest, "ns:t-value", ORDER)
        count = 1000
        values = [{"value": {"id": str(number)}} for number in range(count)]
        assert (await publish(rest, *values)).status_code == 200

        told = await decoded(rest, limit=count)
        assert [each["value"]["id"] for each in told] == [str(n) for n in range(count)]
        assert await decoded(rest, limit=3) == told[:3]
        later = rest.clock.now_ms() + 1
        assert await decoded(rest, startFrom=later, query="?wait=0.01") == []


async def checked(rest: Rest, check: str, **properties: str) -> int:
    await rest.create(schema_check=check, **properties)
    return await register(rest, properties.get("subject", "ns:t-value"), ORDER)


async def sent_in_each_way(rest: Rest, payload: bytes) -> list[httpx.Response]:
    """Return the answers to a good payload and the given one, published in every possible way."""
    good = start_of(1) + GOOD
    arrow = encode_batches([pa.record_batch({"payload": [good, payload]})])
    in_json = {"messages": [{"base64": b64(each)} for each in (good, payload)]}
    return [
        await rest.post("publish", avro_publish(good, payload)),
        await rest.post("publish", in_json),
        await rest.post("publish", arrow, ARROW_TYPE),
        await rest.post("publish", avro_publish(good, payload, pointer=POINTER)),
        await rest.post("store", avro_publish(good, payload, pointer=POINTER)),
    ]


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    ("check", "payload", "code"),
    [
        ("id", b"raw", "payload_without_schema"),
        ("id", start_of(9) + GOOD, "payload_without_schema"),
        ("id", start_of(1) + CUT_OFF, None),
        ("full", b"", "payload_without_schema"),
        ("full", start_of(9) + GOOD, "payload_without_schema"),
        ("full", start_of(1) + CUT_OFF, "payload_unfit"),
        ("full", start_of(1) + GOOD + b"\0", "payload_unfit"),
        ("full", start_of(1) + GOOD, None),
        ("off", b"raw", None),
    ],
)
async def test_payloads_are_checked_in_whichever_way_they_come(
    rest: Rest, check: str, payload: bytes, code: str | None
) -> None:
    await checked(rest, check)
    for answer in await sent_in_each_way(rest, payload):
        if code is None:
            assert answer.status_code == 200, answer.text
            continue
        assert refusal(answer) == (422, code)
        assert detail(answer)["index"] == 1
    if code is not None:
        assert await rest.messages() == []


async def test_a_publish_to_several_topics_is_refused_as_a_whole(own: Rest) -> None:
    await checked(own, "full")
    await own.create(f"{TOPICS}/other")
    topics = {"other": ["x"], "t": [{"base64": b64(start_of(1) + CUT_OFF)}]}
    answer = await own.http.post("/v1/namespaces/ns/publish", json={"topics": topics})
    assert refusal(answer) == (422, "payload_unfit")
    assert (detail(answer)["topic"], detail(answer)["field"]) == ("ns:t", "id")
    assert await own.messages(f"{TOPICS}/other") == []


async def test_keys_are_checked_if_they_have_a_subject(rest: Rest) -> None:
    await checked(rest, "full", key_subject="keys")
    key_id = await register(rest, "keys", '"string"')
    payload = b64(start_of(1) + GOOD)
    for key, expected in (
        (b"k", "payload_without_schema"),
        (start_of(1) + GOOD, "payload_without_schema"),
        (start_of(key_id) + b"\x04a", "payload_unfit"),
    ):
        message = {"payload": {"base64": payload}, "key": {"base64": b64(key)}}
        answer = await publish(rest, message)
        assert refusal(answer) == (422, expected)
        assert detail(answer)["part"] == "key"
    good = {"base64": b64(start_of(key_id) + b"\x02k")}
    assert (await publish(rest, {"payload": None, "key": good})).status_code == 200
    assert (await publish(rest, {"base64": payload})).status_code == 200, "no key, no schema of it"


@pytest.mark.parametrize(
    ("strategy", "subject"), [("record", "shop.Order"), ("topic_record", "ns:t-shop.Order")]
)
async def test_the_subject_of_a_record_is_found_by_its_name(
    rest: Rest, strategy: str, subject: str
) -> None:
    await rest.create(schema_check="full", subject_strategy=strategy)
    wrong = await register(rest, "elsewhere", ORDER.replace("Order", "Other"))
    right = await register(rest, subject, ORDER)
    assert refusal(await rest.post("publish", avro_publish(start_of(wrong) + GOOD))) == (
        422,
        "payload_without_schema",
    )
    await rest.publish(start_of(right) + GOOD)


async def test_what_is_checked_follows_the_subject_and_the_properties(rest: Rest) -> None:
    payload = start_of(await checked(rest, "id")) + GOOD
    await rest.publish(payload)
    await rest.services.schemas.delete("ns:t-value")
    refused = await rest.post("publish", avro_publish(payload))
    assert refusal(refused) == (422, "payload_without_schema")
    assert [each["value"] for each in await decoded(rest)] == [{"id": "a", "note": None}]
    await register(rest, "ns:t-value", ORDER)
    await rest.publish(payload)
    properties = f"{TOPIC}/properties"
    other = {"schema_check": "id", "subject": "other"}
    assert (await rest.http.put(properties, json=other)).status_code == 200
    refused = await rest.post("publish", avro_publish(payload))
    assert detail(refused)["reason"] == "Schema 1 of subject 'other' not found"
    assert (await rest.http.put(properties, json={})).status_code == 200
    await rest.publish(b"raw")


async def test_a_subject_may_be_in_another_context(rest: Rest) -> None:
    await rest.create(schema_check="full", subject=":.c:orders")
    await register(rest, "elsewhere", '"long"')
    assert await register(rest, ":.c:orders", ORDER) == 1
    await rest.publish(start_of(1) + GOOD)
    assert [each["value"] for each in await decoded(rest)] == [{"id": "a", "note": None}]


async def test_a_server_without_a_registry_says_so(rest: Rest) -> None:
    await rest.create()
    rest.service.schema_checks.values = None
    answer = await publish(rest, {"value": 1})
    assert refusal(answer) == (503, "schemas_unavailable")
    answer = await rest.post("poll", {}, headers={"accept": DECODED_TYPE})
    assert refusal(answer) == (503, "schemas_unavailable")
    answer = await rest.http.put(f"{TOPICS}/checked", json={"schema_check": "id"})
    assert refusal(answer) == (400, "invalid_properties")
    assert "registry" in detail(answer)["reason"]


async def test_plain_json_is_not_decoded(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"raw")
    for accept in ("application/json", "application/json;decode=false", f"{DECODED_TYPE};q=0"):
        answer = await rest.post("poll", {}, headers={"accept": accept})
        assert [each["payload"] for each in answer.json()] == ["raw"]


async def test_messages_without_a_payload_pass_a_check(rest: Rest) -> None:
    await checked(rest, "full")
    assert (await publish(rest, {"payload": None, "key": "k"})).status_code == 200
    assert await decoded(rest) == [{"value": None, "key": "k"}]
