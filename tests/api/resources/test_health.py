"""Information about the server itself, and its answers at unknown paths and methods."""

import asyncio

import pytest

from tests.api.rest import AVRO_TYPE, JSON_TYPE, TOPIC, TOPICS, Rest, avro_publish, refusal
from tms import __version__
from tms.core.runtime.clock import SystemClock
from tms.core.runtime.supervision import failing, supervised

pytestmark = pytest.mark.anyio


async def test_health_is_that_the_process_is_up(rest: Rest) -> None:
    rest.service.stop_waiting()

    answer = await rest.http.get("/health")

    assert (answer.status_code, answer.json()) == (200, {"status": "up"})


async def test_ready_is_that_a_publish_would_be_taken(rest: Rest) -> None:
    assert (await rest.http.get("/ready")).json() == {"status": "ready"}

    rest.service.stop_waiting()
    answer = await rest.http.get("/ready")

    assert refusal(answer) == (503, "stopping")
    assert answer.headers["retry-after"] == "1"


async def test_ping_is_what_cdap_asks(rest: Rest) -> None:
    answer = await rest.http.get("/ping")

    assert (answer.status_code, answer.text) == (200, "OK.")
    assert answer.headers["content-type"].startswith("text/plain")


async def test_the_root_says_where_to_go(rest: Rest) -> None:
    answer = await rest.http.get("/")

    told = answer.json()
    assert told["version"] == __version__
    assert f"curl -X PUT {rest.http.base_url}/v1/namespaces/default/topics/hello" in told["try"]
    for path in ("openapi", "health", "ready", "metrics"):
        assert (await rest.http.get(told[path])).status_code == 200


@pytest.mark.parametrize("path", ["/", "/health", "/ping", "/metrics", "/openapi.json", TOPICS])
async def test_head_is_taken_where_get_is(rest: Rest, path: str) -> None:
    assert (await rest.http.head(path)).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/v1",
        "/v1/namespaces/ns/other",
        f"{TOPICS}//",
        f"{TOPIC}//",
        f"{TOPIC}/publish//",
        f"{TOPIC}/other",
        "/v2/namespaces/ns/topics/t/publish",
        "/v1/namespaces//topics/t/publish",
        "/v1/namespaces/ns/topics//publish",
        f"{TOPICS}/a%2Fb/publish/x",
        f"{TOPICS}/{'x' * 5000}/publish/x",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "OPTIONS"])
async def test_there_is_nothing_at_other_paths(rest: Rest, method: str, path: str) -> None:
    answer = await rest.http.request(method, path)

    assert refusal(answer) == (404, "not_found")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/health", "GET, HEAD"),
        (TOPICS, "GET, HEAD"),
        (TOPIC, "DELETE, GET, HEAD, PUT"),
        (f"{TOPIC}/properties", "PUT"),
        *[(f"{TOPIC}/{verb}", "POST") for verb in ("publish", "store", "rollback", "poll")],
    ],
)
@pytest.mark.parametrize("method", ["PATCH", "OPTIONS", "TRACE", "PROPFIND"])
async def test_another_method_is_answered_with_the_allowed_methods(
    rest: Rest, method: str, path: str, allowed: str
) -> None:
    answer = await rest.http.request(method, path)

    assert refusal(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allowed


async def test_a_hot_path_that_is_escaped_or_very_long_finds_its_endpoint_too(rest: Rest) -> None:
    await rest.create()

    escaped = "/v1/%6eamespaces/ns/topics/%74"
    assert (await rest.post("publish", avro_publish(b"a"), topic=escaped)).status_code == 200
    assert await rest.payloads() == [b"a"]
    long = await rest.post("publish", avro_publish(b"a"), topic=f"{TOPICS}/{'x' * 5000}")
    assert refusal(long) == (400, "invalid_topic_name")
    assert len(long.content) < 2000, "a refusal does not send all of a long name back"


async def test_a_failure_of_ours_is_logged_and_reports_nothing(
    rest: Rest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(type(rest.service), "topic", fail)
    answer = await rest.http.get(TOPIC)

    assert refusal(answer) == (500, "internal")
    assert answer.json()["error"]["detail"] == {}
    assert "secret" not in answer.text
    assert "ZeroDivisionError: secret" in caplog.text
    assert TOPIC in caplog.text


async def test_a_store_that_is_closed_is_a_503_with_retry_after(rest: Rest) -> None:
    await rest.create()
    rest.service._tables.close()

    for content_type, body in ((AVRO_TYPE, avro_publish(b"a")), (JSON_TYPE, b'{"messages":["a"]}')):
        answer = await rest.post("publish", body, content_type)
        assert refusal(answer)[0] == 503
        assert answer.headers["retry-after"] == "1"


async def test_ready_reports_which_tasks_of_the_server_fail(rest: Rest) -> None:
    is_going_on = asyncio.Event()

    async def work() -> None:
        if not failing():
            raise AttributeError("'NoneType' object has no attribute 'getpeername'")
        is_going_on.set()
        await asyncio.Event().wait()

    task = supervised("a task", work)
    await is_going_on.wait()
    told = (await rest.http.get("/ready")).json()
    [shown] = told["failing"]
    assert (told["status"], shown["task"], shown["times"]) == ("ready", "a task", 1)
    assert shown["reason"] == "AttributeError: 'NoneType' object has no attribute 'getpeername'"
    assert abs(shown["since_ms"] - SystemClock().now_ms()) < 60_000

    rest.service.stop_waiting()
    answer = await rest.http.get("/ready")
    assert refusal(answer) == (503, "stopping")
    assert answer.json()["error"]["detail"]["failing"] == [shown]

    task.cancel()
    await asyncio.wait([task])
    assert "failing" not in (await rest.http.get("/ready")).json()["error"]["detail"]
