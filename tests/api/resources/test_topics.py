"""Topics: what the seed says of each endpoint, and what CDAP's server does if it is silent."""

import pytest

from tests.api.rest import AVRO_TYPE, NOW_MS, TOPIC, TOPICS, Rest, live, refusal
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio


async def test_a_topic_is_created_without_a_body(rest: Rest) -> None:
    answer = await rest.http.put(TOPIC)

    assert (answer.status_code, answer.content) == (200, b"")
    assert (await rest.http.get(TOPIC)).json() == {
        "name": "t",
        "properties": {"generation": "1", "ttl": "604800"},
    }


async def test_all_properties_come_back_as_strings(rest: Rest) -> None:
    await rest.create(ttl=60, owner="me", weight=1.5, generation=7)

    answer = await rest.http.get(TOPIC)

    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["properties"] == {
        "generation": "1",
        "owner": "me",
        "ttl": "60",
        "weight": "1.5",
    }


async def test_flat_topic_info_is_the_properties_alone() -> None:
    async with live(topic_info="flat") as rest:
        await rest.create(ttl=60)

        assert (await rest.http.get(TOPIC)).json() == {"generation": "1", "ttl": "60"}


async def test_a_topic_is_created_once(rest: Rest) -> None:
    await rest.create(ttl=60)

    assert refusal(await rest.http.put(TOPIC)) == (409, "topic_exists")
    assert (await rest.http.get(TOPIC)).json()["properties"]["ttl"] == "60"


@pytest.mark.parametrize("ttl", [0, -1, 2**31, "", "x", "1.5", 1.5, " 5", "0"])
async def test_a_bad_ttl_is_refused(rest: Rest, ttl: object) -> None:
    answer = await rest.http.put(TOPIC, json={"ttl": ttl})

    assert refusal(answer) == (400, "invalid_ttl")
    assert (await rest.http.get(TOPICS)).json() == []


async def test_properties_of_more_than_a_megabyte_are_refused(rest: Rest) -> None:
    half = 512 * 1024
    most = {"a" * 4: "\u00e9" * (half // 2 - 4), "b" * 4: "x" * half}
    more = {**most, "c": ""}

    assert refusal(await rest.http.put(TOPIC, json=more)) == (413, "topic_properties_too_large")
    assert (await rest.http.get(TOPICS)).json() == []
    await rest.create(**most, ttl=5)
    answer = await rest.http.put(f"{TOPIC}/properties", json=more)
    assert refusal(answer) == (413, "topic_properties_too_large")
    assert answer.json()["error"]["detail"] == {
        "bytes": 2 * half + 1,
        "topic_properties_bytes_max": 2 * half,
    }
    told = (await rest.http.get(TOPIC)).json()["properties"]
    assert told == {**most, "ttl": "5", "generation": "1"}


async def test_topics_are_bounded_over_rest(anyio_backend: object) -> None:
    async with live(Limits(topics_max=1)) as rest:
        await rest.create()
        answer = await rest.http.put(f"{TOPICS}/other")
        assert refusal(answer) == (413, "topic_limit_reached")
        assert refusal(await rest.http.put(TOPIC)) == (409, "topic_exists")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"5",
        b"\xff",
        b'{"a": null}',
        b'{"a": true}',
        b'{"a": {}}',
        b'{"a": ["x"]}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b'{"generation": "x"}',
        b'{"generation": 0}',
        b'{"a": 1e999}',
        b'{"ttl": 60, "ttl": 70}',
        b'{"a": "b", "\\u0061": "b"}',
        b"[" * 100_000,
    ],
)
async def test_bad_properties_are_refused(rest: Rest, body: bytes) -> None:
    assert refusal(await rest.http.put(TOPIC, content=body)) == (400, "invalid_properties")
    assert (await rest.http.get(TOPICS)).json() == []

    await rest.create(ttl=60)
    answer = await rest.http.put(f"{TOPIC}/properties", content=body)
    assert refusal(answer) == (400, "invalid_properties")
    assert (await rest.http.get(TOPIC)).json()["properties"]["ttl"] == "60"


@pytest.mark.parametrize(
    "content_type", [None, "application/json", "application/x-www-form-urlencoded"]
)
async def test_properties_need_not_say_that_they_are_json(
    rest: Rest, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}

    answer = await rest.http.put(TOPIC, content=b'{"ttl": "60"}', headers=headers)

    assert answer.status_code == 200
    assert (await rest.http.get(TOPIC)).json()["properties"]["ttl"] == "60"


async def test_properties_that_say_to_be_something_else_are_refused(rest: Rest) -> None:
    headers = {"content-type": "text/plain"}

    answer = await rest.http.put(TOPIC, content=b'{"ttl": "60"}', headers=headers)

    assert refusal(answer) == (415, "unsupported_content_type")
    assert (await rest.http.get(TOPICS)).json() == []


async def test_what_had_expired_before_a_longer_ttl_is_kept_by_the_server_alone(rest: Rest) -> None:
    await rest.create(ttl=1, live_from_ms=2**50)
    await rest.http.post(f"{TOPIC}/publish", json={"messages": ["old"]})
    rest.clock.advance(2_000)
    for properties in ({"ttl": 60}, {"ttl": 60, "live_from_ms": 1}):
        answer = await rest.http.put(f"{TOPIC}/properties", json=properties)
        assert answer.status_code == 200
        told = (await rest.http.get(TOPIC)).json()["properties"]
        assert told == {"generation": "1", "ttl": "60"}
        assert (await rest.http.post(f"{TOPIC}/poll", json={})).json() == []


async def test_an_update_replaces_all_properties(rest: Rest) -> None:
    await rest.create(ttl=60, owner="me")

    answer = await rest.http.put(f"{TOPIC}/properties", json={"colour": "red"})

    assert (answer.status_code, answer.content) == (200, b"")
    assert (await rest.http.get(TOPIC)).json()["properties"] == {
        "colour": "red",
        "generation": "1",
        "ttl": "604800",
    }


async def test_an_update_without_a_body_restores_the_defaults_as_cdap_does(rest: Rest) -> None:
    await rest.create(ttl=60, owner="me")

    assert (await rest.http.put(f"{TOPIC}/properties")).status_code == 200
    assert (await rest.http.get(TOPIC)).json()["properties"] == {
        "generation": "1",
        "ttl": "604800",
    }


async def test_a_deleted_topic_is_gone_with_its_messages(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"old")

    answer = await rest.http.delete(TOPIC)

    assert (answer.status_code, answer.content) == (200, b"")
    assert refusal(await rest.http.delete(TOPIC)) == (404, "topic_not_found")
    assert refusal(await rest.http.get(TOPIC)) == (404, "topic_not_found")
    await rest.create()
    assert (await rest.http.get(TOPIC)).json()["properties"]["generation"] == "2"
    assert await rest.payloads() == []


async def test_topics_are_listed_in_row_key_order(rest: Rest) -> None:
    for name in ("t", "t_", "t2", "t-1", "z"):
        await rest.create(f"{TOPICS}/{name}")
    await rest.create("/v1/namespaces/other/topics/a")
    await rest.http.delete(f"{TOPICS}/z")

    answer = await rest.http.get(TOPICS)

    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == ["t-1", "t2", "t", "t_"]


async def test_an_unknown_namespace_has_no_topics(rest: Rest) -> None:
    answer = await rest.http.get("/v1/namespaces/nobody/topics")

    assert (answer.status_code, answer.json()) == (200, [])


CALLS = [
    ("PUT", ""),
    ("PUT", "/properties"),
    ("GET", ""),
    ("DELETE", ""),
    ("POST", "/publish"),
    ("POST", "/store"),
    ("POST", "/rollback"),
    ("POST", "/poll"),
]


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize("name", ["a.b", "a b", "%C3%A9", "a:b", "x" * 256, "a%00"])
async def test_a_bad_name_is_refused_everywhere(
    rest: Rest, method: str, path: str, name: str
) -> None:
    answer = await rest.http.request(method, f"{TOPICS}/{name}{path}", content=b"?")
    assert refusal(answer) == (400, "invalid_topic_name")

    answer = await rest.http.request(method, f"/v1/namespaces/{name}/topics/t{path}", content=b"?")
    assert refusal(answer) == (400, "invalid_namespace_name")


async def test_a_dash_is_for_topics_only(rest: Rest) -> None:
    await rest.create(f"{TOPICS}/a-b")

    answer = await rest.http.get("/v1/namespaces/a-b/topics")
    assert refusal(answer) == (400, "invalid_namespace_name")


async def test_names_may_be_as_long_as_the_limit(rest: Rest) -> None:
    name = "x" * 255
    topic = f"/v1/namespaces/{name}/topics/{name}"
    await rest.create(topic)

    assert (await rest.post("publish", {"messages": ["m"]}, topic=topic)).status_code == 200
    assert [p for _, p in await rest.messages(topic=topic)] == [b"m"]


async def test_a_million_properties_are_refused_before_they_cost_much(rest: Rest) -> None:
    many = {str(number): 1 for number in range(2_000)}
    answer = await rest.http.put(TOPIC, json=many)
    assert refusal(answer) == (413, "topic_properties_too_large")
    assert answer.json()["error"]["detail"] == {"properties": 2_000, "topic_properties_max": 1_000}

    huge = b"{" + b",".join(b'"%d":1' % number for number in range(1_000_000)) + b"}"
    answer = await rest.http.put(TOPIC, content=huge)
    assert refusal(answer) == (413, "request_too_large")
    assert refusal(await rest.http.get(TOPIC)) == (404, "topic_not_found")


async def test_a_topic_is_trimmed(rest: Rest) -> None:
    await rest.create()
    await rest.publish(b"a")
    rest.clock.advance(10)
    await rest.publish(b"b")
    assert (await rest.post("trim", {"before": NOW_MS + 10})).status_code == 200
    assert await rest.payloads() == [b"b"]
    rest.clock.advance(10)
    [(kept, _)] = await rest.messages()
    assert (await rest.post("trim", {"before": kept})).status_code == 200
    assert await rest.payloads() == [b"b"]

    for wrong, code in (
        ({}, "invalid_body"),
        ({"before": None}, "invalid_body"),
        ({"before": 2**63}, "invalid_body"),
        ({"before": -1}, "invalid_start_time"),
        ({"before": NOW_MS // 1000}, "start_time_in_seconds"),
        ({"before": "yesterday"}, "invalid_message_id"),
        ({"before": 5, "after": 6}, "invalid_body"),
    ):
        assert refusal(await rest.post("trim", wrong)) == (400, code)
    assert refusal(await rest.post("trim", b"{}", AVRO_TYPE))[0] == 415
    to_come = await rest.post("trim", {"before": NOW_MS + 21})
    assert refusal(to_come) == (409, "invalid_trim_time")
    assert await rest.payloads() == [b"b"]
