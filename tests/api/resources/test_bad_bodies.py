"""Malformed bodies: each is refused with its own code, and changes nothing."""

import zlib
from collections.abc import AsyncIterator

import pytest

from tests.api.rest import (
    AVRO_TYPE,
    JSON_TYPE,
    POINTER,
    Rest,
    avro_poll,
    avro_publish,
    live,
    refusal,
    zipped,
)
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio

INVALID_BODY = (400, "invalid_body")
GZIP = {"content-encoding": "gzip"}


@pytest.fixture
async def topic(rest: Rest) -> AsyncIterator[Rest]:
    """A topic with one message, which must still be its only one at the end."""
    await rest.create()
    await rest.publish(b"before")
    before = await rest.messages()
    yield rest
    assert await rest.messages() == before


@pytest.mark.parametrize("verb", ["publish", "store"])
async def test_avro_cut_off_at_every_byte(topic: Rest, verb: str) -> None:
    body = avro_publish(b"first", b"x" * 70, pointer=POINTER)

    for end in range(len(body)):
        assert refusal(await topic.post(verb, body[:end])) == INVALID_BODY, end


async def test_a_poll_cut_off_at_every_byte(topic: Rest) -> None:
    body = avro_poll(start_from=bytes(20), inclusive=False, limit=1000, transaction=bytes(70))

    for end in range(len(body)):
        assert refusal(await topic.post("poll", body[:end])) == INVALID_BODY, end


async def test_a_rollback_cut_off_at_every_byte(topic: Rest) -> None:
    other = "/v1/namespaces/ns/topics/other"
    await topic.create(other)
    published = await topic.post("publish", avro_publish(b"a", pointer=POINTER), topic=other)

    for end in range(len(published.content)):
        answer = await topic.post("rollback", published.content[:end])
        assert refusal(answer) == INVALID_BODY, end


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(avro_publish(b"a") + b"\x00", id="a byte left over"),
        pytest.param(b"\x04" + avro_publish(b"a")[1:], id="a union branch that is not there"),
        pytest.param(b"\x01" + avro_publish(b"a")[1:], id="a negative union branch"),
        pytest.param(b"\x02\x02\x01", id="a payload of negative length"),
        pytest.param(b"\x02\x02" + b"\xff" * 9 + b"\x01", id="a payload of 2**63 bytes"),
        pytest.param(b"\x02\x02\xfe\xff\xff\xff\x0f", id="a payload of 2 GiB"),
        pytest.param(b"\x02" + b"\x80" * 11 + b"\x00", id="a count of over ten bytes"),
        pytest.param(b"\xff" * 64, id="ones"),
        pytest.param(b"\x80" * 64, id="a number without an end"),
        pytest.param(b"Obj\x01", id="an Avro container"),
        pytest.param(b'{"messages": ["a"]}', id="JSON"),
        pytest.param(zipped(avro_publish(b"a")), id="gzip without saying so"),
    ],
)
async def test_avro_that_is_none(topic: Rest, body: bytes) -> None:
    assert refusal(await topic.post("publish", body)) == INVALID_BODY


@pytest.mark.parametrize(
    "count", [b"\x80\x80\x80\x80\x08", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"]
)
async def test_a_huge_count_of_messages_costs_nothing(topic: Rest, count: bytes) -> None:
    status, code = refusal(await topic.post("publish", b"\x02" + count + b"\x00"))

    assert (status, code) in {(413, "too_many_messages"), INVALID_BODY}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "null",
        '"x"',
        "{}",
        '{"messages": null}',
        '{"messages": "x"}',
        '{"messages": [1]}',
        '{"messages": [null]}',
        '{"messages": [["x"]]}',
        '{"messages": [{"base64": "?"}]}',
        '{"messages": [{"base64": "YQ"}]}',
        '{"messages": [{"base64": 5}]}',
        '{"messages": [{"text": "x"}]}',
        '{"messages": [{}]}',
        '{"messages": [{"base64": "", "bytes": ""}]}',
        '{"messages": ["x"], "more": 1}',
        '{"messages": ["x"], "transactionWritePointer": true}',
        '{"messages": ["x"], "transactionWritePointer": ["5"]}',
        '{"messages": ["x"], "transactionWritePointer": {"int": "5"}}',
        '{"messages": ["x"], "transactionWritePointer": 1e400}',
        '{"messages": ["\\ud800"]}',
        '{"messages": ["x"]} {}',
        "[" * 100_000,
    ],
)
async def test_json_that_is_not_a_publish(topic: Rest, body: str) -> None:
    assert refusal(await topic.post("publish", body, JSON_TYPE)) == INVALID_BODY


async def test_json_of_bytes_that_are_not_utf8(topic: Rest) -> None:
    assert (
        refusal(await topic.post("publish", b'{"messages": ["\xff"]}', JSON_TYPE)) == INVALID_BODY
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('{"startFrom": "00"}', "invalid_message_id"),
        ('{"startFrom": {"bytes": "xx"}}', "invalid_message_id"),
        ('{"startFrom": "' + "f" * 40 + '"}', "invalid_message_id"),
        ('{"startFrom": -1}', "invalid_start_time"),
        ('{"startFrom": 9223372036854775807, "inclusive": false}', "invalid_start_time"),
        ('{"startFrom": 1785585600}', "start_time_in_seconds"),
        ('{"startFrom": {"long": 1785585600}}', "start_time_in_seconds"),
        ('{"startFrom": {"long": "5"}}', "invalid_message_id"),
        ('{"startFrom": {"int": 5}}', "invalid_body"),
        ('{"startFrom": 1.5}', "invalid_body"),
        ('{"startFrom": true}', "invalid_body"),
        ('{"startFrom": 99999999999999999999}', "invalid_body"),
        ('{"inclusive": 1}', "invalid_body"),
        ('{"limit": 0}', "invalid_limit"),
        ('{"limit": -5}', "invalid_limit"),
        ('{"limit": "5"}', "invalid_body"),
        ('{"limit": {"long": 5}}', "invalid_body"),
        ('{"transaction": "?"}', "invalid_body"),
        ('{"transaction": ""}', "invalid_transaction"),
        ('{"transaction": "AAAA"}', "invalid_transaction"),
        ('{"transaction": 5}', "id_as_number"),
        ('{"transaction": 1.7e18}', "id_as_number"),
        ('{"transaction": true}', "invalid_body"),
        ('{"from": 5}', "invalid_body"),
        ("[]", "invalid_body"),
    ],
)
async def test_json_that_is_not_a_poll(topic: Rest, body: str, code: str) -> None:
    assert refusal(await topic.post("poll", body, JSON_TYPE)) == (400, code)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"start_from": b"abc"}, "invalid_message_id"),
        ({"start_from": b""}, "invalid_message_id"),
        ({"start_from": b"\xff" * 20}, "invalid_message_id"),
        ({"start_from": -1}, "invalid_start_time"),
        ({"limit": 0}, "invalid_limit"),
        ({"limit": -(2**31)}, "invalid_limit"),
        ({"transaction": b""}, "invalid_transaction"),
        ({"transaction": b"\x0a\x00\x01"}, "invalid_transaction"),
        ({"transaction": b"\x0f" * 100}, "invalid_transaction"),
    ],
)
async def test_avro_that_asks_for_what_is_not(
    topic: Rest, asked: dict[str, object], code: str
) -> None:
    assert refusal(await topic.post("poll", avro_poll(**asked))) == (400, code)


async def test_a_start_of_cdaps_clients_means_what_it_says(topic: Rest) -> None:
    answer = await topic.post("poll", avro_poll(start_from=1_785_585_600))

    assert answer.status_code == 200


@pytest.mark.parametrize("wait", ["-1", "x", "", "nan", "inf", "1_0", " 1", "1&wait=2", "1e", "."])
async def test_a_wait_that_is_not_a_time(topic: Rest, wait: str) -> None:
    answer = await topic.post("poll", {}, query=f"?wait={wait}")

    assert refusal(answer) == (400, "invalid_wait")


@pytest.mark.parametrize("verb", ["publish", "store", "poll"])
@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/octet-stream",
        "application/json; encoding=hex",
        "application/json; charset=utf-16",
        "application/jsonx",
        "avro/binaries",
        "avro",
        "x",
        ";",
        "é",
    ],
)
async def test_a_content_type_that_is_not_taken(topic: Rest, verb: str, content_type: str) -> None:
    body = avro_publish(b"a", pointer=POINTER)

    answer = await topic.http.post(
        f"/v1/namespaces/ns/topics/t/{verb}",
        content=body,
        headers=[(b"content-type", content_type.encode())],
    )

    assert refusal(answer) == (415, "unsupported_content_type")


@pytest.mark.parametrize("verb", ["publish", "store", "poll"])
async def test_a_body_needs_a_content_type(topic: Rest, verb: str) -> None:
    answer = await topic.http.post(f"/v1/namespaces/ns/topics/t/{verb}", content=avro_poll())

    assert refusal(answer) == (415, "unsupported_content_type")


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "Application/JSON",
        'application/json ; charset="utf-8"',
        "avro/binary; version=1",
        "Avro/Binary",
    ],
)
async def test_content_types_that_are_taken(rest: Rest, content_type: str) -> None:
    await rest.create()
    body: bytes = b'{"messages": ["YWJj"]}'
    if content_type.lower().startswith("avro"):
        body = avro_publish(b"abc")

    assert (await rest.post("publish", body, content_type)).status_code == 200
    expected = b"YWJj" if "json" in content_type.lower() else b"abc"
    assert await rest.payloads() == [expected]


@pytest.mark.parametrize(
    "encoding", ["deflate", "br", "gzip, gzip", "gzip, deflate", "zstd", "x", "identity, gzip"]
)
async def test_a_content_encoding_that_is_not_taken(topic: Rest, encoding: str) -> None:
    answer = await topic.post("publish", avro_publish(b"a"), headers={"content-encoding": encoding})

    assert refusal(answer) == (415, "unsupported_content_encoding")


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip"])
async def test_gzip_is_taken(rest: Rest, encoding: str) -> None:
    await rest.create()

    body = zipped(avro_publish(b"a" * 1000))
    answer = await rest.post("publish", body, headers={"content-encoding": encoding})

    assert answer.status_code == 200
    assert await rest.payloads() == [b"a" * 1000]


async def test_identity_is_not_an_encoding(rest: Rest) -> None:
    await rest.create()

    answer = await rest.post(
        "publish", avro_publish(b"a"), headers={"content-encoding": "identity"}
    )

    assert answer.status_code == 200


async def test_gzip_of_several_members_is_one_body(rest: Rest) -> None:
    await rest.create()
    body = avro_publish(b"abc", b"def")

    answer = await rest.post(
        "publish", zipped(body[:4]) + zipped(b"") + zipped(body[4:]), headers=GZIP
    )

    assert answer.status_code == 200
    assert await rest.payloads() == [b"abc", b"def"]


async def test_gzip_that_becomes_far_longer_than_it_was_sent_is_refused(
    anyio_backend: object,
) -> None:
    body = zipped(avro_publish(bytes(2_000_000)))
    assert len(body) < 5_000
    async with live(Limits(request_gzip_ratio_max=50)) as rest:
        await rest.create()
        answer = await rest.post("publish", body, headers={"content-encoding": "gzip"})
        assert refusal(answer) == (413, "request_too_compressed")
        assert answer.json()["error"]["detail"] == {"request_gzip_ratio_max": 50}
        small = zipped(avro_publish(b"x" * 1_000_000))
        taken = await rest.post("publish", small, headers={"content-encoding": "gzip"})
        assert taken.status_code == 200
        assert len(await rest.payloads()) == 1


async def test_gzip_cut_off_at_every_byte(topic: Rest) -> None:
    body = zipped(avro_publish(b"x" * 50))

    for end in range(len(body)):
        answer = await topic.post("publish", body[:end], headers=GZIP)
        assert refusal(answer) == (400, "invalid_compression"), end


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(avro_publish(b"a"), id="not compressed"),
        pytest.param(zlib.compress(avro_publish(b"a")), id="zlib"),
        pytest.param(zipped(avro_publish(b"a")) + b"\x00\x00", id="zeros after it"),
        pytest.param(zipped(avro_publish(b"a")) + b"junk", id="junk after it"),
        pytest.param(zipped(avro_publish(b"a"))[:-8] + bytes(8), id="a wrong checksum"),
        pytest.param(zipped(b"") * 2000, id="thousands of members"),
    ],
)
async def test_gzip_that_is_none(topic: Rest, body: bytes) -> None:
    answer = await topic.post("publish", body, headers=GZIP)

    assert refusal(answer) == (400, "invalid_compression")


async def test_gzip_within_gzip_is_not_a_body(topic: Rest) -> None:
    answer = await topic.post("publish", zipped(zipped(avro_publish(b"a"))), headers=GZIP)

    assert refusal(answer) == INVALID_BODY


@pytest.mark.parametrize("content_type", [AVRO_TYPE, JSON_TYPE])
@pytest.mark.parametrize("verb", ["publish", "store", "rollback", "poll"])
async def test_a_bomb_is_refused_at_the_cap(verb: str, content_type: str) -> None:
    limits = Limits(request_bytes_max=100_000, message_bytes_max=50_000)
    async with live(limits) as rest:
        await rest.create()
        await rest.publish(b"before")
        bomb = zipped(bytes(10_000_000))
        assert len(bomb) < limits.request_bytes_max

        answer = await rest.post(verb, bomb, content_type, headers=GZIP)

        assert refusal(answer) == (413, "request_too_large")
        assert answer.json()["error"]["detail"]["request_bytes_max"] == 100_000
        assert await rest.payloads() == [b"before"]


@pytest.mark.parametrize("size", [99_999, 100_000, 100_001])
async def test_the_cap_is_on_what_is_decompressed_to_the_byte(size: int) -> None:
    limits = Limits(
        request_bytes_max=100_000, message_bytes_max=100_000, request_gzip_ratio_max=10_000
    )
    async with live(limits) as rest:
        await rest.create()
        overhead = len(avro_publish(bytes(99_000))) - 99_000
        body = avro_publish(bytes(size - overhead))
        assert len(body) == size

        plain = await rest.post("publish", body)
        compressed = await rest.post("publish", zipped(body), headers=GZIP)

        assert plain.status_code == compressed.status_code == (200 if size <= 100_000 else 413)


async def test_properties_are_capped_too() -> None:
    async with live(Limits(request_bytes_max=1000, message_bytes_max=1000)) as rest:
        big = b'{"a": "' + b"x" * 1000 + b'"}'
        answer = await rest.http.put("/v1/namespaces/ns/topics/t", content=big)
        assert refusal(answer) == (413, "request_too_large")
        answer = await rest.http.put(
            "/v1/namespaces/ns/topics/t", content=zipped(big), headers=GZIP
        )
        assert refusal(answer) == (413, "request_too_large")
        assert (await rest.http.get("/v1/namespaces/ns/topics")).json() == []
