"""Tells what strangers were refused: the first of each kind at once, then how many, once a minute.

A kind is an address, an action, a reason and the principal that was tried. Strangers choose these,
so what is kept of them is bounded: of one address `KINDS_OF_ADDRESS_MAX` kinds, and its others are
one more; of all addresses `KINDS_MAX`, and all others are one more. So strangers fill no disk.
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
    """One kind, since its first refusal was told."""

    last: AuditRecord
    untold: int = 0


class Refusals:
    """Counts refusals by their kind. Used from the event loop's thread alone."""

    def __init__(self, tell: Callable[[AuditRecord], None], clock: Clock) -> None:
        """Hand on to `tell` what is to be told now."""
        self._tell = tell
        self._clock = clock
        self._seen: dict[Kind, _Seen] = {}
        self._of_network: Counter[str] = Counter()
        self._began_ms = clock.steady_ms()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, record: AuditRecord) -> None:
        """Take a refusal."""
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
        """Tell how many of each kind came since it was told last; forget those that came no more.

        The next count tells of a kind that goes on.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._began_ms = self._clock.steady_ms()
        going_on = {kind: _Seen(seen.last) for kind, seen in self._seen.items() if seen.untold}
        told = [seen for seen in self._seen.values() if seen.untold]
        self._seen = going_on
        self._of_network = Counter(kind[0] for kind in going_on)
        for seen in told:
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
            with contextlib.suppress(RuntimeError):  # without a loop, the next refusal tells
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(PERIOD_S, self.tell_counts)
