"""Operations that only accept JSON refuse Avro with an explanation, and change nothing."""

from typing import Any

import pytest

from tests.api.rest import AVRO_TYPE, JSON_TYPE, NOW_MS, TOPIC, Rest, refusal
from tests.api.transactions import TRANSACTIONS, ask, shown, started

pytestmark = pytest.mark.anyio

POSITION = f"{TOPIC}/subscriptions/s"
ID = "0000018bcfe568000000" + "0" * 20
MOVE = {"after": ID, "expected_version": NOW_MS * 1000}
IN_TRANSACTION = ("can-commit", "commit", "abort", "checkpoint")
Asked = tuple[str, str, Any]
"""A method, a path, and a body that would be accepted as JSON."""


@pytest.fixture
async def requests(own: Rest) -> list[Asked]:
    """Each operation that once accepted Avro, and the trim, which never did."""
    await own.create()
    await own.http.put(POSITION)
    transaction = f"{TRANSACTIONS}/{await started(own)}"
    bodies = {"can-commit": {"changes": ["a"]}}
    return [
        ("POST", TRANSACTIONS, {}),
        *(("POST", f"{transaction}/{verb}", bodies.get(verb, {})) for verb in IN_TRANSACTION),
        ("POST", f"{TRANSACTIONS}/invalid/truncate", {"ids": []}),
        ("PUT", f"{TOPIC}/subscriptions/other", {}),
        ("POST", f"{POSITION}/advance", MOVE),
        ("POST", f"{TOPIC}/trim", {"before": NOW_MS}),
    ]


async def state(own: Rest) -> list[Any]:
    paths = (TRANSACTIONS, f"{TRANSACTIONS}/invalid/size", f"{TOPIC}/subscriptions", TOPIC)
    return [(await own.http.get(path)).json() for path in paths]


async def test_avro_is_refused_and_json_is_named(own: Rest, requests: list[Asked]) -> None:
    before = await state(own)
    for method, path, _ in requests:
        for content_type in (AVRO_TYPE, f"{AVRO_TYPE};version=2"):
            for body in (b"", b"\x00"):
                answer = await own.http.request(
                    method, path, content=body, headers={"content-type": content_type}
                )

                assert refusal(answer) == (415, "unsupported_content_type"), path
                assert answer.json()["error"]["detail"] == {
                    "content_type": content_type,
                    "expected": JSON_TYPE,
                }
    assert await state(own) == before


async def test_an_answer_in_avro_alone_is_refused(own: Rest, requests: list[Asked]) -> None:
    before = await state(own)
    for method, path, body in requests:
        for accept in (AVRO_TYPE, f"{AVRO_TYPE};version=2", f"{AVRO_TYPE}, {JSON_TYPE};q=0"):
            answer = await own.http.request(method, path, json=body, headers={"accept": accept})

            assert refusal(answer) == (406, "not_acceptable"), (path, accept)
            assert answer.json()["error"]["detail"] == {"accept": accept, "expected": JSON_TYPE}
    assert await state(own) == before


@pytest.mark.parametrize("accept", ["*/*", f"{AVRO_TYPE}, */*;q=0.1", f"{AVRO_TYPE}, {JSON_TYPE}"])
async def test_an_answer_in_avro_or_another_format_is_json(own: Rest, accept: str) -> None:
    answer = await own.http.post(TRANSACTIONS, json={}, headers={"accept": accept})

    assert (answer.status_code, answer.headers["content-type"]) == (200, JSON_TYPE)


@pytest.mark.parametrize("content_type", [JSON_TYPE.upper(), f"{JSON_TYPE}; charset=utf-8"])
async def test_each_form_of_json_is_taken(own: Rest, content_type: str) -> None:
    transaction = await started(own)

    answer = await ask(own, f"/{transaction}/commit", b'{"advances": []}', content_type)

    assert answer.status_code == 200
    assert (await shown(own, transaction))["status"] == "committed"
