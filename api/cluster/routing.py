"""Routes the requests of a store with shards, each to the shard that its path or query names.

1. A request for a shard that this server leads is answered here. Others are forwarded to the leader
   of the shard, one hop. A request that names no shard is answered by the server that receives it.
2. If the shard has no leader at the moment, the request waits for the next one, for at most
   `hold_s`. The same applies if a leader reports, before it has done anything, that it no longer
   leads. Only requests without any effect so far wait, at most `HELD_MAX` at once, with
   `held_bytes_max` of bodies. A large body is kept from its first byte for that, if there is room.
3. A list over all shards waits in the same way until each has a leader, unless a shard has been
   without one for longer. So a shard that only moves is not reported as away, and causes no error.
4. A server that returns a shard first lets its requests for it end (`leave`), for at most half of
   `hold_s`, but at least `DRAIN_S`. So no answer is cut, takes of groups are written, and waiting
   requests have the other half for the next leader to open the shard.
5. A request that another server has forwarded is never forwarded again, and does not wait.

Used from the event loop's thread alone.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from prometheus_client import Counter, Histogram

from api.cluster.forwarding import MAY_WAIT, Forwarder
from api.cluster.held_requests import KEPT_BYTES_MAX, HeldRequests, read_kept
from api.cluster.places import OperationPlace, RequestPlaces
from api.http.application import Application
from api.http.context import Context
from api.http.endpoint import FORWARDED_BY, Endpoint
from api.http.exchange import Exchange
from api.http.metrics import SECONDS
from api.http.request_body import read_body
from tms.core.errors import (
    InvalidRequest,
    NoLeader,
    OutcomeUnknown,
    ServerUnreachable,
    Stopping,
    StoreUnavailable,
    TopicNotFound,
    TransactionUnknown,
)
from tms.core.services.server_services import ServerServices
from tms.core.values.shards import Sharding

LeftOfLease = Callable[[], float]
"""Returns the remaining seconds of this server's lease on a shard."""


class _Led(NamedTuple):
    """A shard that this server leads."""

    context: Context
    left_s: LeftOfLease


DRAIN_S = 1.0
_RETRY_S = 0.25
"""How long a request waits if the known leader accepts no connection."""
_OUTCOMES = ("answered", "no_leader", "broken")
_READ = ("poll", "getPositions")
"""Operations that change nothing, although they are not GETs."""


class ShardRouting:
    """The routing of one server's requests."""

    def __init__(
        self,
        sharding: Sharding,
        forwarders: Sequence[Forwarder],
        *,
        hold_s: float,
        held_bytes_max: int,
    ) -> None:
        """Forward with the forwarder of each shard; `set_leader` names its leader."""
        assert len(forwarders) == sharding.shards
        self.places = RequestPlaces(sharding)
        self._forwarders = forwarders
        self._hold_s = hold_s
        self.waiting = HeldRequests(held_bytes_max)
        self._reads: set[object] = set()
        """The endpoints of operations that change nothing."""
        self._context: Context | None = None
        self._led: dict[int, _Led] = {}
        self.at_work: list[set[Exchange]] = [set() for _ in forwarders]
        """The requests being answered here, by shard."""
        now_s = asyncio.get_running_loop().time()
        self._has_ended = asyncio.Event()
        """Set whenever one of them has ended."""
        self._away_from_s: dict[int, float] = dict.fromkeys(range(sharding.shards), now_s)
        """The time since which a shard has no known leader."""
        self._news = [asyncio.Event() for _ in forwarders]
        """An event for each shard, which is set and replaced when its leader changes."""

    def install(self, app: Application) -> Application:
        """Route the requests of an application."""
        self._context, registry = app.context, app.context.registry
        help_text = "Requests for other servers, by whether they were answered there."
        forwarded = Counter("tms_forwarded", help_text, ["outcome"], registry=registry)
        self._answered, self._no_leader, self._broken = map(forwarded.labels, _OUTCOMES)
        help_text = "Seconds until another server answered a request, without polls that may wait."
        self._seconds = Histogram(
            "tms_forward_seconds", help_text, registry=registry, buckets=SECONDS
        )
        for route in app.routes.routes:
            operation = route.target.operation
            found = None
            if operation is not None:
                found = self.places.place_of(route.template, operation)
            if operation is not None and found is not None:
                if operation.method == "GET" or operation.name in _READ:
                    self._reads.add(route.target)
                route.target.routing = _Routed(self, found)
        return app

    @property
    def held(self) -> int:
        """The number of requests that wait for a leader."""
        return self.waiting.count

    # Leadership.

    def lead(self, shard: int, services: ServerServices, left_s: LeftOfLease) -> None:
        """Answer for a shard here with its services, until its lease expires."""
        assert self._context is not None, "call `install` first"
        self._led[shard] = _Led(replace(self._context, services=services), left_s)
        self._away_from_s.pop(shard, None)
        self._announce(shard)

    def follow(self, shard: int) -> None:
        """Stop answering for a shard here."""
        self._led.pop(shard, None)
        self._note_away(shard)

    async def leave(self, shard: int, stop_waiting: Callable[[], None]) -> None:
        """Stop answering for a shard here, and let its requests at work end, within a time limit.

        `stop_waiting` makes those that wait for something answer.
        """
        self.follow(shard)
        stop_waiting()
        at_work = self.at_work[shard]
        ending = {each for each in at_work if not each.body_unread}
        with suppress(TimeoutError):
            async with asyncio.timeout(max(DRAIN_S, self._hold_s / 2)):
                while ending & at_work:
                    self._has_ended.clear()
                    await self._has_ended.wait()

    def _note_away(self, shard: int) -> None:
        if shard not in self._led and self._forwarders[shard].address is None:
            self._away_from_s.setdefault(shard, asyncio.get_running_loop().time())

    def set_leader(self, shard: int, address: str | None, boot: str) -> None:
        """Forward a shard's requests to another leader, or to none."""
        self._forwarders[shard].forward_to(address, boot)
        if address is None:
            self._note_away(shard)
        else:
            self._away_from_s.pop(shard, None)
            self._announce(shard)

    def _announce(self, shard: int) -> None:
        self._news[shard].set()
        self._news[shard] = asyncio.Event()

    def here(self, shard: int) -> Context | None:
        """Return the context of a shard that this server leads now; None if it does not."""
        led = self._led.get(shard)
        return led.context if led is not None and led.left_s() > 0 else None

    # Forwarding.

    def leader_of(self, shard: int) -> str | None:
        """Return the URL of the other server that leads a shard, None if none is known."""
        return self._forwarders[shard].address

    def held_until_s(self) -> float:
        """Return the loop's time until which a request received now may wait for a leader."""
        return asyncio.get_running_loop().time() + self._hold_s

    async def forward(self, shard: int, exchange: Exchange, until_s: float) -> bool:
        """Let the leader of a shard answer; return False if this server has become the leader.

        Raises as `Forwarder.forward`, and `NoLeader` if there is no leader by `until_s`.
        """
        if FORWARDED_BY in exchange.headers:
            reason = "another server has forwarded it here"
            raise NoLeader(**self._detail(shard), reason=reason)
        await _read_small(exchange)
        loop = asyncio.get_running_loop()
        while self.here(shard) is None:
            news = self._news[shard]
            left_s = until_s - loop.time()
            try:
                await self._forwarders[shard].forward(exchange)
            except NoLeader as error:
                if left_s <= 0 or not self.waiting.may_wait(exchange):
                    self._no_leader.inc()
                    error.detail = {**error.detail, **self._detail(shard)}
                    raise
            except Exception as error:
                # A read that was broken off because another server leads now is repeated.
                is_read = isinstance(error, OutcomeUnknown) and exchange.endpoint in self._reads
                if left_s <= 0 or not is_read or not self.waiting.may_wait(exchange):
                    self._broken.inc()
                    raise
            else:
                self._answered.inc()
                if MAY_WAIT not in exchange.query:
                    self._seconds.observe(loop.time() - until_s + self._hold_s)
                return True
            if exchange.bytes_in:
                await read_kept(exchange)
            await self.waiting.wait(exchange, news, min(left_s, _RETRY_S))
        return False

    def _detail(self, shard: int) -> dict[str, Any]:
        """Return the detail of errors about a shard: nothing if it is the only one."""
        return {"shard": shard} if len(self._forwarders) > 1 else {}

    def end(self, shard: int, exchange: Exchange) -> None:
        """Stop counting a request that was answered here."""
        self.at_work[shard].discard(exchange)
        self._has_ended.set()

    @property
    def is_any_away(self) -> bool:
        """Whether a shard has no known leader."""
        return bool(self._away_from_s)

    async def all_led(self, exchange: Exchange, until_s: float) -> None:
        """Wait until each shard has a leader or has had none for `hold_s`, or until `until_s`."""
        loop = asyncio.get_running_loop()
        while self._away_from_s:
            shard = max(self._away_from_s, key=self._away_from_s.__getitem__)
            left_s = min(self._away_from_s[shard] + self._hold_s, until_s) - loop.time()
            if left_s <= 0 or not self.waiting.may_wait(exchange):
                return
            await self.waiting.wait(exchange, self._news[shard], left_s)

    async def pause(self, exchange: Exchange, until_s: float) -> bool:
        """Wait before a list is requested again; return False to give up."""
        now_s = asyncio.get_running_loop().time()
        is_long = any(now_s - away_s >= self._hold_s for away_s in self._away_from_s.values())
        if is_long or now_s >= until_s or not self.waiting.may_wait(exchange):
            return False
        await self.waiting.wait(exchange, asyncio.Event(), min(until_s - now_s, _RETRY_S))
        return True


class _Routed:
    """The routing of one operation. Implements `api.http.endpoint.Routing`."""

    __slots__ = ("_is_of_all", "_place", "_routing")

    def __init__(self, routing: ShardRouting, place: OperationPlace) -> None:
        self._routing = routing
        self._place, self._is_of_all = place

    async def answer(self, exchange: Exchange, endpoint: Endpoint) -> None:
        """Let another server, or `endpoint`, answer a request. Raises what either raises."""
        if exchange.body_unread:
            with self._routing.waiting.keeping(exchange):
                await self._answer(exchange, endpoint)
        else:
            await self._answer(exchange, endpoint)

    async def _answer(self, exchange: Exchange, endpoint: Endpoint) -> None:
        until_s: float | None = None
        while True:
            shard = self._shard_of(exchange)
            if shard is None:
                return await self._answer_of_all(exchange, endpoint)
            context = self._routing.here(shard)
            if context is not None:
                exchange.context = context
                self._routing.at_work[shard].add(exchange)
                try:
                    return await endpoint.answer(exchange)
                except (TopicNotFound, TransactionUnknown) as error:
                    raise self._routing.places.error_of(error, exchange) from None
                except (NoLeader, Stopping, StoreUnavailable):
                    # Refused because this server stopped leading the shard: nothing was done.
                    if not _has_all(exchange) or exchange.is_begun or self._routing.here(shard):
                        raise
                finally:
                    self._routing.end(shard, exchange)
                if exchange.bytes_in:
                    await read_kept(exchange)
            if until_s is None:
                until_s = self._routing.held_until_s()
            if await self._forwards(shard, exchange, endpoint, until_s):
                return None

    async def _answer_of_all(self, exchange: Exchange, endpoint: Endpoint) -> None:
        """Let an endpoint answer for all shards. Raises `InvalidRequest` if the place is wrong."""
        try:
            self._place(exchange)
        except InvalidRequest:
            await _admit(exchange, endpoint)
            raise
        if not self._is_of_all or FORWARDED_BY in exchange.headers:
            return await endpoint.answer(exchange)
        until_s = self._routing.held_until_s()
        while True:
            if self._routing.is_any_away:
                await asyncio.sleep(0)  # the rest runs in a task
                await self._routing.all_led(exchange, until_s)
            try:
                return await endpoint.answer(exchange)
            except (NoLeader, OutcomeUnknown, ServerUnreachable) as error:
                is_safe = exchange.method == "GET" or isinstance(error, NoLeader)
                if not is_safe or not await self._routing.pause(exchange, until_s):
                    raise
            exchange.operation, exchange.admission = endpoint.operation, None

    async def _forwards(
        self, shard: int, exchange: Exchange, endpoint: Endpoint, until_s: float
    ) -> bool:
        """Let another server answer, which checks the permissions; return whether it did."""
        await asyncio.sleep(0)  # the rest runs in a task
        exchange.operation = exchange.admission = None
        if endpoint.access is not None:
            await endpoint.access.admit(exchange)
        if await self._routing.forward(shard, exchange, until_s):
            return True
        exchange.operation, exchange.admission = endpoint.operation, None
        await read_kept(exchange)
        return False

    def leader_elsewhere(self, exchange: Exchange) -> str | None:
        """Return the URL of another server that leads the request's shard, None if none does."""
        shard = self._shard_of(exchange)
        if shard is None or self._routing.here(shard):
            return None
        return self._routing.leader_of(shard)

    def _shard_of(self, exchange: Exchange) -> int | None:
        """Return the shard of a request; None if it names none, or is wrong."""
        try:
            return self._place(exchange)
        except InvalidRequest:
            return None


def _has_all(exchange: Exchange) -> bool:
    """Whether everything received of a body is still available."""
    if exchange.whole_body is not None or exchange.kept is not None:
        return True
    return not exchange.body_unread and not exchange.bytes_in


async def _admit(exchange: Exchange, endpoint: Endpoint) -> None:
    """Check the caller of an invalid request, and read its body, before it is refused."""
    if endpoint.access is not None:
        await endpoint.access.admit(exchange)
    if exchange.body_unread:
        await read_body(exchange)


def route_alone(
    app: Application, sharding: Sharding, services_in: Callable[[int], ServerServices]
) -> None:
    """Give requests the services of their shards, in a server that leads all of them."""
    forwarders = [Forwarder(0) for _ in range(sharding.shards)]
    routing = ShardRouting(sharding, forwarders, hold_s=0.0, held_bytes_max=0)
    routing.install(app)
    for shard in range(sharding.shards):
        routing.lead(shard, services_in(shard), lambda: math.inf)


async def _read_small(exchange: Exchange) -> None:
    """Read a small body into memory, as sent."""
    if exchange.body_unread and 0 < exchange.fields.body_bytes <= KEPT_BYTES_MAX:
        parts = []
        while exchange.body_unread:
            parts.append(await exchange.receive())
        exchange.whole_body = b"".join(parts)
