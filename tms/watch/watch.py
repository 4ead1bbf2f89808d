"""The watch of a server: its last hour, and what is wrong with it now.

1. It samples every `STEP_S` seconds, and lags every minute, independently of requests, which cost
   nothing more because of it.
2. Its answers are at most `FRESH_S` old, except for the disk (`STEP_S`). If a sample takes longer
   than `PATIENCE_S`, the previous one is returned.

Used only from the event loop's thread.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry

from tms.core.errors import TmsError
from tms.core.limits import MS_PER_S
from tms.core.runtime.clock import Clock
from tms.core.runtime.supervision import failing, supervised
from tms.core.services.cluster import Cluster
from tms.core.services.findings import REFUSED_MIN, Ending, Facts, findings, full_in_s
from tms.core.services.server_services import ServerServices
from tms.core.services.status import Disk, Rates, ServerStatus
from tms.core.services.transactions import TransactionInfo
from tms.core.values.cleanup import CleanupState
from tms.core.values.lags import ReaderLag
from tms.core.values.room import Room
from tms.watch.figures import Figures, quantile, taken
from tms.watch.history import STEP_S, History
from tms.watch.lag_history import EVERY_S, LagHistory

FRESH_S = 3.0
PATIENCE_S = 0.1
_RATE_S = 60
_REFUSED_S = 300
_GROWTH_S = 600
_GROWTH_S_MIN = 30
"""A growth rate over a shorter time says little."""

Result = TypeVar("Result")


class Watch:
    """The watch of one server's services."""

    def __init__(
        self,
        services: ServerServices,
        registry: CollectorRegistry,
        clock: Clock,
        endings: Callable[[], Sequence[Ending]],
        cluster: Cluster | None = None,
    ) -> None:
        """Watch `services` by their metrics; `endings` returns the expiring credentials."""
        self._cluster = cluster
        self._services = services
        self._registry = registry
        self._clock = clock
        self._endings = endings
        self._lags_looked_ms: int | None = None
        self._room_looked_ms: int | None = None
        self._looking: asyncio.Task[None] | None = None
        self._room: Room | None = None
        self._seconds: dict[str, dict[float, float]] = {}
        self._lags_kept_ms: int | None = None
        self.history = History()
        self.lag_history = LagHistory()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Sample every `STEP_S` seconds."""
        task = supervised("the watch of the server's figures", self._run)
        try:
            yield
        finally:
            tasks = [each for each in (task, self._looking) if each is not None]
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(STEP_S)

    async def look(self) -> None:
        """Add a point to the history."""
        figures = await taken(self._registry)
        sums = dict(figures.sums)
        for status in REFUSED_MIN:
            sums[_refused_name(status)] = figures.refused.get(status, 0.0)
        for operation, now in figures.seconds.items():
            before = self._seconds.get(operation, {})
            for name, share in (("p50", 0.5), ("p99", 0.99)):
                value = quantile(share, before, now)
                if value is not None:
                    sums[f"{operation}_{name}_s"] = value
        self._seconds = figures.seconds
        room = await self.room()
        if room is not None:
            sums |= {"store_bytes": room.used_bytes, "free_bytes": room.free_bytes}
        self.history.add(self._clock.now_ms(), sums, figures.topics)
        if self._is_due(self._lags_kept_ms, EVERY_S):
            self._lags_kept_ms = self._clock.steady_ms()
            await self._refresh_lags()
            self.lag_history.add(self._clock.now_ms(), self._services.lags())

    # The present state.

    async def figures(self) -> Figures:
        """Return the current figures."""
        return await taken(self._registry)

    async def room(self) -> Room | None:
        """Return the store's disk use; None if it is not in a folder."""
        if self._is_due(self._room_looked_ms, STEP_S):
            self._room_looked_ms = self._clock.steady_ms()
            self._room = await self._services.room()
        return self._room

    def _is_due(self, looked_ms: int | None, every_s: float) -> bool:
        return looked_ms is None or self._clock.steady_ms() - looked_ms >= every_s * MS_PER_S

    async def lags(self) -> Sequence[ReaderLag]:
        """Return how far readers are behind, ordered by topic and name."""
        is_idle = self._looking is None or self._looking.done()
        if is_idle and self._is_due(self._lags_looked_ms, FRESH_S):
            self._lags_looked_ms = self._clock.steady_ms()
            self._looking = asyncio.create_task(self._refresh_lags())
        if self._looking is not None:
            await asyncio.wait([self._looking], timeout=PATIENCE_S)
        lags = self._services.lags()
        return sorted(lags, key=lambda each: (each.namespace, each.topic, each.name))

    async def _refresh_lags(self) -> None:
        with suppress(TmsError):
            await self._services.refresh_lags()

    async def in_progress(self) -> Sequence[TransactionInfo]:
        """Return the transactions in progress, oldest first; none if managed elsewhere."""
        return (await self._in_progress())[0]

    async def _in_progress(self) -> tuple[Sequence[TransactionInfo], Sequence[int]]:
        """Return the transactions in progress, and the shards that are left out."""
        services, missing = self._services.present()
        return await _known(services.transactions.in_progress()) or (), missing

    async def cleanup(self) -> CleanupState | None:
        """Return the state of cleanup; None if there is none, or each shard has its own."""
        cleanup = self._services.cleanup
        if cleanup is not None:
            with suppress(TmsError):
                return await cleanup.state()
        return None

    def rates(self, figures: Figures) -> Rates:
        """Return the traffic per second over the last minute."""
        names = ("messages_in", "bytes_in", "messages_out", "bytes_out", "requests")
        return Rates(**{name: self._rate(name, figures.sums.get(name)) for name in names})

    def _rate(self, name: str, now: float | None) -> float | None:
        before = self.history.before(_RATE_S, self._clock.now_ms(), name)
        if before is None or now is None or before[1] < 1:
            return None
        return max(0.0, now - before[0]) / before[1]

    def growth_bytes_s(self, room: Room | None) -> float:
        """Return how fast the store grows, in bytes a second; 0 if it does not."""
        before = self.history.before(_GROWTH_S, self._clock.now_ms(), "store_bytes")
        if room is None or before is None or before[1] < _GROWTH_S_MIN:
            return 0.0
        return max(0.0, room.used_bytes - before[0]) / before[1]

    async def facts(self, figures: Figures) -> Facts:
        """Return the current facts."""
        refused, refused_s = {}, 0.0
        for status in REFUSED_MIN:
            name = _refused_name(status)
            before = self.history.before(_REFUSED_S, self._clock.now_ms(), name) or (0.0, 0.0)
            refused[status] = int(figures.refused.get(status, 0.0) - before[0])
            refused_s = max(refused_s, before[1])
        room = await self.room()
        in_progress, missing = await self._in_progress()
        await asyncio.sleep(0)  # there may be many
        return Facts(
            now_ms=self._clock.now_ms(),
            lags=await self.lags(),
            in_progress=in_progress,
            cleanup=await self.cleanup(),
            room=room,
            growth_bytes_s=self.growth_bytes_s(room),
            refused=refused,
            refused_s=int(refused_s),
            endings=self._endings(),
            failing=[(each.task, each.reason) for each in failing()],
            warnings=self._services.warnings(),
            missing_shards=missing,
            others=[
                *self._services.findings(),
                *(() if self._cluster is None else self._cluster.findings()),
            ],
        )

    async def status(self, *, passed: int = 0, limit: int = 100) -> ServerStatus:
        """Return the server's status, with `limit` readers after the first `passed`."""
        figures = await self.figures()
        facts = await self.facts(figures)
        oldest = next(iter(facts.in_progress), None)
        rates, disk = self.rates(figures), disk_of(facts)
        end = passed + limit
        return ServerStatus(
            time_ms=facts.now_ms,
            findings=findings(facts),
            messages_in_s=rates.messages_in,
            bytes_in_s=rates.bytes_in,
            messages_out_s=rates.messages_out,
            bytes_out_s=rates.bytes_out,
            requests_s=rates.requests,
            in_progress=len(facts.in_progress),
            oldest_transaction=None if oldest is None else oldest.transaction_id,
            oldest_age_ms=None if oldest is None else oldest.age_ms,
            oldest_client=None if oldest is None else oldest.client,
            store_bytes=None if disk is None else disk.store_bytes,
            free_bytes=None if disk is None else disk.free_bytes,
            disk_bytes=None if disk is None else disk.disk_bytes,
            full_in_s=None if disk is None else disk.full_in_s,
            readers=facts.lags[passed:end],
            next_reader=end if end < len(facts.lags) else None,
            missing_shards=facts.missing_shards,
        )


def disk_of(facts: Facts) -> Disk | None:
    """Return how full the store's disk is."""
    room = facts.room
    if room is None:
        return None
    full = full_in_s(room, facts.growth_bytes_s)
    return Disk(
        store_bytes=room.used_bytes,
        free_bytes=room.free_bytes,
        disk_bytes=room.disk_bytes,
        full_in_s=full,
    )


def _refused_name(status: int) -> str:
    return f"refused_{status}"


async def _known(call: Coroutine[Any, Any, Result]) -> Result | None:
    """Return the answer, None if it is not available."""
    try:
        return await call
    except TmsError:
        return None
