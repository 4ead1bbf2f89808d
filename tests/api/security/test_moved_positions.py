"""Moving a position in a commit, or in a publish to several topics, needs a rule of its own."""

import pytest

from tests.api.rest import refusal
from tests.api.security.secured import Pair
from tms.core.values.topic import TopicId
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

PUBLISH_ALL = "/v1/namespaces/ns/publish"
AUDIT = TopicId("ns", "audit")


@pytest.mark.parametrize("way", ["publish", "commit"])
@pytest.mark.parametrize("at", ["leader", "standby"])
async def test_who_may_publish_and_not_subscribe_moves_nothing(
    pair: Pair, way: str, at: str
) -> None:
    services = pair.services
    for name in ("orders", "audit"):
        await services.messaging.create_topic(TopicId("ns", name))
    version = (await services.subscriptions.create_subscription(AUDIT, "s")).version
    await pair.allow("ann", Action.PUBLISH)
    await pair.allow("ann", Action.TRANSACT)
    await pair.allow("ann", Action.SUBSCRIBE, name="orders")
    http, ann = getattr(pair, at).http, await pair.token("ann")
    move = {"namespace": "ns", "topic": "audit", "subscription": "s", "after": "01" * 20}
    moves = {"advances": [{**move, "expected_version": version}]}

    async def ask() -> tuple[int, str]:
        if way == "publish":
            body = {"topics": {"orders": ["1"]}, **moves}
            return await asked(PUBLISH_ALL, body)
        started = await http.post("/v1/transactions", json={}, headers=ann)
        return await asked(f"/v1/transactions/{started.json()['transaction_id']}/commit", moves)

    async def asked(path: str, body: object) -> tuple[int, str]:
        answer = await http.post(path, json=body, headers=ann)
        return (200, "") if answer.status_code == 200 else refusal(answer)

    assert await ask() == (403, "not_permitted")
    position = await services.subscriptions.subscription(AUDIT, "s")
    assert (position.after, position.version) == (None, version)
    polled = await pair.leader.http.post(
        "/v1/namespaces/ns/topics/orders/poll", json={}, headers=await pair.token("root")
    )
    assert polled.json() == []

    await pair.allow("ann", Action.SUBSCRIBE, name="audit")
    assert await ask() == (200, "")
    assert (await services.subscriptions.subscription(AUDIT, "s")).version == version + 1
