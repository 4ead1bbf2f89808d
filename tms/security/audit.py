"""The audit of refusals, changes and first uses: one line of JSON for each.

1. Denials to authenticated callers, and each `manage`, `operate`, `grant` and `transact-any`, are
   always recorded; so are operations that cannot be undone, such as a seek of a group. The first
   refusal of a stranger is recorded at once, later ones are counted (`audit_refusals.py`). Anything
   else is recorded the first time in a minute that a principal does it to a resource.
2. Requests never wait for the audit: lines wait in bounded queues until they are written. If a
   queue is full, the line is lost; losses are counted, and logged once a minute.
3. A line has no credentials, and is ASCII, so no name in it can end it (`audit_record.py`).
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
"""The action for callers that could not be authenticated."""
ALWAYS = frozenset((Action.MANAGE, Action.OPERATE, Action.GRANT, Action.TRANSACT_ANY))
USES_MAX = 10_000
"""How many first uses of a minute are remembered; beyond it, some are recorded again."""
QUEUE_MAX = 10_000
"""How many lines may wait to be written."""
_KEPT_CHARS_MAX = 512
"""The characters of a resource that identify its first use; no valid name is longer."""
_MINUTE_MS = 60 * MS_PER_S

_log = logging.getLogger(__name__)


class Drops:
    """Counts lost lines. Used from any thread."""

    def __init__(self, clock: Clock) -> None:
        self.count = 0
        self._clock = clock
        self._told_ms: int | None = None
        self._turn = threading.Lock()

    def add(self, lines: int, reason: str) -> None:
        """Add to the count, and log it unless that was done within a minute."""
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
        """Write the accepted lines within a bounded time, and accept no more."""
        ...


class Audit:
    """Decides what is recorded, and passes it on. Used only from the event loop's thread."""

    def __init__(self, destinations: Sequence[Destination], clock: Clock, drops: Drops) -> None:
        """Write to all `destinations`, which `close` closes; they count lost lines in `drops`."""
        self._destinations = destinations
        self._clock = clock
        self._drops = drops
        self._minute = -1
        self._uses: set[tuple[str | None, str, str]] = set()
        self._refusals = Refusals(self.add, clock)

    @property
    def dropped(self) -> int:
        """How many lines were lost at all destinations."""
        return self._drops.count

    def is_wanted(self, principal: str | None, action: str, resource: str, effect: Effect) -> bool:
        """Whether to `add` a record of this; for a first use, False for the rest of the minute."""
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
        """Write a record, whether or not it is due."""
        line = record.line()
        for destination in self._destinations:
            destination.put(line)

    def refuse(self, record: AuditRecord) -> None:
        """Record the refusal of a stranger, or count it if one was recorded recently."""
        self._refusals.add(record)

    def note(self, record: AuditRecord) -> None:
        """Write a record if it is due."""
        if self.is_wanted(record.principal, record.action, record.resource, record.effect):
            self.add(record)

    async def close(self) -> None:
        """Write all accepted lines, within a bounded time."""
        self._refusals.tell_counts()
        for destination in self._destinations:
            await destination.close()
