"""The things at a server that others try to change, or to learn about."""

from typing import Any

from tests.api.rest import TOPIC
from tests.api.security.secured import Pair
from tms.core.services.transactions import StartRequest
from tms.core.values.caller import Caller
from tms.core.values.topic import TopicId

T = TopicId("ns", "t")
ANN = Caller("ann")


async def make_things(pair: Pair) -> int:
    """Make a topic with one message, a subscription of it, and a transaction of Ann's."""
    messaging = pair.services.messaging
    if not await messaging.topics("ns"):
        await messaging.create_topic(T, {})
        await messaging.publish(T, [b"before"])
        await pair.services.subscriptions.create_subscription(T, "s")
    transaction = await pair.services.transactions.start(StartRequest(), caller=ANN)
    return transaction.transaction_id


async def things(pair: Pair) -> Any:
    """Return what there is."""
    http, root = pair.leader.http, pair.root
    paths = ("/v1/namespaces", "/v1/namespaces/ns/topics", f"{TOPIC}/subscriptions", TOPIC)
    told = [(await http.get(path, headers=root)).json() for path in paths]
    polled = await http.post(f"{TOPIC}/poll", json={}, headers=root)
    found = await http.get("/v1/transactions", headers=root)
    transactions = [{**each, "age_ms": 0, "ends_in_ms": 0} for each in found.json()]
    return told, polled.json(), transactions
