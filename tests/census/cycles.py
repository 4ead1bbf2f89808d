"""Cycles of things that REST can create and end.

Each cycle creates a thing, ends it, and leaves nothing behind. A cycle gets a number of its own,
from which it makes the names that it uses.
"""

import asyncio
import errno
import json
import os
import re
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import patch

import httpx

import tables.leveldb
from tables.leveldb import LevelDBStore
from tests.manual_clock import ManualClock
from tests.waiting import turns

NS = "/v1/namespaces/ns"
TRANSACTIONS = "/v1/transactions"
JSON = {"content-type": "application/json"}

Cycle = Callable[["Asker", int], Awaitable[None]]


class Asker:
    """Asks one server."""

    def __init__(self, http: httpx.AsyncClient, clock: ManualClock) -> None:
        self.http = http
        self.clock = clock

    async def ask(self, method: str, path: str, body: object = None, status: int = 200) -> Any:
        """Return the JSON of an answer, which must have this status; None if it is empty."""
        content = b"" if body is None else json.dumps(body).encode()
        headers = {} if body is None else JSON
        answer = await self.http.request(method, path, content=content, headers=headers)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        return json.loads(answer.content) if answer.content[:1] in (b"{", b"[") else None

    async def create(self, topic: str, **properties: object) -> str:
        path = f"{NS}/topics/{topic}"
        await self.ask("PUT", path, properties)
        return path

    async def publish(self, path: str, *payloads: str, pointer: str | None = None) -> Any:
        more = {} if pointer is None else {"transactionWritePointer": pointer}
        return await self.ask("POST", f"{path}/publish", {"messages": payloads, **more})

    async def start(self, **asked: object) -> tuple[str, str]:
        """Return the id of a new transaction, and its path."""
        started = await self.ask("POST", f"{TRANSACTIONS}?namespace=ns", asked)
        return started["transaction_id"], f"{TRANSACTIONS}/{started['transaction_id']}"


async def topic(asker: Asker, number: int) -> None:
    path = await asker.create(f"t{number}")
    await asker.publish(path, "x" * 1_000)
    await asker.ask("POST", f"{path}/poll", {})
    await asker.ask("GET", path)
    await asker.ask("DELETE", path)
    await asker.ask("POST", f"{path}/poll", {}, 404)


async def generation(asker: Asker, number: int) -> None:
    del number
    path = await asker.create("again")
    await asker.publish(path, "x" * 1_000)
    await asker.ask("POST", f"{path}/poll", {})
    await asker.ask("DELETE", path)


async def subscription(asker: Asker, number: int) -> None:
    path = await asker.create(f"s{number}")
    await asker.ask("PUT", f"{path}/subscriptions/reader", {})
    await asker.publish(path, "x")
    await asker.ask("GET", f"{path}/subscriptions")
    await asker.ask("DELETE", f"{path}/subscriptions/reader")
    await asker.ask("PUT", f"{path}/subscriptions/left", {})
    await asker.ask("DELETE", path)


async def group(asker: Asker, number: int) -> None:
    path = await asker.create(f"g{number}")
    of_group = f"{path}/subscriptions/workers"
    await asker.ask("PUT", of_group, {"kind": "shared"})
    await asker.publish(path, "a", "b")
    taken = await asker.ask("POST", f"{of_group}/take", {"member": f"m{number}", "messages": 1})
    acks = [{"delivery": taken["delivery"]}]
    await asker.ask("POST", f"{of_group}/settle", {"member": f"m{number}", "acks": acks})
    await asker.ask("POST", f"{of_group}/take", {"member": f"n{number}", "messages": 1})
    if number % 2:
        await asker.ask("DELETE", of_group)
    await asker.ask("DELETE", path)


async def scheduled(asker: Asker, number: int) -> None:
    path = await asker.create(f"l{number}")
    await asker.ask("POST", f"{path}/schedule?deliver_after=3600", {"messages": ["x"]})
    await asker.ask("GET", f"{path}/scheduled")
    await asker.ask("DELETE", path)


async def member(asker: Asker, number: int) -> None:
    path = f"{NS}/topics/kept/subscriptions/workers"
    await asker.publish(f"{NS}/topics/kept", "a")
    taken = await asker.ask("POST", f"{path}/take", {"member": f"m{number}"})
    acks = [{"delivery": taken["delivery"]}]
    await asker.ask("POST", f"{path}/settle", {"member": f"m{number}", "acks": acks})


async def committed(asker: Asker, number: int) -> None:
    pointer, path = await asker.start()
    topic_path = await asker.create(f"c{number}")
    await asker.publish(topic_path, "x", pointer=pointer)
    await asker.ask(
        "POST", f"{topic_path}/store", {"messages": ["y"], "transactionWritePointer": pointer}
    )
    await asker.ask("POST", f"{path}/commit")
    await asker.ask("DELETE", topic_path)


async def rolled_back(asker: Asker, number: int) -> None:
    del number
    pointer, path = await asker.start()
    published = await asker.publish(f"{NS}/topics/kept", "x", pointer=pointer)
    await asker.ask("POST", f"{NS}/topics/kept/rollback", published)
    await asker.ask("POST", f"{path}/abort")


async def aborted(asker: Asker, number: int) -> None:
    pointer, path = await asker.start()
    topic_path = await asker.create(f"a{number}")
    await asker.publish(topic_path, "x", pointer=pointer)
    await asker.ask("POST", f"{path}/abort")
    shown = await asker.ask("GET", path)
    assert shown["status"] == "aborted"
    await asker.ask("DELETE", topic_path)


async def invalidated(asker: Asker, number: int) -> None:
    pointer, path = await asker.start()
    topic_path = await asker.create(f"i{number}")
    await asker.publish(topic_path, "x", pointer=pointer)
    await asker.ask("POST", f"{path}/invalidate")
    await asker.ask("DELETE", topic_path)


async def owner(asker: Asker, number: int) -> None:
    _, path = await asker.start(owner=f"o{number}", sequence=1)
    await asker.ask("POST", f"{path}/commit")
    await asker.ask("DELETE", f"{TRANSACTIONS}/owners?owner=o{number}")


async def namespace(asker: Asker, number: int) -> None:
    await asker.ask("PUT", f"/v1/namespaces/n{number}", {"ttl_s_max": 60})
    await asker.ask("DELETE", f"/v1/namespaces/n{number}")


async def rule(asker: Asker, number: int) -> None:
    wanted = {"effect": "allow", "actions": ["publish"], "namespace": "ns", "name": "*"}
    asked = {"who": f"p{number}", "kind": "topic", **wanted}
    made = await asker.ask("POST", "/v1/auth/rules", asked)
    await asker.ask("DELETE", f"/v1/auth/rules/{made['id']}")


async def token(asker: Asker, number: int) -> None:
    made = await asker.ask("POST", "/v1/auth/tokens", {"principal": f"p{number}"})
    headers = {"authorization": f"Bearer {made['token']}"}
    answer = await asker.http.get("/v1/auth/whoami", headers=headers)
    assert answer.json()["principal"] == f"p{number}"
    await asker.ask("DELETE", f"/v1/auth/tokens/{made['id']}")
    assert (await asker.http.get("/v1/auth/whoami", headers=headers)).status_code == 401


async def wrong_token(asker: Asker, number: int) -> None:
    headers = {"authorization": f"Bearer tms_{number}_x"}
    assert (await asker.http.get(f"{NS}/topics", headers=headers)).status_code == 401


async def unknown_names(asker: Asker, number: int) -> None:
    for _ in range(2):
        await asker.ask("GET", f"/v1/namespaces/x{number}/topics/t", status=404)
        await asker.ask("POST", f"{NS}/topics/x{number}/publish", {"messages": ["x"]}, 404)
        await asker.ask("POST", f"{NS}/topics/x{number}/subscriptions/y/take", {"member": "m"}, 404)
        await asker.ask("GET", f"{TRANSACTIONS}/{number + 1}", status=404)
        await asker.ask("GET", f"/x{number}", status=404)


async def left_poll(asker: Asker, number: int) -> None:
    path = await asker.create(f"w{number}")
    asked = asker.ask("POST", f"{path}/poll?wait=100", {})
    polling = asyncio.create_task(asked)
    await turns(20)
    polling.cancel()
    await asyncio.wait([polling])
    await asker.ask("DELETE", path)


async def awaited_poll(asker: Asker, number: int) -> None:
    path = await asker.create(f"v{number}")
    polling = asyncio.create_task(asker.ask("POST", f"{path}/poll?wait=100", {}))
    await turns(20)
    await asker.publish(path, "x")
    assert len(await polling) == 1
    await asker.ask("DELETE", path)


async def connection(asker: Asker, number: int) -> None:
    del number
    async with httpx.AsyncClient(
        base_url=asker.http.base_url, trust_env=False, verify=False
    ) as own:
        await Asker(own, asker.clock).ask("GET", "/health")


async def trimmed(asker: Asker, number: int) -> None:
    del number
    path = f"{NS}/topics/kept"
    await asker.publish(path, "x" * 200_000)
    await asker.ask("POST", f"{path}/poll", {"limit": 1})
    asker.clock.advance(2)
    await asker.ask("POST", f"{path}/trim", {"before": asker.clock.now_ms() - 1})


async def expired(asker: Asker, number: int) -> None:
    path = await asker.create(f"e{number}", ttl="1")
    await asker.publish(path, "x")
    asker.clock.advance(2_000)
    assert await asker.ask("POST", f"{path}/poll", {}) == []
    await asker.ask("DELETE", path)


async def evicted(asker: Asker, number: int) -> None:
    """One of more topics than the memory keeps; the topics stay on disk."""
    path = f"{NS}/topics/many{number % 25}"
    if number < 25:
        await asker.create(f"many{number}")
    await asker.publish(path, "x" * 1_000)
    await asker.ask("POST", f"{path}/poll", {"limit": 1})


async def console_session(asker: Asker, number: int) -> None:
    del number
    token = asker.http.headers["authorization"].removeprefix("Bearer ")
    async with httpx.AsyncClient(
        base_url=asker.http.base_url, trust_env=False, verify=False
    ) as browser:
        answer = await browser.post("/console/sign-in", data={"token": token})
        assert answer.status_code == 303
        page = await browser.get("/console/namespaces/ns/topics/kept")
        [csrf, *_] = re.findall(r'name="csrf" value="([^"]+)"', page.text)
        assert (await browser.post("/console/sign-out", data={"csrf": csrf})).status_code == 303


class DiskFull:
    def write(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def failed_write(asker: Asker, number: int) -> None:
    """A publish that the disk refuses; the store is opened again before the next one."""
    path, message = await asker.create(f"f{number}"), {"messages": ["x" * 1_000]}
    pointer, transaction = await asker.start()
    write = LevelDBStore._write
    with (
        patch.object(LevelDBStore, "_write", lambda store, _: write(store, DiskFull())),
        patch.object(tables.leveldb, "_REOPEN_EVERY_S", 0.001),
    ):
        answer = await asker.http.post(f"{path}/publish", content=json.dumps(message), headers=JSON)
        assert answer.status_code in (503, 504)  # 503: another write met the full disk first
    within = json.dumps({**message, "transactionWritePointer": pointer})

    async def is_published() -> bool:
        answer = await asker.http.post(f"{path}/publish", content=within, headers=JSON)
        return answer.status_code == 200

    while not await is_published():
        await turns(10)
    await asker.ask("POST", f"{transaction}/abort")
    await asker.ask("DELETE", path)


async def compacted(asker: Asker, number: int) -> None:
    """Publish keys of its own to a compacted topic, and remove them again."""
    path = f"{NS}/topics/compact"
    if number == 0:
        await asker.create("compact", cleanup="compact", tombstone_s="1")
    for payload in ("x" * 1_000, "y", None):
        message = {"key": f"k{number}", "payload": payload}
        await asker.ask("POST", f"{path}/publish", {"messages": [message]})
    await asker.ask("POST", f"{path}/poll", {"limit": 1})


CYCLES: dict[str, Cycle] = {
    each.__name__: each
    for each in (
        topic,
        generation,
        subscription,
        group,
        scheduled,
        member,
        committed,
        rolled_back,
        aborted,
        invalidated,
        owner,
        namespace,
        rule,
        token,
        wrong_token,
        unknown_names,
        left_poll,
        awaited_poll,
        connection,
        trimmed,
        expired,
        evicted,
        console_session,
        failed_write,
        compacted,
    )
}
