"""Finishes a write that failed: a thread repeats it, before any other write is accepted.

Its outcome is unknown: a first part may be written, and the rest may still arrive. So the rest is
kept, and writes are refused while the thread repeats it, until HBase has accepted it. The write has
then succeeded. If HBase refuses a step for good (a row that is too large), the steps after it are
given up too, because later rows rely on earlier ones.
"""

import logging
from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread

from tables.hbase.connections import CallFailed, Refused
from tms.core.errors import OutcomeUnknown, StoreUnavailable, TmsError

_EVERY_S = 0.5

_log = logging.getLogger(__name__)

Step = Callable[[], object]
"""Carries out a part of a write. Raises `CallFailed`, `Refused`."""


class FailedWrites:
    """The failed writes of one store, for many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._remaining: list[list[Step]] = []
        """The steps of each write."""
        self._failure: str | None = None
        self._stop = Event()
        self.failures = 0
        """The number of writes that have failed so far."""

    @property
    def is_finished(self) -> bool:
        """Whether no failed write remains to be finished."""
        return self._failure is None

    def check(self) -> None:
        """Raise `StoreUnavailable` while a failed write is not finished."""
        if self._failure is not None:
            raise StoreUnavailable(reason=self._failure)

    def add(self, reason: str, remaining: Sequence[Step]) -> None:
        """Refuse writes until the `remaining` steps of a failed one are carried out.

        The last one is a check, which is made even if HBase refuses a step for good.
        """
        with self._lock:
            self._remaining.append(list(remaining))
            self.failures += 1
            is_first = self._failure is None
            self._failure = reason
        if is_first:
            _log.error("a write failed; writes are refused until HBase accepts it: %s", reason)
            Thread(target=self._finish, name="hbase-finish", daemon=True).start()

    def _finish(self) -> None:
        """Repeat the remaining steps until they are done; runs in a thread of its own."""
        pause_s: float = _EVERY_S
        while not self._stop.wait(pause_s):
            with self._lock:
                if not self._remaining:
                    self._failure = None
                    _log.warning("HBase has accepted the failed write; writes continue")
                    return
                steps = self._remaining[0]
            try:
                steps[0]()
            except CallFailed as failure:
                self._failure, pause_s = str(failure), _EVERY_S
                continue
            except Refused as refusal:
                _log.error("HBase refuses the failed write permanently: %s", refusal)
                del steps[1:-1]
            del steps[0]
            if not steps:
                del self._remaining[0]
            pause_s = 0

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()


def refused_write(refusal: Refused, table: str, *, is_begun: bool) -> TmsError:
    """Return the error for a write that HBase refuses for good."""
    error = OutcomeUnknown if is_begun else StoreUnavailable
    return error(refused=str(refusal), table=table)
