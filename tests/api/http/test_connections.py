"""How many connections there are, and what becomes of those beyond."""

import asyncio
import json
import resource
from collections.abc import AsyncIterator, Iterator

import pytest

from api.http.server import connections_max
from tests.api.http.odd_requests import HOST, JSON, PING, request
from tests.api.http.wires import Wires
from tests.api.rest import JSON_TYPE, TOPIC, Live, live
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio


@pytest.fixture
async def narrow(anyio_backend: object) -> AsyncIterator[Live]:
    """A server that takes three connections."""
    async with live(Limits(connections_max=3)) as served:
        await served.create()
        await served.http.aclose()
        yield served


async def test_one_more_takes_the_place_of_the_longest_idle_one(narrow: Live) -> None:
    wires = []
    for _ in range(5):
        wire = await narrow.connect()
        wire.writer.write(PING)
        assert (await wire.answer())[0] == 200
        wires.append(wire)

    assert [await wire.rest() for wire in wires[:2]] == [b"", b""]
    for wire in wires[2:]:
        wire.writer.write(PING)
        assert (await wire.answer())[0] == 200
    for wire in wires:
        await wire.close()


async def test_if_none_is_idle_one_more_is_told_so(narrow: Live) -> None:
    waiting = [await narrow.connect() for _ in range(3)]
    for wire in waiting:
        await wire.send("POST", f"{TOPIC}/poll?wait=60", b"{}", {"content-type": JSON_TYPE})
    await narrow.until(lambda: narrow.waiters() == 3)
    wire = await narrow.connect()

    status, headers, body = await wire.answer()

    assert (status, headers["connection"]) == (503, "close")
    assert json.loads(body)["error"]["code"] == "too_many_connections"
    assert json.loads(body)["error"]["detail"] == {"connections_max": 3}
    assert await wire.rest() == b""
    for each in (wire, *waiting):
        await each.close()


@pytest.fixture
def descriptors() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_descriptors_are_left_for_the_store(descriptors: None) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))

    assert connections_max(100) == 100
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 300
    assert connections_max(1000) == 1000
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert soft - 1000 >= soft // 5 + 64
    assert connections_max(10**9) == hard - hard // 5 - 64


async def test_requests_of_one_connection_let_others_have_their_turn(served: Live) -> None:
    await served.create()
    assert await served.payloads() == []
    body = b"{}"
    fields = HOST + JSON + b"content-length: %d\r\n" % len(body)
    poll = request(b"POST", TOPIC.encode() + b"/poll", fields, body)
    busy, written = Wires(served.app).connect()

    busy.data_received(poll * 100)

    assert 0 < len(written.answers()) < 100
    while len(written.answers()) < 100:
        await asyncio.sleep(0)
    assert {answer.status for answer in written.answers()} == {200}
    busy.connection_lost(None)
