"""A shop's server: what the pages of the console show, an hour of it, and what is wrong."""

import json
from collections.abc import Sequence

from tests.api.console.records import avro
from tests.api.console.site import Site
from tests.manual_clock import ManualClock
from tms.core.caller import Caller
from tms.core.frame import bodies_of, encode_body
from tms.core.groups import Nacks, Settle, Take
from tms.core.namespaces import NamespaceSettings
from tms.core.subscriptions import Advance
from tms.core.topic import TopicId
from tms.core.transactions import StartRequest
from tms.watch.history import STEP_S

OPENED_MS = 1_792_000_000_000
"""When the clock stands as the server begins."""
NS = "shop"
ORDERS, INVOICES, RETURNS = (TopicId(NS, name) for name in ("orders", "invoices", "returns"))
_STEPS = 360
"""An hour."""
_ORDER = [{"name": "number", "type": "int"}, {"name": "goods", "type": "string"}]
_WHOM = {"name": "customer", "type": ["null", "string"], "default": None}
_GOODS = ("tea", "coffee", "bread", "a very fine cheese from the mountains")


class Shop:
    """What was made, for tests to name it."""

    site: Site
    clock: ManualClock
    message: str
    """The id of a message, in hexadecimal digits."""
    transaction: int
    """One that is in progress and holds readers up."""

    @property
    def pages(self) -> Sequence[str]:
        """The place of each kind of page."""
        orders = f"namespaces/{NS}/topics/orders"
        return (
            *("", f"topics?namespace={NS}", orders, f"{orders}/messages"),
            *(f"{orders}/messages/{self.message}", "transactions"),
            *(f"transactions/{self.transaction}", "readers", f"readers/{NS}/orders/billing"),
            *(f"readers/{NS}/orders/packing", "schemas", "schemas/shop:orders-value", "cluster"),
            *("namespaces", f"namespaces/{NS}", "cleanup", "access", "audit", "sign-in"),
        )


async def opened(site: Site, clock: ManualClock) -> Shop:
    """Have the shop work for an hour."""
    shop = Shop()
    shop.site, shop.clock = site, clock
    services = site.services
    for topic in (ORDERS, INVOICES, RETURNS):
        ttl = {"ttl": str(30 * 86400)} if topic is ORDERS else {}
        await services.messaging.create_topic(topic, ttl)
    await services.schemas.register("shop:orders-value", avro(*_ORDER, name="Order"))
    await services.schemas.register("shop:orders-value", avro(*_ORDER, _WHOM, name="Order"))
    await services.namespaces.declare(NS, NamespaceSettings(ttl_s_max=90 * 86400))
    await services.subscriptions.create_subscription(ORDERS, "billing")
    await services.subscriptions.create_subscription(INVOICES, "accounts")
    await services.groups.create_group(ORDERS, "packing")
    ids = [each for step in range(_STEPS) for each in await _step(shop, step)]
    await _end(shop, ids)
    return shop


async def _step(shop: Shop, step: int) -> Sequence[bytes]:
    """Have ten seconds pass; return the ids of new orders."""
    messaging = shop.site.services.messaging
    count = 3 + step % 7 + (12 if 200 < step < 240 else 0)
    bodies = [
        encode_body(
            json.dumps({"number": step * 100 + number, "goods": _GOODS[number % 4]}).encode(),
            f"customer-{number}".encode(),
            {"source": b"web" if number % 3 else b"telephone"},
        )
        for number in range(count)
    ]
    ids = await messaging.publish(ORDERS, bodies_of(bodies))
    await messaging.publish(INVOICES, [b"%d" % number for number in range(1 + step % 3)])
    await shop.site.app.context.watch.look()
    shop.clock.advance(STEP_S * 1000)
    return ids


async def _end(shop: Shop, ids: Sequence[bytes]) -> None:
    """Leave readers behind, messages open, and transactions in progress and invalid."""
    services, clock = shop.site.services, shop.clock
    for topic, name, at in ((ORDERS, "billing", -300), (INVOICES, "accounts", -1)):
        made = await services.subscriptions.subscription(topic, name)
        await services.subscriptions.advance(Advance(topic, name, ids[at], made.version))
    taken = await services.groups.take(ORDERS, "packing", Take("robot-1", 3, lease_s=600))
    assert taken.delivery is not None
    failed = Settle(nacks=[Nacks(taken.delivery, [ids[0]], delay_s=60)])
    await services.groups.settle(ORDERS, "packing", "robot-1", failed)
    await services.groups.take(ORDERS, "packing", Take("robot-2", 2, lease_s=600))

    async def started(client: str, *topics: TopicId) -> int:
        asked = StartRequest(timeout_s=3600, client=client, owner=f"{client}-job", sequence=7)
        found = await services.transactions.start(asked, caller=Caller("importer"))
        for topic in topics:
            await services.messaging.publish(topic, [b"{}"], found.write_pointer)
        return found.transaction_id

    await services.transactions.invalidate(await started("crashed", RETURNS))
    clock.advance(1)
    shop.transaction = await started("import", ORDERS, INVOICES)
    shop.message = ids[-1].hex()
    clock.advance(3 * 60_000)
    await started("checkout")
    assert services.cleanup is not None
    await services.cleanup.run_pass(10)
    await shop.site.app.context.watch.look()
