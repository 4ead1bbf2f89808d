"""Commits publish what tasks stored: everything that is listed, once, and nothing else."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.api.rest import NOW_MS, TOPIC, TOPICS, Rest, avro_publish, refusal
from tests.api.transactions import TRANSACTIONS, ask, shown, started

pytestmark = pytest.mark.anyio

OTHER = f"{TOPICS}/other"


async def checkpoint(own: Rest, transaction: int) -> int:
    answer = await own.http.post(f"{TRANSACTIONS}/{transaction}/checkpoint")
    assert answer.status_code == 200
    return int(answer.json()["write_pointer"])


async def store(own: Rest, pointer: int, *payloads: bytes, topic: str = TOPIC) -> httpx.Response:
    return await own.post("store", avro_publish(*payloads, pointer=pointer), topic=topic)


def listed(*pointers: int, topic: str = "t") -> list[dict[str, Any]]:
    return [
        {"namespace": "ns", "topic": topic, "write_pointer": str(pointer)} for pointer in pointers
    ]


async def committed(own: Rest, topic: str = TOPIC) -> list[bytes]:
    return [p for _, p in await own.messages(topic, isolation="committed", limit=1000)]


async def test_what_is_listed_is_published_in_that_order_and_nothing_else(own: Rest) -> None:
    await own.create()
    await own.create(OTHER)
    await own.publish(b"before")
    transaction = await started(own)
    one, lost, two = [await checkpoint(own, transaction) for _ in range(3)]
    await store(own, one, b"1a", b"1b")
    await store(own, lost, b"of a task that was run twice")
    await store(own, two, b"2a")
    await store(own, two, b"2b")
    await store(own, two, b"other", topic=OTHER)
    await store(own, transaction, b"under the id itself")

    publish = [*listed(two, one), *listed(two, topic="other"), *listed(transaction)]
    answer = await ask(own, f"/{transaction}/commit", {"publish": publish})

    assert (answer.status_code, answer.content) == (200, b"")
    assert await committed(own) == [
        b"before",
        *(b"2a", b"2b"),
        *(b"1a", b"1b"),
        b"under the id itself",
    ]
    assert await committed(own, OTHER) == [b"other"]
    assert await own.payloads() == await committed(own), "also for readers without isolation"


async def test_a_pointer_of_another_transaction_changes_nothing(own: Rest) -> None:
    await own.create()
    transaction, another = await started(own), await started(own)
    mine = await checkpoint(own, transaction)
    await store(own, mine, b"mine")
    await store(own, another, b"another's")

    for wrong in (listed(mine, another), listed(mine, mine), listed(mine, 5)):
        answer = await ask(own, f"/{transaction}/commit", {"publish": wrong})
        assert refusal(answer) == (409, "publication_refused")
    assert await own.payloads() == []
    assert (await shown(own, transaction))["status"] == "in_progress"

    missing = await ask(own, f"/{transaction}/commit", {"publish": listed(mine, topic="no")})
    assert refusal(missing) == (404, "topic_not_found")
    await ask(own, f"/{transaction}/commit", {"publish": listed(mine)})
    assert await committed(own) == [b"mine"]


async def test_repeated_after_a_lost_answer_it_has_been_done(own: Rest) -> None:
    await own.create()
    work = {"owner": "query", "sequence": 7, "origin": "run"}
    transaction = await started(own, **work)
    await store(own, transaction, b"once")
    body = {"publish": listed(transaction)}
    await ask(own, f"/{transaction}/commit", body)

    again = await ask(own, f"/{transaction}/commit", body)
    assert refusal(again) == (409, "transaction_not_in_progress")
    assert again.json()["error"]["detail"]["status"] == "committed"
    assert refusal(await ask(own, "", work)) == (409, "transaction_duplicate")
    elsewhere = await ask(own, "", {**work, "origin": "another run"})
    assert refusal(elsewhere) == (409, "owner_elsewhere")
    assert elsewhere.json()["error"]["detail"]["committed_origin"] == "run"
    assert await committed(own) == [b"once"]


async def test_what_is_stored_too_late_is_refused(own: Rest) -> None:
    await own.create()
    ended = {}
    for verb in ("commit", "abort", "invalidate"):
        ended[verb] = await started(own)
        answer = await own.http.post(f"{TRANSACTIONS}/{ended[verb]}/{verb}")
        assert answer.status_code == 200
    fenced = await started(own, owner="o", sequence=1)
    ended["fence"] = fenced
    await started(own, owner="o", sequence=1, if_open="fence")

    for pointer in ended.values():
        late = await store(own, pointer, b"late")
        assert refusal(late) == (409, "transaction_not_in_progress")
        commit = await ask(own, f"/{pointer}/commit", {"publish": listed(pointer)})
        assert refusal(commit) == (409, "transaction_not_in_progress")


async def test_positions_move_and_messages_are_published_in_one_commit(own: Rest) -> None:
    await own.create()
    await own.publish(b"read")
    await own.http.put(f"{TOPIC}/subscriptions/s")
    [(read, _)] = await own.messages()
    transaction = await started(own)
    await store(own, transaction, b"written")
    advance = {
        "namespace": "ns",
        "topic": "t",
        "subscription": "s",
        "after": read,
        "expected_version": NOW_MS * 1000 + 1,
    }
    body = {"publish": listed(transaction), "advances": [advance]}

    moved = await ask(own, f"/{transaction}/commit", body)
    assert refusal(moved) == (409, "subscription_moved")
    assert await own.payloads() == [b"read"]

    body["advances"] = [{**advance, "expected_version": NOW_MS * 1000}]
    assert (await ask(own, f"/{transaction}/commit", body)).status_code == 200
    assert await committed(own) == [b"read", b"written"]
    assert (await own.http.get(f"{TOPIC}/subscriptions/s")).json()["after"] == read


async def test_a_reader_that_waits_is_woken_by_it(own: Rest) -> None:
    await own.create()
    transaction = await started(own)
    await store(own, transaction, b"awaited")

    async def wait() -> list[bytes]:
        answer = await own.post("poll", {}, query="?isolation=committed&wait=30")
        return [message["payload"].encode() for message in answer.json()]

    waiting = asyncio.create_task(wait())
    await own.until(lambda: own.waiters() == 1)
    await ask(own, f"/{transaction}/commit", {"publish": listed(transaction)})

    assert await waiting == [b"awaited"]
