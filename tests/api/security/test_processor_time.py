"""The processor time of a request grows no faster than its bytes, for requests that once did worse.

Each is measured at two sizes, in the processor time of the thread that answers, so what else runs
on the machine does not count. Below `FLOOR_S` a measurement says nothing.
"""

import asyncio
import json
from collections.abc import Callable
from time import thread_time

import pytest

from tests.api.console.site import NS, Site
from tests.api.doors import bearer
from tests.api.rest import TOPIC, Live
from tests.api.security.hostile import FLOOR_S, GROWTH_MAX
from tests.waiting import in_time
from tms.core.values.topic import TopicId
from tms.core.values.transaction import Transaction
from tms.messaging.visibility import View
from tms.security.resources import Action
from tms.wire.json_values import check_names
from tms.wire.transaction_codec import decode_transaction, encode_transaction

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_collection")]


def check_growth(seconds: Callable[[int], float], size: int) -> None:
    """Measure work at a size and at twice that; the smaller of two measurements each."""
    once, twice = (min(seconds(n) for _ in range(2)) for n in (size, 2 * size))
    assert twice <= max(FLOOR_S, GROWTH_MAX * once), (size, once, twice)


async def exchanged(url: str, request: bytes) -> tuple[float, bytes]:
    """Return the processor time of a request that ends its connection, and the whole answer."""
    began_s = thread_time()
    host, _, port = url.rpartition("/")[2].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    async with in_time():
        writer.write(request)
        answer = await reader.read()
    writer.close()
    return thread_time() - began_s, answer


@pytest.mark.parametrize("cookie", [b"\\" * 59_000, b"a=b;" * 14_000, b'a="\\' * 14_000])
async def test_a_strangers_cookie(guarded_site: Site, cookie: bytes) -> None:
    head = b"GET /console/ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncookie: a=%s\r\n\r\n"
    seconds, answer = await exchanged(guarded_site.url, head % cookie)
    assert answer.startswith(b"HTTP/1.1 303")
    assert seconds < FLOOR_S


@pytest.mark.parametrize("path", ["transactions?open=", "cleanup?shard=", "readers?from="])
async def test_digits_without_end(
    open_site: Site, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await open_site.browser.ask(path + "9" * 5_000)
    assert answer.status_code in (200, 400)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("digits", [b"0" * 5_001, b"9" * 5_001, b"9" * 20, b""])
async def test_a_length_without_end(
    open_site: Site, digits: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    request = (
        b"POST /console/sign-in HTTP/1.1\r\nhost: localhost\r\ncontent-length: %s\r\n\r\n" % digits
    )
    _, answer = await exchanged(open_site.url, request)
    assert answer.startswith(b"HTTP/1.1 400"), answer
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("query", ["&".join(f"a{n}=1" for n in range(65)), "told=%ff&é"])
async def test_an_error_page_is_made_of_any_query(open_site: Site, query: str) -> None:
    request = (
        f"GET /console/nowhere?{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )
    _, answer = await exchanged(open_site.url, request.encode("latin-1"))
    assert answer[9:12] in (b"400", b"404"), answer[:200]
    page = request.replace("nowhere", "topics").encode("latin-1")
    _, answer = await exchanged(open_site.url, page)
    assert answer[9:12] in (b"200", b"400"), answer[:200]


def test_names_of_an_object_that_has_the_last_twice() -> None:
    def seconds(count: int) -> float:
        names = [f"n{number}" for number in range(count)]
        text = json.dumps(dict.fromkeys(names, 0))[:-1] + f', "{names[-1]}": 0}}'
        began_s = thread_time()
        with pytest.raises(ValueError, match="twice"):
            check_names(text.encode())
        return thread_time() - began_s

    check_growth(seconds, 8_000)


def test_a_transaction_of_many_checkpoints() -> None:
    def seconds(count: int) -> float:
        pointers = tuple(range(2, 2 * count, 2))
        raw = encode_transaction(
            Transaction(0, 1, 1, checkpoint_write_pointers=tuple(reversed(pointers)))
        )
        view = View(decode_transaction(raw))
        began_s = thread_time()
        assert len({view.decide(pointer) for pointer in pointers[: count // 100]}) == 1
        return thread_time() - began_s

    check_growth(seconds, 40_000)


@pytest.mark.slow
async def test_positions_of_many_topics(guarded_site: Site) -> None:
    doors = guarded_site.doors
    assert doors is not None
    await doors.allow("ann", [Action.CONSUME])
    headers = bearer(await doors.token("ann"))
    seconds: dict[int, float] = {}
    for count in (4_000, 8_000, 4_000, 8_000, 100_000):
        body = {"topics": [f"t{number}" for number in range(count)]}
        began_s = thread_time()
        answer = await guarded_site.browser.http.post(
            f"/v1/namespaces/{NS}/positions", json=body, headers=headers
        )
        took_s = thread_time() - began_s
        seconds[count] = min(took_s, seconds.get(count, took_s))
        assert answer.status_code == (200 if count <= 10_000 else 413), answer.text[:200]
    assert seconds[8_000] <= max(FLOOR_S, GROWTH_MAX * seconds[4_000])
    assert seconds[100_000] < seconds[8_000] * 2


@pytest.mark.slow
async def test_others_have_their_turn_beside_a_long_poll(served: Live) -> None:
    topic = TopicId("ns", "t")
    await served.create()
    for _ in range(4):
        await served.service.publish(topic, [b"x"] * 50_000)
    loop, steps, beats = asyncio.get_running_loop(), [0.0], [thread_time()]

    def beat() -> None:
        beats.append(thread_time())
        steps.append(beats[-1] - beats[-2])
        handles[0] = loop.call_soon(beat)

    handles = [loop.call_soon(beat)]
    answer = await served.http.post(f"{TOPIC}/poll", json={"limit": 200_000})
    handles[0].cancel()
    assert len(answer.json()) == 200_000
    assert len([each for each in steps if each > FLOOR_S]) <= 1, sorted(steps)[-5:]
