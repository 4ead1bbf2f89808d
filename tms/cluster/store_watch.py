"""Checks the store all the time, and exchanges with other servers since when it is reached.

Each check is one read with a short time limit, in a thread of its own. `tms.cluster.reach` decides
by the answers.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tms.cluster.instances import Registration, instances_of
from tms.cluster.lease import RENEWALS, LeaseClock
from tms.cluster.reach import StoreReach
from tms.core.errors import TmsError
from tms.core.runtime.clock import Clock
from tms.core.runtime.supervision import supervised
from tms.metadata.interface import MetadataStore

Look = Callable[[], object]
"""Reads something from the store, and raises `TmsError` if it is not reached. Blocks; must itself
obey the time limit `look_s_max`.
"""

_log = logging.getLogger(__name__)


def look_s_max(lease_s: float) -> float:
    """Return how long a check may take, in seconds."""
    return lease_s / RENEWALS


class StoreWatch:
    """One server's checks of the store. Used from one event loop."""

    def __init__(
        self,
        look: Look,
        metadata: MetadataStore,
        registration: Registration,
        *,
        lease_s: float,
        clock: LeaseClock,
        time: Clock,
    ) -> None:
        """Check from `open` on; `registration` shows the result to the others."""
        self._look = look
        self._metadata = metadata
        self._registration = registration
        self._clock = clock
        self._time = time
        self._reach = StoreReach(lease_s)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tms-look")
        self._has_given_up = False
        """Whether this server gave up a lease, and has not registered again since."""
        self._watching: asyncio.Task[None] | None = None
        self.on_reached: list[Callable[[], None]] = []
        """Called when the store is reachable after it was not."""

    def open(self) -> None:
        """Start checking."""
        self._watching = supervised("looking at the store", self._watch)

    async def close(self) -> None:
        """Stop checking; a check in progress ends by itself."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _watch(self) -> None:
        every_s = self._reach.lease_s / RENEWALS
        while True:
            sent_s = self._clock.now_s()
            await self._look_once(sent_s)
            await asyncio.sleep(max(0.0, sent_s + every_s - self._clock.now_s()))

    async def _look_once(self, sent_s: float) -> None:
        loop, reach = asyncio.get_running_loop(), self._reach
        was_reached, was_failing = reach.is_reached, reach.unserved_from_s is not None
        try:
            async with asyncio.timeout(look_s_max(reach.lease_s)):
                await loop.run_in_executor(self._thread, self._look)
        except Exception as error:
            reach.failed(sent_s, self._clock.now_s())
            if not was_failing:
                _log.warning("the store is unreachable: %s", error or "no answer in time")
                self._registration.report_reached(None)
            if not isinstance(error, TmsError | TimeoutError):
                raise
        else:
            reach.answered(sent_s, self._clock.now_s())
            if self._has_given_up and reach.may_claim(self._clock.now_s()):
                self._has_given_up = False
                self._registration.renew(self._time.now_ms())
            if not was_reached:
                _log.info("the store is reachable")
                self._registration.report_reached(self._time.now_ms())
                for call in self.on_reached:
                    call()

    async def may_claim(self) -> bool:
        """Return whether this server may claim a free lease. Raises `Unavailable`."""
        if self._reach.may_claim(self._clock.now_s()):
            return True
        own = self._registration.instance.id
        return all(each.id == own for each in await instances_of(self._metadata))

    async def is_better_elsewhere(self) -> bool:
        """Return whether this server must give up its lease; if so, record it."""
        if self._reach.unserved_from_s is None:
            return False
        own = self._registration.instance.id
        try:
            others = [each for each in await instances_of(self._metadata) if each.id != own]
        except TmsError:
            return False  # the others are unknown
        reached = any(other.reaches_store_since_ms is not None for other in others)
        now_s = self._clock.now_s()
        if not self._reach.hear(now_s, does_another_reach=reached):
            return False
        self._reach.give_up(now_s)
        self._has_given_up = True
        return True
