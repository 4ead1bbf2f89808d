"""Requests of groups, for tests."""

from typing import Any

import httpx

from tests.api.rest import TOPIC, Rest

GROUP = f"{TOPIC}/subscriptions/workers"
SHARED = {"kind": "shared"}


async def group(own: Rest, **settings: Any) -> dict[str, Any]:
    await own.create()
    answer = await own.http.put(GROUP, json={**SHARED, **settings})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def publish(own: Rest, *payloads: str) -> None:
    body = {"messages": list(payloads)}
    assert (await own.http.post(f"{TOPIC}/publish", json=body)).status_code == 200


async def take(own: Rest, member: str = "a", wait: float = 0, **more: Any) -> httpx.Response:
    return await own.http.post(f"{GROUP}/take?wait={wait}", json={"member": member, **more})


async def settle(own: Rest, member: str = "a", **parts: Any) -> httpx.Response:
    return await own.http.post(f"{GROUP}/settle", json={"member": member, **parts})
