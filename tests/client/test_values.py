"""Values with schemas, published and polled: over REST, and with stores in the process."""

import asyncio
import itertools
import json
from typing import Any

import pytest

import tms
from tests.registry import protoc

FIELDS = '{"name":"id","type":"string"},{"name":"count","type":"int","default":1}'
ORDER = f'{{"type":"record","name":"Order","namespace":"shop","fields":[{FIELDS}]}}'
NOTED = ORDER.replace("[", '[{"name":"note","type":["null","string"],"default":null},', 1)
OTHER = '{"type":"record","name":"Other","fields":[{"name":"n","type":"long"}]}'
EVENT = tms.SchemaText('{"title":"Event","type":"object","required":["what"]}', "JSON")
CALLS = tms.SchemaText(
    'syntax = "proto3"; package p; message Call { string to = 1; message In { int32 n = 1; } }',
    "PROTOBUF",
)
A, B = {"id": "a", "count": 1}, {"id": "b", "count": 2}


def values(topic: tms.Topic, how: tms.Decoding | None = None, **options: Any) -> list[Any]:
    return [each.value for each in topic.poll(decode=how or True, **options)]


def subjects(client: tms.Client, namespace: str) -> list[str]:
    return [each for each in client.registry.subjects() if namespace in each]


def test_one_value_or_several_are_published(
    client: tms.Client, topic: tms.Topic, namespace: str
) -> None:
    assert len(topic.publish({"id": "a"}, schema=ORDER)) == 1
    assert len(topic.publish([A, B], schema=ORDER)) == 2
    assert len(topic.publish((each for each in [B]), schema=ORDER)) == 1

    assert values(topic) == [A, A, B, B]
    assert subjects(client, namespace) == [f"{namespace}:orders-value"]
    [version] = client.registry.versions(f"{namespace}:orders-value")
    found = client.registry.version(f"{namespace}:orders-value", version)
    for record, message in zip(topic.poll(decode=True), topic.poll(), strict=True):
        assert (record.id, record.payload) == (message.id, message.payload)
        assert record.schema_id == found.id
        assert message.payload[:5] == b"\0" + found.id.to_bytes(4)


def test_a_record_has_a_key_headers_and_perhaps_no_value(topic: tms.Topic) -> None:
    given = [
        tms.Record(A, key=b"k", headers={"h": b"1"}),
        tms.Record(key=b"k", is_tombstone=True),
        B,
    ]
    topic.publish(given, schema=ORDER)

    first, tombstone, last = topic.poll(decode=True)
    assert (first.value, first.key, dict(first.headers)) == (A, b"k", {"h": b"1"})
    assert (tombstone.value, tombstone.key, tombstone.is_tombstone) == (None, b"k", True)
    assert (tombstone.schema_id, tombstone.error) == (None, None)
    assert (last.value, last.key) == (B, None)


def test_keys_have_schemas_where_the_topic_says_so(client: tms.Client, namespace: str) -> None:
    topic = client.topic("keyed")
    topic.create(key_subject=f"{namespace}-keys")
    topic.publish(tms.Record(A, key=7), schema=ORDER, key_schema='"int"')
    topic.publish(tms.Record(key=8, is_tombstone=True), schema=ORDER, key_schema='"int"')
    topic.publish(tms.Record(b"raw", key=9), key_schema='"int"')

    assert subjects(client, namespace) == [f"{namespace}-keys", f"{namespace}:keyed-value"]
    decoded = list(topic.poll(decode=tms.Decoding(damaged="give")))
    assert [each.key for each in decoded][:2] == [7, 8]
    assert [each.error is None for each in decoded] == [True, True, False]
    plain = list(topic.poll(decode=tms.Decoding(keys=False), limit=2))
    assert [each.key[5:] for each in plain] == [b"\x0e", b"\x10"]
    with pytest.raises(tms.PayloadRefused) as refused:
        topic.publish(tms.Record(A, key="x"), schema=ORDER, key_schema='"int"')
    assert "'x' is not of type int" in refused.value.detail["reason"]


def test_the_latest_schema_and_a_version_of_one_are_used(
    client: tms.Client, topic: tms.Topic, namespace: str
) -> None:
    with pytest.raises(tms.SchemaRefused) as refused:
        topic.publish(A, schema="latest")
    assert refused.value.detail["error_code"] == 40401
    topic.publish(A, schema=ORDER)
    topic.publish(B, schema="latest")
    metadata = tms.SchemaMetadata(properties={"owner": "me"})
    version = client.registry.register(f"{namespace}-else", OTHER, metadata=metadata)
    topic.publish([{"n": 5}], schema=version)

    assert values(topic) == [A, B, {"n": 5}]


def test_a_schema_is_not_registered_if_that_is_not_wanted(
    client: tms.Client, topic: tms.Topic, namespace: str
) -> None:
    with pytest.raises(tms.SchemaRefused) as refused:
        topic.publish(A, schema=ORDER, register=False)
    assert refused.value.detail["error_code"] == 40401
    assert subjects(client, namespace) == []
    assert list(topic.poll()) == []

    client.registry.register(f"{namespace}:orders-value", ORDER)
    topic.publish(A, schema=ORDER, register=False)
    assert values(topic) == [A]


@pytest.mark.parametrize(
    ("schema", "given", "index", "field"),
    [
        (ORDER, [A, {"id": 1}], 1, "id"),
        (ORDER, [{"count": 1}], 0, "id"),
        (ORDER, [A, B, tms.Record({"id": "a", "count": 1 << 31}, key=b"k")], 2, "count"),
        (EVENT, [{"what": 1}, {}], 1, ""),
        (CALLS, [{"to": "x"}, {"to": 5}], 1, ""),
    ],
)
def test_a_value_that_does_not_fit_is_named_and_nothing_is_published(
    topic: tms.Topic, schema: Any, given: list[Any], index: int, field: str
) -> None:
    with pytest.raises(tms.PayloadRefused) as refused:
        topic.publish(given, schema=schema)

    assert refused.value.detail["index"] == index
    assert refused.value.detail.get("field", "") == field
    assert list(topic.poll()) == []


@pytest.mark.parametrize("schema", ["{", '{"type":1}', tms.SchemaText("{", "JSON"), "latest"])
@pytest.mark.parametrize("strategy", ["topic", "record"])
def test_what_is_not_a_schema_is_refused(client: tms.Client, schema: Any, strategy: str) -> None:
    topic = client.topic("orders")
    topic.create(subject_strategy=strategy)

    with pytest.raises((tms.PayloadRefused, tms.SchemaRefused)):
        topic.publish(A, schema=schema)


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("topic", "{namespace}:orders-value"),
        ("record", "shop.Order"),
        ("topic_record", "{namespace}:orders-shop.Order"),
    ],
)
def test_a_strategy_names_the_subject(
    client: tms.Client, namespace: str, strategy: str, subject: str
) -> None:
    topic = client.topic("orders")
    topic.create(subject_strategy=strategy)
    topic.publish(A, schema=ORDER)
    expected = subject.format(namespace=namespace)

    assert client.registry.versions(expected) == [1]
    assert values(topic) == [A]
    by_record = strategy != "topic"
    if by_record:
        with pytest.raises(tms.PayloadRefused, match="needs a schema with a name"):
            topic.publish(A, schema="latest")
        with pytest.raises(tms.PayloadRefused, match="needs a schema with a name"):
            topic.publish(5, schema='"int"')


def test_messages_of_a_file_are_published(topic: tms.Topic) -> None:
    inner = tms.SchemaText(CALLS.text, "PROTOBUF", message="p.Call.In")
    made = protoc.classes(CALLS.text)["Call"]
    topic.publish({"to": "Ada"}, schema=CALLS)
    topic.publish({"n": 5}, schema=inner)
    topic.publish([made(to="Bob"), made.In(n=6)], schema=CALLS)

    found = values(topic)
    assert [each.DESCRIPTOR.full_name for each in found] == ["p.Call", "p.Call.In"] * 2
    assert [found[0].to, found[1].n, found[2].to, found[3].n] == ["Ada", 5, "Bob", 6]
    with pytest.raises(TypeError, match="a schema is text"):
        topic.publish(A, schema=5)  # type: ignore[arg-type]


def test_json_values_are_checked_both_ways(topic: tms.Topic) -> None:
    topic.publish({"what": "x"}, schema=EVENT)
    [message] = topic.poll()
    topic.publish(message.payload[:5] + b"{}")

    first, second = topic.poll(decode=tms.Decoding(damaged="give"))
    assert first.value == {"what": "x"}
    assert (second.value, second.payload[5:]) == (None, b"{}")
    assert second.error == '"what" is a required property'


def test_values_are_given_as_a_later_schema_has_them(
    client: tms.Client, topic: tms.Topic, namespace: str
) -> None:
    topic.publish(A, schema=ORDER)
    topic.publish(B | {"note": "x"}, schema=NOTED)
    noted = [A | {"note": None}, B | {"note": "x"}]
    latest = client.registry.version(f"{namespace}:orders-value")

    assert values(topic) == [A, B | {"note": "x"}]
    for reader in (NOTED, "latest", latest, latest.id, tms.SchemaText(NOTED)):
        assert values(topic, tms.Decoding(schema=reader)) == noted
    assert values(topic, tms.Decoding(schema=ORDER)) == [A, B]
    with pytest.raises(tms.PayloadRefused, match="a reader's schema is Avro's"):
        values(topic, tms.Decoding(schema=EVENT))
    with pytest.raises(tms.PayloadUndecodable, match="No default value for field n"):
        values(topic, tms.Decoding(schema=OTHER.replace("Other", "Order")))


def test_a_schema_that_is_not_a_later_one_is_refused(topic: tms.Topic) -> None:
    topic.publish(A, schema=ORDER)

    with pytest.raises(tms.SchemaRefused) as refused:
        topic.publish({"n": 1}, schema=OTHER)
    assert refused.value.detail["error_code"] == 409
    assert values(topic) == [A]


DAMAGED = {
    b"raw": "it does not begin with a zero byte and a schema's id",
    b"": "it does not begin with a zero byte and a schema's id",
    b"\0\x7f\xff\xff\xff\x02a": "2147483647",
    b"cut": "id: it is cut off",
    b"left": "bytes left after the value: 2",
}


@pytest.mark.parametrize("damaged", DAMAGED, ids=repr)
def test_a_damaged_message_is_reported_and_one_continues_after_it(
    topic: tms.Topic, damaged: bytes
) -> None:
    topic.publish(A, schema=ORDER)
    [good] = topic.poll()
    bodies = {b"cut": good.payload[:5], b"left": good.payload + b"ab"}
    [published] = topic.publish(bodies.get(damaged, damaged))
    topic.publish(B, schema=ORDER)

    polled = topic.poll(decode=True)
    assert next(polled).value == A
    with pytest.raises(tms.PayloadUndecodable, match=DAMAGED[damaged]) as raised:
        next(polled)
    assert raised.value.detail["id"] == published.hex()
    assert values(topic, after=raised.value.detail["id"]) == [B]

    given = list(topic.poll(decode=tms.Decoding(damaged="give")))
    assert [each.value for each in given] == [A, None, B]
    assert [each.error is None for each in given] == [True, False, True]
    assert given[1].payload == bodies.get(damaged, damaged)
    with pytest.raises(tms.PayloadUndecodable):
        topic.decode(list(topic.poll()))
    decoded = topic.decode(list(topic.poll()), tms.Decoding(damaged="give"))
    assert [each.value for each in decoded] == [A, None, B]


def test_values_of_a_transaction_are_seen_when_it_commits(
    client: tms.Client, topic: tms.Topic
) -> None:
    with client.transaction() as tx:
        topic.publish(A, tx, schema=ORDER)
        topic.publish([B], tx, schema=ORDER, buffer=True)
        assert values(topic, tx=tx) == [A]
        assert values(topic, committed=True) == []
    assert values(topic, committed=True) == [A, B]

    with client.transaction() as tx:
        topic.publish(A, tx, schema=ORDER)
        topic.publish(A, tx, schema=ORDER, buffer=True)
        tx.abort()
    with pytest.raises(tms.PayloadRefused), client.transaction() as tx:  # noqa: PT012
        topic.publish(A, tx, schema=ORDER)
        topic.publish([A, {}], tx, schema=ORDER)
    assert values(topic, committed=True) == [A, B]


def test_values_are_encoded_and_decoded_by_themselves(topic: tms.Topic) -> None:
    messages = topic.encode([A, tms.Record(B, key=b"k", headers={"h": b""})], ORDER)
    assert list(topic.poll()) == []
    assert [each.value for each in topic.decode(messages)] == [A, B]
    topic.publish(messages)

    assert values(topic) == [A, B]
    [_, record] = topic.poll(decode=True)
    assert (record.key, dict(record.headers)) == (b"k", {"h": b""})


def test_values_are_followed(topic: tms.Topic) -> None:
    topic.publish([A, B], schema=ORDER)
    followed = topic.follow(decode=True)
    assert [each.value for each in itertools.islice(followed, 2)] == [A, B]
    topic.publish(A, schema=ORDER)
    assert next(followed).value == A


def test_a_subject_is_of_a_context(client: tms.Client, namespace: str) -> None:
    context = f":.{namespace}:"
    topic, plain = client.topic("orders"), client.topic("plain")
    topic.create(subject=f"{context}orders-value", key_subject=f"{context}keys")
    plain.create()
    plain.publish({"n": 1}, schema=OTHER)
    topic.publish(tms.Record(A, key="k"), schema=ORDER, key_schema='"string"')

    [record] = topic.poll(decode=True)
    assert (record.value, record.key) == (A, "k")
    assert client.registry.subjects(context) == [f"{context}keys", f"{context}orders-value"]
    # The context assigns its own ids.
    assert client.registry.schema(record.schema_id or 0, f"{context}keys").schema == json.dumps(
        json.loads(ORDER), separators=(",", ":")
    )
    assert values(plain) == [{"n": 1}]


@pytest.mark.anyio
async def test_values_are_published_and_polled_by_asyncio(url: str, namespace: str) -> None:
    async with await tms.aio.connect(url, namespace) as client:
        topic = client.topic("orders")
        await topic.create()
        await topic.publish([A, tms.Record(B, key=b"k")], schema=ORDER)
        await topic.publish(b"raw")

        [message] = await topic.encode(A, ORDER)
        assert [each.value for each in await topic.decode([message])] == [A]
        polled = topic.poll(decode=True, limit=2)
        assert [each.value async for each in polled] == [A, B]
        shared = topic.poll(decode=True)
        given = await asyncio.gather(*(anext(shared) for _ in range(4)), return_exceptions=True)
        assert [type(each) for each in given].count(tms.Record) == 2
        assert [type(each) for each in given].count(tms.PayloadUndecodable) == 1
        followed = topic.follow(decode=tms.Decoding(damaged="give"))
        found = [await anext(followed) for _ in range(3)]
        await followed.aclose()
        assert [each.value for each in found] == [A, B, None]


def test_what_another_poll_gives_is_decoded_and_published_again(
    client: tms.Client, topic: tms.Topic
) -> None:
    topic.publish([{"id": "a"}, {"id": "b"}], schema=ORDER)
    assert [record.value["id"] for record in topic.decode(topic.poll())] == ["a", "b"]
    copy = client.topic("copy")
    copy.create()
    copy.publish((record.value for record in topic.poll(decode=True)), schema=ORDER)
    copy.publish(topic.poll())
    assert [record.value["id"] for record in copy.poll(decode=True)] == ["a", "b", "a", "b"]
