"""Where the requests of a store with shards go: each to the shard that its path or query names.

1. A request for a shard that this server leads is answered here. Others are forwarded to the leader
   of the shard, one hop. What names no shard is answered by the server that is asked.
2. If nobody leads the shard just then, the request waits for the next leader, for `hold_s` at most.
   So it is if a leader says that it leads no more, before it has done anything. Only such requests
   wait of which nothing was done, at most `HELD_MAX` at once, with `held_bytes_max` of bodies.
3. A request that another server has forwarded is never forwarded again, and does not wait.

Used from the event loop's thread alone.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from prometheus_client import Counter, Histogram

from api.cluster.forwarding import MAY_WAIT, Forwarder
from api.http.application import Application
from api.http.endpoint import FORWARDED_BY, Endpoint
from api.http.exchange import Exchange, topic_id_of
from api.http.metrics import SECONDS
from api.http.operation import Operation
from api.http.query_parameters import values_of
from tms.core.caller import AUDIT_TOPIC
from tms.core.errors import InvalidRequest, NoLeader, Stopping
from tms.core.shards import ShardBy, Sharding

LeftOfLease = Callable[[], float]
"""Returns the seconds that are left of this server's lease of a shard."""
Place = Callable[[Exchange], int | None]
"""Returns the shard that a request is for; None: it names none."""

HELD_MAX = 10_000
_KEPT_BYTES_MAX = 64 * 1024
"""A body that is read before the request is forwarded, so that it can wait, and be sent again."""
_RETRY_S = 0.25
"""How long a request waits if the known leader takes no connection."""
_OUTCOMES = ("answered", "no_leader", "broken")
_OF_HOME = ("publishAll", "startTransaction")
_OF_NAMESPACE = ("listTopics", "getPositions")
"""Operations on all topics of a namespace."""


class ShardRouting:
    """The ways of one server's requests."""

    def __init__(
        self,
        sharding: Sharding,
        forwarders: Sequence[Forwarder],
        *,
        hold_s: float,
        held_bytes_max: int,
    ) -> None:
        """Forward by the forwarder of each shard, which is told of its leader by `heard`."""
        assert len(forwarders) == sharding.shards
        self._sharding = sharding
        self._forwarders = forwarders
        self._hold_s = hold_s
        self._held_bytes_max = held_bytes_max
        self._leases: dict[int, LeftOfLease] = {}
        self._news = [asyncio.Event() for _ in forwarders]
        """An event for each shard: set, and made anew, when its leader has changed."""
        self.held = 0
        """How many requests wait for a leader."""
        self._held_bytes = 0

    def install(self, app: Application) -> Application:
        """Have the requests of an application go where they belong."""
        registry = app.context.registry
        told = "Requests for other servers, by whether they were answered there."
        forwarded = Counter("tms_forwarded", told, ["outcome"], registry=registry)
        self._answered, self._no_leader, self._broken = map(forwarded.labels, _OUTCOMES)
        told = "Seconds until another server has answered a request, without polls that may wait."
        self._seconds = Histogram("tms_forward_seconds", told, registry=registry, buckets=SECONDS)
        for route in app.routes.routes:
            place = self._place_of(route.template, route.target.operation)
            if place is not None:
                route.target.routing = _Routed(self, place)
        return app

    # Who leads.

    def lead(self, shard: int, left_s: LeftOfLease) -> None:
        """Answer for a shard here while there is something left of its lease."""
        self._leases[shard] = left_s
        self._tell(shard)

    def follow(self, shard: int) -> None:
        """Answer for a shard here no more."""
        self._leases.pop(shard, None)

    def heard(self, shard: int, address: str | None, boot: str) -> None:
        """Forward what is for a shard to another leader, or to none."""
        self._forwarders[shard].forward_to(address, boot)
        if address is not None:
            self._tell(shard)

    def _tell(self, shard: int) -> None:
        self._news[shard].set()
        self._news[shard] = asyncio.Event()

    def is_here(self, shard: int) -> bool:
        """Whether this server leads a shard now."""
        left_s = self._leases.get(shard)
        return left_s is not None and left_s() > 0

    # Where a request goes.

    def _place_of(self, template: str, operation: Operation | None) -> Place | None:
        if operation is None:
            return None
        is_of_namespace = self._sharding.by is ShardBy.NAMESPACE and operation.name in _OF_NAMESPACE
        known = operation.known_parameters or ()
        place: Place | None = None
        if "{topic}" in template:
            place = self._of_topic
        elif "{transaction_id}" in template:
            place = self._of_transaction
        elif operation.name in _OF_HOME or is_of_namespace:
            place = self._of_home
        elif template == "/console/audit":
            place = self._of_audit
        elif "shard" in known:
            place = self._of_query
        return place

    def _of_audit(self, _: Exchange) -> int:
        return self._sharding.shard_of(AUDIT_TOPIC)

    def _of_topic(self, exchange: Exchange) -> int:
        return self._sharding.shard_of(
            topic_id_of(exchange.names["namespace"], exchange.names["topic"])
        )

    def _of_transaction(self, exchange: Exchange) -> int:
        return self._sharding.shard_of_transaction(exchange.transaction_id)

    def _of_home(self, exchange: Exchange) -> int:
        values = values_of(exchange.query) if exchange.query else {}
        namespace = exchange.names.get("namespace") or values.get("namespace", "default")
        return self._sharding.home(namespace, values.get("topic"))

    def _of_query(self, exchange: Exchange) -> int | None:
        given = values_of(exchange.query).get("shard", "") if exchange.query else ""
        is_number = given.isascii() and given.isdigit() and len(given) < len("1000")
        return int(given) if is_number and int(given) < self._sharding.shards else None

    # Having it answered there.

    def leader_of(self, shard: int) -> str | None:
        """Return the URL of the other server that leads a shard; None: nobody is known to."""
        return self._forwarders[shard].address

    def held_until_s(self) -> float:
        """Return until when a request that comes now may wait for a leader, by the loop's time."""
        return asyncio.get_running_loop().time() + self._hold_s

    async def forward(self, shard: int, exchange: Exchange, until_s: float) -> bool:
        """Have the leader of a shard answer; False: this server has come to lead it meanwhile.

        Raises as `Forwarder.forward`, `NoLeader` if there was no leader until a time.
        """
        if FORWARDED_BY in exchange.headers:
            raise NoLeader(shard=shard, reason="another server has forwarded it here")
        await _read_small(exchange)
        loop = asyncio.get_running_loop()
        while not self.is_here(shard):
            news = self._news[shard]
            left_s = until_s - loop.time()
            try:
                await self._forwarders[shard].forward(exchange)
            except NoLeader as error:
                if left_s <= 0 or not self._may_wait(exchange):
                    self._no_leader.inc()
                    error.detail = {**error.detail, "shard": shard}
                    raise
            except Exception:
                self._broken.inc()
                raise
            else:
                self._answered.inc()
                if MAY_WAIT not in exchange.query:
                    self._seconds.observe(loop.time() - until_s + self._hold_s)
                return True
            await self._wait(exchange, news, min(left_s, _RETRY_S))
        return False

    def _may_wait(self, exchange: Exchange) -> bool:
        """Whether nothing of a request was sent, and there is room for it."""
        has_all = exchange.whole_body is not None or exchange.bytes_in == 0
        size = len(exchange.whole_body or b"")
        has_room = self.held < HELD_MAX and self._held_bytes + size <= self._held_bytes_max
        return has_all and has_room and not exchange.is_begun

    async def _wait(self, exchange: Exchange, news: asyncio.Event, wait_s: float) -> None:
        size = len(exchange.whole_body or b"")
        self.held += 1
        self._held_bytes += size
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await news.wait()
        finally:
            self.held -= 1
            self._held_bytes -= size


class _Routed:
    """The routing of one operation. Fulfils `api.http.endpoint.Routing`."""

    __slots__ = ("_place", "_routing")

    def __init__(self, routing: ShardRouting, place: Place) -> None:
        self._routing = routing
        self._place = place

    async def answer(self, exchange: Exchange, endpoint: Endpoint) -> None:
        """Have another server answer a request, or `endpoint`. Raises what either raises."""
        until_s: float | None = None
        while True:
            shard = self._elsewhere(exchange)
            if shard is None:
                try:
                    return await endpoint.answer(exchange)
                except (NoLeader, Stopping):
                    # It was refused as this server stopped leading the shard: nothing was done.
                    has_all = exchange.whole_body is not None and not exchange.is_begun
                    shard = self._elsewhere(exchange) if has_all else None
                    if shard is None:
                        raise
            if until_s is None:
                until_s = self._routing.held_until_s()
            if await self._forwards(shard, exchange, endpoint, until_s):
                return None

    async def _forwards(
        self, shard: int, exchange: Exchange, endpoint: Endpoint, until_s: float
    ) -> bool:
        """Have another server answer, which decides what the caller may; return whether it did."""
        await asyncio.sleep(0)  # from here on in a task
        exchange.operation = exchange.admission = None
        if endpoint.access is not None:
            await endpoint.access.admit(exchange)
        if await self._routing.forward(shard, exchange, until_s):
            return True
        exchange.operation, exchange.admission = endpoint.operation, None
        return False

    def leader_elsewhere(self, exchange: Exchange) -> str | None:
        """Return the URL of another server that leads what a request is for; None: none does."""
        shard = self._elsewhere(exchange)
        return None if shard is None else self._routing.leader_of(shard)

    def _elsewhere(self, exchange: Exchange) -> int | None:
        """Return the shard of a request that this server does not lead; None: answer it here."""
        try:
            shard = self._place(exchange)
        except InvalidRequest:
            return None  # the operation says why
        return None if shard is None or self._routing.is_here(shard) else shard


async def _read_small(exchange: Exchange) -> None:
    """Read a small body whole, as it came."""
    if exchange.body_unread and 0 < exchange.fields.body_bytes <= _KEPT_BYTES_MAX:
        parts = []
        while exchange.body_unread:
            parts.append(await exchange.receive())
        exchange.whole_body = b"".join(parts)
