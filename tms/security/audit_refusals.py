"""Records refusals of strangers: the first of each kind at once, then a count once a minute.

A kind is an address, an action, a reason and the claimed principal. Strangers choose these, so the
number of kinds is bounded: `KINDS_OF_ADDRESS_MAX` for one address and `KINDS_MAX` for all, each
with one more kind for all others. So strangers cannot fill a disk.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from tms.core.runtime.clock import Clock
from tms.core.text.hosts import network_of
from tms.security.audit_record import AuditRecord

KINDS_MAX = 500
KINDS_OF_ADDRESS_MAX = 10
PERIOD_S = 60
_MANY = "*"
_OTHERS = "others"

Kind = tuple[str, str, str | None, str | None]


@dataclass(slots=True)
class _Seen:
    """One kind, since its first refusal was recorded."""

    last: AuditRecord
    untold: int = 0


class Refusals:
    """Counts refusals by kind. Used only from the event loop's thread."""

    def __init__(self, tell: Callable[[AuditRecord], None], clock: Clock) -> None:
        """Call `tell` with what to record now."""
        self._tell = tell
        self._clock = clock
        self._seen: dict[Kind, _Seen] = {}
        self._of_network: Counter[str] = Counter()
        self._began_ms = clock.steady_ms()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, record: AuditRecord) -> None:
        """Add a refusal."""
        if self._clock.steady_ms() - self._began_ms >= PERIOD_S * 1000:
            self.tell_counts()
        kind, record = self._kind_of(record)
        seen = self._seen.get(kind)
        if seen is None:
            self._seen[kind] = _Seen(record)
            self._of_network[kind[0]] += 1
            self._tell(record)
        else:
            seen.last = record
            seen.untold += 1
            self._start_timer()

    def tell_counts(self) -> None:
        """Record how many of each kind came since the last record; forget kinds without any.

        A kind that continues is in the next count.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._began_ms = self._clock.steady_ms()
        going_on = {kind: _Seen(seen.last) for kind, seen in self._seen.items() if seen.untold}
        counted = [seen for seen in self._seen.values() if seen.untold]
        self._seen = going_on
        self._of_network = Counter(kind[0] for kind in going_on)
        for seen in counted:
            self._tell(replace(seen.last, count=seen.untold))
        if going_on:
            self._start_timer()

    def _kind_of(self, record: AuditRecord) -> tuple[Kind, AuditRecord]:
        network = network_of(record.address)
        kind = (network, record.action, record.reason, record.tried)
        if kind in self._seen:
            return kind, record
        if self._of_network[network] >= KINDS_OF_ADDRESS_MAX:
            record = replace(record, reason=_OTHERS, tried=None)
            kind = (network, record.action, _OTHERS, None)
        if kind not in self._seen and len(self._seen) >= KINDS_MAX:
            record = replace(record, reason=_OTHERS, tried=None, address=_MANY)
            kind = (_MANY, record.action, _OTHERS, None)
        return kind, record

    def _start_timer(self) -> None:
        if self._timer is None:
            with contextlib.suppress(RuntimeError):  # the next refusal counts
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(PERIOD_S, self.tell_counts)
