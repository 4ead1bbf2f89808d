"""A store of three shards: where requests go, which cover all shards, and which are refused.

With three shards the namespace `a` is in shard 0, `default` in 1, and `b` and `ns` are in 2. By
topic, `ns:e` is in shard 0, `ns:p` in 1, `ns:t` and `ns:t--dead` are in 2.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.api.rest import TOPICS, Rest, live, refusal
from tests.cli.conftest import run_command
from tms.core.values.shards import ShardBy, Sharding
from tms.core.values.topic import TopicId

pytestmark = pytest.mark.anyio

OTHER = (409, "other_shard")
REQUIRED = (400, "shard_required")
SPREAD = ["e", "p", "t", "t--dead"]
EACH = {"e": 0, "p": 1, "t": 2, "t--dead": 2}


@pytest.fixture
async def by_namespace(anyio_backend: object) -> AsyncIterator[Rest]:
    async with live(own=True, shard_by=ShardBy.NAMESPACE) as rest:
        yield rest


@pytest.fixture
async def by_topic(anyio_backend: object) -> AsyncIterator[Rest]:
    async with live(own=True, shard_by=ShardBy.TOPIC) as rest:
        for name in SPREAD:
            await rest.create(f"{TOPICS}/{name}")
        yield rest


async def started(rest: Rest, query: str = "", **asked: Any) -> int:
    answer = await rest.http.post(f"/v1/transactions{query}", json=asked)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["transaction_id"])


async def publish(
    rest: Rest, topic: str, transaction: int, verb: str = "publish"
) -> httpx.Response:
    body = {"messages": ["a"], "transactionWritePointer": str(transaction)}
    return await rest.post(verb, body, topic=f"{TOPICS}/{topic}")


def where_told(answer: httpx.Response) -> dict[str, Any]:
    assert refusal(answer) == OTHER
    detail: dict[str, Any] = answer.json()["error"]["detail"]
    return detail


def test_the_examples_are_where_they_are_told_to_be() -> None:
    homes = {name: Sharding(3).home(name) for name in ("default", "a", "ns", "b")}
    assert homes == {"default": 1, "a": 0, "ns": 2, "b": 2}
    by_topic = Sharding(3, ShardBy.TOPIC)
    assert {name: by_topic.shard_of(TopicId("ns", name)) for name in SPREAD} == EACH


async def test_an_id_says_its_shard(by_namespace: Rest) -> None:
    queries = ("", "?namespace=a", "?namespace=ns", "?namespace=b", "?namespace=ns&topic=e")

    assert [await started(by_namespace, each) % 3 for each in queries] == [1, 0, 2, 2, 2]


async def test_a_topic_says_the_home_where_topics_are_spread(by_topic: Rest) -> None:
    queries = [f"?namespace=ns&topic={name}&codec=false" for name in SPREAD]

    assert [await started(by_topic, each) % 3 for each in queries] == [0, 1, 2, 2]
    assert await started(by_topic, "?namespace=ns") % 3 == 2


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("?namespace=a-b", "invalid_namespace_name"),
        ("?topic=a.b", "invalid_topic_name"),
        ("?home=a", "unknown_query_parameter"),
    ],
)
async def test_a_home_has_valid_names(own: Rest, query: str, code: str) -> None:
    assert refusal(await own.http.post(f"/v1/transactions{query}")) == (400, code)


async def test_a_store_without_shards_takes_a_home(own: Rest) -> None:
    assert await started(own, "?namespace=ns&topic=t") > 0


async def test_dead_letters_stay_in_the_shard_of_their_group(by_topic: Rest) -> None:
    group = f"{TOPICS}/t/subscriptions/g"
    body = {"kind": "shared", "dead_letter": "e"}
    told = where_told(await by_topic.http.put(group, json=body))
    assert (told["topic"], told["topic_shard"]) == ("ns:e", 0)
    created = await by_topic.http.put(group, json=body | {"dead_letter": "t--dead"})
    assert created.status_code == 200
    assert where_told(await by_topic.http.put(f"{group}/settings", json={"dead_letter": "p"}))
    missing = await by_topic.http.put(f"{group}/settings", json={"dead_letter": "t--none"})
    assert refusal(missing) == (404, "topic_not_found")


async def test_a_transaction_uses_topics_of_its_shard(by_topic: Rest) -> None:
    transaction = await started(by_topic, "?namespace=ns&topic=t")
    for name in ("t", "t--dead"):
        assert (await publish(by_topic, name, transaction)).status_code == 200

    for name, shard in (("e", 0), ("p", 1)):
        for verb in ("publish", "store"):
            assert where_told(await publish(by_topic, name, transaction, verb)) == {
                "transaction_id": str(transaction),
                "transaction_shard": 2,
                "topic": f"ns:{name}",
                "topic_shard": shard,
            }
    commit = await by_topic.http.post(f"/v1/transactions/{transaction}/commit")
    assert commit.status_code == 200
    assert len(await by_topic.messages(isolation="committed")) == 1
    assert await by_topic.messages(f"{TOPICS}/e") == []


async def test_a_snapshot_is_read_by_in_its_shard(by_topic: Rest) -> None:
    begun = await by_topic.http.post("/v1/transactions?namespace=ns&topic=t")
    codec, transaction = begun.json()["transaction"], begun.json()["transaction_id"]
    for query, body in ((f"?transaction_id={transaction}", {}), ("", {"transaction": codec})):
        for name, status in (("t", 200), ("e", 409)):
            answer = await by_topic.post("poll", body, topic=f"{TOPICS}/{name}", query=query)
            assert answer.status_code == status
            if status != 200:
                assert where_told(answer)["topic"] == f"ns:{name}"


async def test_with_transactions_of_others_a_snapshot_is_good_everywhere(own: Rest) -> None:
    codec = (await own.http.post("/v1/transactions")).json()["transaction"]
    async with live(shard_by=ShardBy.TOPIC) as rest:
        for name in SPREAD:
            await rest.create(f"{TOPICS}/{name}")
            polled = await rest.post("poll", {"transaction": codec}, topic=f"{TOPICS}/{name}")
            assert polled.status_code == 200
            assert (await publish(rest, name, rest.clock.now_ms() * 1_000_000)).status_code == 200


async def test_a_commit_carries_what_is_of_its_shard(by_topic: Rest) -> None:
    versions = {}
    for name in SPREAD:
        made = await by_topic.http.put(f"{TOPICS}/{name}/subscriptions/s")
        versions[name] = made.json()["version"]
    transaction = await started(by_topic, "?namespace=ns&topic=t")

    async def commit(name: str) -> httpx.Response:
        moved = {"namespace": "ns", "topic": name, "subscription": "s", "after": "0" * 40}
        advance = {**moved, "expected_version": versions[name]}
        return await by_topic.http.post(
            f"/v1/transactions/{transaction}/commit", json={"advances": [advance]}
        )

    assert where_told(await commit("e"))["topic_shard"] == 0
    assert (await commit("t--dead")).status_code == 200


async def test_several_topics_are_published_to_in_one_shard(by_topic: Rest) -> None:
    async def publish_all(*names: str) -> httpx.Response:
        body = {"topics": {name: ["a"] for name in names}}
        return await by_topic.http.post("/v1/namespaces/ns/publish", json=body)

    assert where_told(await publish_all("t", "e"))["topic"] == "ns:e"
    assert (await publish_all("e")).status_code == 200
    assert (await publish_all("t", "t--dead")).status_code == 200
    assert len(await by_topic.messages()) == 1


async def test_lists_are_of_all_shards(by_topic: Rest) -> None:
    assert (await by_topic.http.get(TOPICS)).json() == ["e", "p", "t--dead", "t"]
    ids = [await started(by_topic, f"?namespace=ns&topic={name}") for name in ("t", "e", "p")]

    listed = (await by_topic.http.get("/v1/transactions")).json()
    assert [int(each["transaction_id"]) for each in listed] == sorted(ids)
    for each in ids:
        await by_topic.http.post(f"/v1/transactions/{each}/invalidate")
    size = "/v1/transactions/invalid/size"
    assert (await by_topic.http.get(size)).json()["size"] == 3
    assert (await by_topic.http.get(f"{size}?shard=1")).json()["size"] == 1
    listed = (await by_topic.http.get("/v1/transactions?status=invalid&limit=2")).json()
    assert [int(each["transaction_id"]) for each in listed] == sorted(ids)[:2]
    truncate = "/v1/transactions/invalid/truncate"
    one = await by_topic.http.post(f"{truncate}?shard=0", json={"ids": [str(each) for each in ids]})
    rest = await by_topic.http.post(truncate, json={"ids": [str(each) for each in ids]})
    assert (one.json()["truncated"], rest.json()["truncated"]) == (1, 2)


async def test_owners_are_listed_and_forgotten_in_all_shards(by_topic: Rest) -> None:
    owners = "/v1/transactions/owners"
    for name in ("e", "t"):
        begun = await started(by_topic, f"?namespace=ns&topic={name}", owner="till", sequence=1)
        await by_topic.http.post(f"/v1/transactions/{begun}/commit")
    assert len((await by_topic.http.get(owners)).json()) == 2

    assert (await by_topic.http.delete(f"{owners}?owner=till")).status_code == 200
    assert (await by_topic.http.get(owners)).json() == []
    again = await by_topic.http.delete(f"{owners}?owner=till")
    assert refusal(again) == (404, "owner_not_found")


async def test_positions_are_of_all_shards(by_topic: Rest) -> None:
    await by_topic.publish(b"a")
    asked = {"topics": ["t", "none", "e"]}
    answer = await by_topic.http.post("/v1/namespaces/ns/positions", json=asked)

    assert list(answer.json()["topics"]) == ["t", "none", "e"]
    assert answer.json()["topics"]["none"] is None
    assert answer.json()["topics"]["t"] is not None


@pytest.mark.parametrize(
    "path",
    [
        "/v1/transactions/state",
        "/v1/cleanup",
        "/v1/debug/rows?table=metadata",
        "/v1/debug/size?table=metadata",
        "/v1/debug/problems?table=message",
    ],
)
async def test_what_is_of_one_shard_names_it(by_topic: Rest, path: str) -> None:
    answer = await by_topic.http.get(path)
    assert refusal(answer) == REQUIRED
    assert answer.json()["error"]["detail"] == {"shards": 3}
    more = "&" if "?" in path else "?"
    for shard in range(3):
        assert (await by_topic.http.get(f"{path}{more}shard={shard}")).status_code == 200
    for wrong in ("3", "-1", "a", "", "0,1", "1e0", "99999999999999999999", "0&shard=1"):
        answer = await by_topic.http.get(f"{path}{more}shard={wrong}")
        assert refusal(answer) == (400, "invalid_query")


async def test_a_store_without_shards_is_the_shard_0(own: Rest) -> None:
    size = "/v1/transactions/invalid/size"
    assert (await own.http.get(f"{size}?shard=0")).status_code == 200
    assert refusal(await own.http.get(f"{size}?shard=1")) == (400, "invalid_query")


async def test_each_topics_rows_are_in_its_shard(by_topic: Rest) -> None:
    for shard in range(3):
        rows = await by_topic.http.get(f"/v1/debug/rows?table=metadata&shard={shard}")
        assert {row["topic"] for row in rows.json()["rows"]} == {
            f"ns:{name}" for name in SPREAD if EACH[name] == shard
        }
    assert (await by_topic.http.post("/v1/cleanup?wait=5&shard=1")).json()["passes"] == 1


async def test_metrics_have_the_shard(by_topic: Rest) -> None:
    await by_topic.publish(b"a", b"b")
    text = (await by_topic.http.get("/metrics")).text

    assert text.count("# TYPE tms_published_messages_total ") == 1
    lines = [line for line in text.splitlines() if line.startswith("tms_published_messages_total{")]
    assert sum('shard="' in line for line in lines) == len(lines) > 0
    assert by_topic.metric("tms_published_messages_total") == 2


async def test_a_check_of_all_tables_goes_through_all_shards(by_topic: Rest) -> None:
    url = str(by_topic.http.base_url)
    code, out, err = await asyncio.to_thread(run_command, "--url", url, "debug", "verify")

    assert (code, out, err) == (0, "All tables are consistent.\n", "")
