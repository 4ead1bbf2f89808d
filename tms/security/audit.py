"""The audit of refusals, changes and first uses: one line of JSON for each.

1. Denials to authenticated callers, and each `manage`, `operate`, `grant` and `transact-any`, are
   always recorded; so are operations that drop what nobody can bring back, such as a seek of a
   group. The first refusal of a stranger is told at once, later ones are counted
   (`audit_refusals.py`). All else is told as a principal does it to a resource for the first time
   in a minute.
2. Requests never wait for the audit: lines wait in bounded queues until they are written. A line
   without room is lost; losses are counted, and logged once a minute.
3. A line has no credentials, and is ASCII: no name in it can end it (`audit_record.py`).
"""

import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from tms.core.limits import MS_PER_S
from tms.core.runtime.clock import Clock
from tms.security.audit_record import AuditRecord
from tms.security.audit_refusals import Refusals
from tms.security.resources import Action
from tms.security.rules import Effect

AUTHENTICATE = "authenticate"
"""The action of who could not be authenticated."""
ALWAYS = frozenset((Action.MANAGE, Action.OPERATE, Action.GRANT, Action.TRANSACT_ANY))
USES_MAX = 10_000
"""First uses of one minute that are remembered; then some are told again."""
QUEUE_MAX = 10_000
"""Lines that wait to be written."""
_KEPT_CHARS_MAX = 512
"""The characters of a resource by which its first use is known: no valid name is longer."""
_MINUTE_MS = 60 * MS_PER_S

_log = logging.getLogger(__name__)


class Drops:
    """Counts lines that were lost. Used from any thread."""

    def __init__(self, clock: Clock) -> None:
        self.count = 0
        self._clock = clock
        self._told_ms: int | None = None
        self._turn = threading.Lock()

    def add(self, lines: int, reason: str) -> None:
        """Count so many, and tell it unless that was told within a minute."""
        now_ms = self._clock.steady_ms()
        with self._turn:
            self.count += lines
            if self._told_ms is not None and now_ms - self._told_ms < _MINUTE_MS:
                return
            self._told_ms = now_ms
            _log.warning("lost %d lines of the audit so far: %s", self.count, reason)


class Destination(Protocol):
    """Takes lines and writes them later."""

    def put(self, line: bytes) -> None:
        """Take a line, or count it as lost; never wait."""
        ...

    async def close(self) -> None:
        """Write what was taken, within a bounded time, and take no more."""
        ...


class Audit:
    """Decides what is told, and hands it on. Used from the event loop's thread alone."""

    def __init__(self, destinations: Sequence[Destination], clock: Clock, drops: Drops) -> None:
        """Tell all `destinations`, which `close` closes; they count in `drops` what they lose."""
        self._destinations = destinations
        self._clock = clock
        self._drops = drops
        self._minute = -1
        self._uses: set[tuple[str | None, str, str]] = set()
        self._refusals = Refusals(self.add, clock)

    @property
    def dropped(self) -> int:
        """How many lines were lost, at all destinations together."""
        return self._drops.count

    def is_wanted(self, principal: str | None, action: str, resource: str, effect: Effect) -> bool:
        """Whether to `add` a record of this; if it is a first use, not again in this minute."""
        if effect is Effect.DENY or action in ALWAYS:
            return True
        minute = self._clock.now_ms() // _MINUTE_MS
        if minute != self._minute or len(self._uses) >= USES_MAX:
            self._minute = minute
            self._uses.clear()
        use = (principal, action, resource[:_KEPT_CHARS_MAX])
        if use in self._uses:
            return False
        self._uses.add(use)
        return True

    def add(self, record: AuditRecord) -> None:
        """Tell a record, be it wanted or not."""
        line = record.line()
        for destination in self._destinations:
            destination.put(line)

    def refuse(self, record: AuditRecord) -> None:
        """Tell what a stranger was refused, or count it if that was told of late."""
        self._refusals.add(record)

    def note(self, record: AuditRecord) -> None:
        """Tell a record if it is wanted."""
        if self.is_wanted(record.principal, record.action, record.resource, record.effect):
            self.add(record)

    async def close(self) -> None:
        """Have everything written, within a bounded time."""
        self._refusals.tell_counts()
        for destination in self._destinations:
            await destination.close()
