"""A shop's server with an hour of work and some problems, for all pages of the console."""

import json
import os
from collections.abc import Sequence

from prometheus_client import ProcessCollector

from tests.api.console.records import avro
from tests.api.console.site import Site
from tests.manual_clock import ManualClock
from tests.scale import scaled
from tms.core.services.cluster import ClusterState, Instance, Role
from tms.core.services.findings import Finding
from tms.core.services.transactions import StartRequest
from tms.core.values.caller import Caller
from tms.core.values.frame import bodies_of, encode_body
from tms.core.values.groups import Nacks, Settle, Take
from tms.core.values.namespaces import NamespaceSettings
from tms.core.values.subscriptions import Advance
from tms.core.values.topic import TopicId
from tms.watch.history import STEP_S

OPENED_MS = 1_792_000_000_000
"""The time of the clock when the server starts."""
NS = "shop"
ORDERS, INVOICES, RETURNS = (TopicId(NS, name) for name in ("orders", "invoices", "returns"))
ORDERS_PAGE = f"namespaces/{NS}/topics/orders"
_STEPS = 360
"""The steps of an hour; the gate runs only its end."""
_STANDS_STILL = 18
"""A transaction that never ends starts this number of steps before the last step."""
_ORDER = [{"name": "number", "type": "int"}, {"name": "goods", "type": "string"}]
_WHOM = {"name": "customer", "type": ["null", "string"], "default": None}
_GOODS = ("tea", "coffee", "bread", "a very fine cheese from the mountains")


class Servers:
    """A cluster of three servers, led by the one whose console is open."""

    async def state(self) -> ClusterState:
        """Return the present state."""
        instances = [
            Instance(
                id=number,
                address=f"http://10.0.0.{number}:8080",
                version="0.1.0",
                since_ms=OPENED_MS,
                reaches_store_since_ms=OPENED_MS,
            )
            for number in (4, 5, 7)
        ]
        return ClusterState(id=5, role=Role.LEADER, leader=5, token=2, instances=instances)

    def findings(self) -> list[Finding]:
        return []


class Shop:
    """The created things, for tests to name them."""

    site: Site
    clock: ManualClock
    message: str
    """The id of a message, in hexadecimal digits."""
    before: str
    """The id of the message right before the transaction that holds readers up."""
    transaction: int
    """A transaction that is in progress and holds readers up."""

    @property
    def pages(self) -> Sequence[str]:
        """The place of each kind of page."""
        return (
            *("", f"topics?namespace={NS}", ORDERS_PAGE, f"{ORDERS_PAGE}/messages"),
            *(f"{ORDERS_PAGE}/messages/{self.message}", "transactions"),
            *(f"transactions/{self.transaction}", "readers", f"readers/{NS}/orders/billing"),
            *(f"readers/{NS}/orders/packing", "schemas", "schemas/shop:orders-value", "cluster"),
            *("namespaces", f"namespaces/{NS}", "cleanup", "access", "audit", "sign-in"),
        )


async def opened(site: Site, clock: ManualClock) -> Shop:
    """Make the shop work for an hour."""
    shop = Shop()
    shop.site, shop.clock = site, clock
    services, context = site.services, site.app.context
    ProcessCollector(registry=context.registry)
    for topic in (ORDERS, INVOICES, RETURNS):
        ttl = {"ttl": str(30 * 86400)} if topic is ORDERS else {}
        await services.messaging.create_topic(topic, ttl)
    await services.schemas.register("shop:orders-value", avro(*_ORDER, name="Order"))
    await services.schemas.register("shop:orders-value", avro(*_ORDER, _WHOM, name="Order"))
    await services.namespaces.declare(NS, NamespaceSettings(ttl_s_max=90 * 86400))
    await services.subscriptions.create_subscription(ORDERS, "billing")
    await services.subscriptions.create_subscription(INVOICES, "accounts")
    steps = _STEPS if os.environ.get("TMS_PICTURES") else scaled(_STEPS)
    for step in range(_STEPS - steps, _STEPS - _STANDS_STILL):
        ids = await _step(shop, step)
    await _read(shop, ids)
    shop.before = ids[-4].hex()
    await services.transactions.invalidate(await _started(shop, "crashed", RETURNS))
    clock.advance(1)
    shop.transaction = await _started(shop, "import", ORDERS, INVOICES)
    for step in range(_STEPS - _STANDS_STILL, _STEPS):
        ids = await _step(shop, step)
    shop.message = ids[-1].hex()
    await _started(shop, "checkout")
    assert services.cleanup is not None
    await services.cleanup.run_pass(10)
    return shop


async def _step(shop: Shop, step: int) -> Sequence[bytes]:
    """Make ten seconds pass; return the ids of new orders."""
    messaging, http = shop.site.services.messaging, shop.site.browser.http
    count = 30 + step * 7 % 13 + (120 if 200 < step < 240 else 0)
    bodies = [
        encode_body(
            json.dumps({"number": step * 100 + number, "goods": _GOODS[number % 4]}).encode(),
            f"customer-{number}".encode(),
            {"source": b"web" if number % 3 else b"telephone"},
        )
        for number in range(count)
    ]
    ids = await messaging.publish(ORDERS, bodies_of(bodies))
    invoices = f"/v1/namespaces/{NS}/topics/invoices"
    invoice = {"messages": [f"invoice {step}"] * (10 + step % 3)}
    for verb, body in (("publish", invoice), ("poll", {"limit": 20 + step * 5 % 7})):
        answer = await http.post(f"{invoices}/{verb}", json=body)
        assert answer.status_code == 200, answer.text
    await shop.site.app.context.watch.look()
    shop.clock.advance(STEP_S * 1000)
    return ids


async def _read(shop: Shop, ids: Sequence[bytes]) -> None:
    """Make all readers except a slow one read up to the newest orders, and leave some open."""
    subscriptions, groups = shop.site.services.subscriptions, shop.site.services.groups
    at = {"billing": ids[0], "accounts": ids[-1]}
    for topic, name in ((ORDERS, "billing"), (INVOICES, "accounts")):
        made = await subscriptions.subscription(topic, name)
        await subscriptions.advance(Advance(topic, name, at[name], made.version))
    await groups.create_group(ORDERS, "packing", after=ids[0])
    taken = await groups.take(ORDERS, "packing", Take("robot-1", 3, lease_s=600))
    assert taken.delivery is not None
    failed = Settle(nacks=[Nacks(taken.delivery, [ids[1]], delay_s=600)])
    await groups.settle(ORDERS, "packing", "robot-1", failed)
    await groups.take(ORDERS, "packing", Take("robot-2", 2, lease_s=600))


async def _started(shop: Shop, client: str, *topics: TopicId) -> int:
    """Start a transaction that has published to topics; return its id."""
    services = shop.site.services
    asked = StartRequest(timeout_s=3600, client=client, owner=f"{client}-job", sequence=7)
    found = await services.transactions.start(asked, caller=Caller("importer"))
    for topic in topics:
        await services.messaging.publish(topic, [b"{}"], found.write_pointer)
    return found.transaction_id
