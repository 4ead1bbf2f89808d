"""The requests of CDAP's Java client (AbstractClientMessagingService), byte for byte.

Each test writes the requests by hand over a socket, as that client's HttpURLConnection would.
"""

from collections.abc import AsyncIterator

import pytest

from tests.api.rest import (
    GOLDEN,
    NOW_MS,
    POINTER,
    TOPIC,
    TOPICS,
    Live,
    Wire,
    avro_publish,
    zipped,
)

pytestmark = pytest.mark.anyio

JAVA = {"user-agent": "Java/1.8.0_292", "accept": "text/html, image/gif, *; q=.2, */*; q=.2"}
AVRO = {**JAVA, "content-type": "avro/binary"}
POLL = {**AVRO, "accept-encoding": "gzip, deflate"}
PUBLISH = {**AVRO, "content-encoding": "gzip"}


def golden(schema: str, **facts: object) -> bytes:
    found = [
        g["encoded"]
        for g in GOLDEN["avro"]
        if g["schema"] == schema and all(g[name] == value for name, value in facts.items())
    ]
    return bytes.fromhex(found[0])


@pytest.fixture
async def java(served: Live) -> AsyncIterator[Wire]:
    """A kept-alive connection to a server that has the topic `t`."""
    wire = await served.connect()
    await wire.send("PUT", TOPIC, headers=JAVA)
    assert (await wire.answer())[0] == 200
    yield wire
    await wire.close()


async def test_topics_are_managed_without_content_types(java: Wire) -> None:
    other = f"{TOPICS}/other"

    await java.send("PUT", other, b'{"ttl":"86400"}', headers=JAVA)
    assert (await java.answer())[::2] == (200, b"")
    await java.send("PUT", other, b'{"ttl":"86400"}', headers=JAVA)
    assert (await java.answer())[0] == 409
    await java.send("PUT", f"{other}/properties", b'{"ttl":"3600"}', headers=JAVA)
    assert (await java.answer())[::2] == (200, b"")
    await java.send("GET", TOPICS, headers=JAVA)
    assert (await java.answer())[2] == b'["other","t"]'
    await java.send("DELETE", other, headers=JAVA)
    assert (await java.answer())[::2] == (200, b"")
    await java.send("DELETE", other, headers=JAVA)
    assert (await java.answer())[0] == 404


async def test_a_compressed_plain_publish_answers_nothing_at_all(java: Wire) -> None:
    await java.send("POST", f"{TOPIC}/publish", zipped(avro_publish(b"m0")), headers=PUBLISH)

    status, headers, body = await java.answer()

    assert (status, body) == (200, b"")
    assert headers["content-length"] == "0"


async def test_a_poll_with_the_limit_that_stands_for_none(java: Wire) -> None:
    await java.send("POST", f"{TOPIC}/publish", zipped(avro_publish(b"m0", b"m1")), headers=PUBLISH)
    await java.answer()

    body = golden("ConsumeRequest", startFrom="long:0", inclusive=False, limit=2147483647)
    await java.send("POST", f"{TOPIC}/poll", body, headers=POLL)

    _, headers, answer = await java.answer()
    first = NOW_MS.to_bytes(8) + bytes(12)
    second = NOW_MS.to_bytes(8) + b"\x00\x01" + bytes(10)
    assert headers["content-type"] == "avro/binary"
    assert answer == b"\x04\x28" + first + b"\x04m0\x28" + second + b"\x04m1\x00"


async def test_a_transaction_is_published_and_rolled_back_with_the_same_bytes(java: Wire) -> None:
    body = avro_publish(b"m0", pointer=POINTER)
    await java.send("POST", f"{TOPIC}/publish", zipped(body), headers=PUBLISH)

    status, headers, detail = await java.answer()
    assert (status, headers["content-type"]) == (200, "avro/binary")
    assert len(detail) <= 38

    await java.send("POST", f"{TOPIC}/rollback", detail, headers=AVRO)
    assert (await java.answer())[::2] == (200, b"")


async def test_stored_payloads_are_published_by_an_empty_request(java: Wire) -> None:
    body = zipped(avro_publish(b"m0", b"m1", pointer=POINTER))
    await java.send("POST", f"{TOPIC}/store", body, headers=PUBLISH)
    assert (await java.answer())[::2] == (200, b"")

    await java.send(
        "POST", f"{TOPIC}/publish", zipped(avro_publish(pointer=POINTER)), headers=PUBLISH
    )
    assert (await java.answer())[0] == 200

    body = golden("ConsumeRequest", startFrom=None, inclusive=True, limit=100)
    await java.send("POST", f"{TOPIC}/poll", body, headers=POLL)
    answer = (await java.answer())[2]
    assert answer[0] == 4
    assert (answer.count(b"m0"), answer.count(b"m1")) == (1, 1)


async def test_statuses_that_the_client_tells_apart(java: Wire) -> None:
    missing = f"{TOPICS}/missing"
    for verb in ("publish", "poll"):
        body = avro_publish(b"a") if verb == "publish" else golden("ConsumeRequest", limit=1)
        await java.send("POST", f"{missing}/{verb}", body, headers=AVRO)
        assert (await java.answer())[0] == 404
    await java.send("POST", f"{TOPIC}/publish", golden("PublishRequest", messages=[]), headers=AVRO)
    assert (await java.answer())[0] == 400
    await java.send("PUT", f"{TOPICS}/bad.name", headers=JAVA)
    assert (await java.answer())[0] == 400


async def test_a_large_poll_is_compressed_and_chunked_or_not(java: Wire, served: Live) -> None:
    await served.publish(*[b"x" * 100] * 100)

    answer = await served.post(
        "poll",
        golden("ConsumeRequest", startFrom=None, limit=100),
        headers={"accept-encoding": "gzip, deflate"},
    )

    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.content) == 2 + 100 * (1 + 20 + 2 + 100) + 1


async def test_ping(java: Wire) -> None:
    await java.send("GET", "/ping", headers=JAVA)

    assert (await java.answer())[2] == b"OK."
