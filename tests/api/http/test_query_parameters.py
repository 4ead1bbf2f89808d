"""Queries: unknown parameters and huge numbers are refused; a path's trailing slash is ignored."""

import pytest

from api.app import OPERATIONS
from api.http.operation import Operation
from api.http.query_parameters import PARAMETERS_MAX
from tests.api.rest import JSON_TYPE, NOW_MS, POINTER, TOPIC, TOPICS, Rest, refusal
from tms.core.values.message import FIRST_ID, first_id_at

pytestmark = pytest.mark.anyio

OF_RESOURCES = [operation for operation in OPERATIONS if operation.path.startswith("/v1/")]
OF_THE_SERVER = [operation for operation in OPERATIONS if operation not in OF_RESOURCES]
HUGE = 2**63
BOUNDS = f"start={FIRST_ID.hex()}&end={first_id_at(2 * NOW_MS).hex()}"


def path_of(operation: Operation) -> str:
    return operation.path.format(
        namespace="ns",
        topic="t",
        subscription="s",
        transaction_id=POINTER,
        scheduled_id="0" * 32,
        backup="b",
        id="a" * 12,
    )


@pytest.mark.parametrize("operation", OF_RESOURCES, ids=lambda operation: operation.name)
async def test_a_name_that_means_nothing_is_refused_with_those_that_do(
    own: Rest, operation: Operation
) -> None:
    answer = await own.http.request(operation.method, f"{path_of(operation)}?none=1")

    assert refusal(answer) == (400, "unknown_query_parameter")
    detail = answer.json()["error"]["detail"]
    assert detail == {"name": "none", "known": [given["name"] for given in operation.query]}


async def test_a_poll_that_misspells_its_transaction_gives_nothing(own: Rest) -> None:
    await own.create()

    answer = await own.post("poll", {}, query=f"?transaction={POINTER}")

    assert refusal(answer) == (400, "unknown_query_parameter")
    detail = answer.json()["error"]["detail"]
    assert (detail["name"], "transaction_id" in detail["known"]) == ("transaction", True)


async def test_a_refused_request_changes_nothing(rest: Rest) -> None:
    assert (await rest.http.put(f"{TOPIC}?ttl=5")).status_code == 400
    assert (await rest.http.get(TOPICS)).json() == []
    await rest.create()
    assert (await rest.post("publish", {"messages": ["a"]}, query="?pointer=5")).status_code == 400
    assert (await rest.http.delete(f"{TOPIC}?generation=2")).status_code == 400

    assert await rest.payloads() == []


@pytest.mark.parametrize("operation", OF_THE_SERVER, ids=lambda operation: operation.name)
async def test_probes_and_scrapers_may_add_what_they_like(rest: Rest, operation: Operation) -> None:
    answer = await rest.http.request(operation.method, f"{operation.path}?t={NOW_MS}")

    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", f"/v1/transactions?limit={HUGE}", "invalid_limit"),
        ("GET", f"/v1/debug/rows?limit={HUGE}", "invalid_limit"),
        ("GET", f"/v1/debug/rows?topic=t&namespace=ns&from={HUGE}", "invalid_query"),
        ("GET", f"/v1/transactions/{HUGE}", "invalid_transaction_id"),
        ("POST", f"{TOPIC}/poll?transaction_id={HUGE}", "invalid_transaction_id"),
        ("GET", f"{TOPIC}/splits?{BOUNDS}&parts={HUGE}", "invalid_query"),
        ("GET", f"{TOPIC}/reach?{BOUNDS}&messages={HUGE}", "invalid_query"),
        ("GET", f"{TOPIC}/reach?{BOUNDS}&bytes={HUGE}", "invalid_query"),
    ],
)
async def test_a_number_of_more_than_64_bits_is_refused(
    own: Rest, method: str, path: str, code: str
) -> None:
    await own.create()

    answer = await own.http.request(
        method, path, content=b"{}", headers={"content-type": JSON_TYPE}
    )

    assert refusal(answer) == (400, code)


async def test_the_largest_number_is_taken(own: Rest) -> None:
    await own.create()
    largest = HUGE - 1

    for path in (
        f"/v1/transactions?limit={largest}",
        f"/v1/transactions?status=invalid&limit={largest}",
        f"/v1/debug/rows?limit={largest}",
        f"{TOPIC}/splits?{BOUNDS}&parts={largest}",
        f"{TOPIC}/reach?{BOUNDS}&messages={largest}&bytes={largest}",
    ):
        assert (await own.http.get(path)).status_code == 200, path


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"{TOPICS}/", 200),
        ("GET", f"{TOPIC}/", 200),
        ("PUT", f"{TOPIC}/properties/", 200),
        ("POST", f"{TOPIC}/poll/", 200),
        ("POST", f"{TOPIC}/poll/?limit=1", 400),
        ("GET", "/health/", 200),
        ("GET", "/nothing/", 404),
        ("PUT", f"{TOPICS}/", 405),
        ("DELETE", f"{TOPICS}/", 405),
        ("GET", f"{TOPICS}//", 404),
    ],
)
async def test_a_slash_at_the_end_is_passed_over_as_by_cdap(
    rest: Rest, method: str, path: str, status: int
) -> None:
    await rest.create()

    answer = await rest.http.request(
        method, path, content=b"{}", headers={"content-type": JSON_TYPE}
    )

    assert answer.status_code == status, answer.text


async def test_a_query_has_at_most_so_many_parameters(rest: Rest) -> None:
    many = "&".join(f"n{number}" for number in range(PARAMETERS_MAX))
    assert refusal(await rest.http.get(f"{TOPICS}?{many}")) == (400, "unknown_query_parameter")
    for query in (f"{many}&more", "&".join("ab" * 10_000), "a&" * 20_000):
        assert refusal(await rest.http.get(f"{TOPICS}?{query}")) == (400, "malformed_request")
