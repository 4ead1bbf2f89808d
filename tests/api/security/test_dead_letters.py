"""The rights to name a topic of dead letters, to read them, and to redrive them."""

import pytest

from tests.api.rest import TOPIC
from tests.api.security.secured import Pair
from tms.core.values.topic import TopicId
from tms.security.resources import Action

pytestmark = pytest.mark.anyio

GROUP = f"{TOPIC}/subscriptions/workers"
DEAD = f"{GROUP}/dead"


async def test_who_names_a_topic_may_publish_there_and_read_here(pair: Pair) -> None:
    await pair.services.messaging.create_topic(TopicId("ns", "t"))
    await pair.allow("ann", Action.SUBSCRIBE, name="t")
    headers = await pair.token("ann")
    body = {"kind": "shared", "attempts_max": 2}

    async def status() -> int:
        answer = await pair.leader.http.put(GROUP, json=body, headers=headers)
        return answer.status_code

    assert await status() == 403
    await pair.allow("ann", Action.TAKE, name="t")
    assert await status() == 404, "who may nothing there is not told whether it is there"
    await pair.allow("ann", Action.PUBLISH, name="t--dead")
    assert await status() == 403, "the topic is not there, and to make it is a right of its own"
    await pair.services.messaging.create_topic(TopicId("ns", "t--dead"))
    assert await status() == 200
    answer = await pair.leader.http.get(DEAD, headers=headers)
    assert answer.status_code == 403
    await pair.allow("ann", Action.CONSUME, name="t--dead")
    assert (await pair.leader.http.get(DEAD, headers=headers)).status_code == 200
    answer = await pair.leader.http.post(f"{DEAD}/redrive", json={"publish": True}, headers=headers)
    assert answer.status_code == 403
    assert (await pair.leader.http.post(f"{DEAD}/redrive", json={}, headers=headers)).is_success
