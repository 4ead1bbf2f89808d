"""Pages of allowed origins send requests and read the answers; no other page does (CORS)."""

from collections.abc import AsyncIterator

import pytest

from api.http.door.callers import Callers
from tests.api.rest import TOPIC, Live, live, refusal

pytestmark = pytest.mark.anyio

ORIGIN = "https://app.example"
PAGE = {"origin": ORIGIN, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}


@pytest.fixture
async def rest(anyio_backend: object) -> AsyncIterator[Live]:
    async with live(callers=Callers(origins=[ORIGIN])) as opened:
        yield opened


async def test_a_page_of_an_allowed_origin_reads_answers_errors_and_streams(rest: Live) -> None:
    missing = await rest.http.get(TOPIC, headers=PAGE)
    assert refusal(missing) == (404, "topic_not_found")
    await rest.create()
    await rest.publish(b"a")
    poll = await rest.post("poll", {}, headers=PAGE)
    async with rest.http.stream("GET", f"{TOPIC}/stream", headers=PAGE) as stream:
        for answer in (missing, poll, stream):
            assert answer.headers["access-control-allow-origin"] == ORIGIN
            assert "origin" in answer.headers["vary"]
            assert "access-control-allow-credentials" not in answer.headers


async def test_a_browser_may_ask_before_it_sends(rest: Live) -> None:
    asked = {
        **PAGE,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    answer = await rest.http.options(f"{TOPIC}/publish", headers=asked)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert answer.headers["access-control-allow-methods"] == "POST"
    assert answer.headers["access-control-allow-headers"] == "authorization,content-type"
    nowhere = await rest.http.options("/v1/nowhere", headers=asked)
    assert refusal(nowhere) == (404, "not_found")
    plain = await rest.http.options(f"{TOPIC}/publish")
    assert refusal(plain) == (405, "method_not_allowed")


@pytest.mark.parametrize(
    "fields",
    [
        {**PAGE, "origin": "https://app.example.evil"},
        {**PAGE, "origin": "http://app.example"},
        {**PAGE, "origin": "null"},
        {**PAGE, "cookie": "session=1"},
        {"sec-fetch-site": "cross-site"},
    ],
)
async def test_other_pages_do_not(rest: Live, fields: dict[str, str]) -> None:
    await rest.create()
    asked = {**fields, "access-control-request-method": "POST"}
    for answer in (
        await rest.http.get(TOPIC, headers=fields),
        await rest.http.options(f"{TOPIC}/publish", headers=asked),
    ):
        assert answer.json()["error"]["code"] == "cross_site"
        assert "access-control-allow-origin" not in answer.headers
