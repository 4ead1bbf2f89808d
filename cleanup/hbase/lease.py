"""The lease that lets one process at a time clean up a store, of all servers and `tms prune`.

It saves work: two processes would read and delete the same rows. Correctness does not depend on it,
because cleanup is idempotent, so clocks that differ cost only double work. A holder that dies, or
cannot renew the lease, loses it after a minute.

    row key := "lease:prune"                       in the Bound table
    value   := JSON {"owner": …, "until_ms": …}
"""

import json
import os
import secrets
import socket

from tables.store import BOUND, Store
from tms.core.runtime.clock import Clock

_KEY = b"lease:prune"
_DURATION_MS = 60_000
_RENEW_MS = 15_000


class CleanupLease:
    """The lease of one store, for one process."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._owner = f"{socket.gethostname()} process {os.getpid()} {secrets.token_hex(4)}"
        self._value: bytes | None = None
        """The value of the row while this process holds the lease."""
        self._renewed_ms = 0
        self.holder: str | None = None
        """The other holder at the last attempt, and the remaining time of its lease."""

    def take(self) -> bool:
        """Take the lease; return whether this process holds it. Raises `StoreUnavailable`."""
        self.holder = None
        value = self._store.get(BOUND, _KEY)
        recorded = {} if value is None else json.loads(value)
        left_ms = recorded.get("until_ms", 0) - self._clock.now_ms()
        if left_ms <= 0 and self._put(value):
            return True
        self.holder = (
            f"{recorded.get('owner', 'another')}, for {max(1, left_ms // 1000)} s at least"
        )
        return False

    def keep(self) -> bool:
        """Renew it if that is due; return whether it is still held. Raises `StoreUnavailable`."""
        if self._value is None:
            return False
        is_due = self._clock.steady_ms() - self._renewed_ms >= _RENEW_MS
        return not is_due or self._put(self._value)

    def _put(self, expected: bytes | None) -> bool:
        asked_ms = self._clock.steady_ms()
        until_ms = self._clock.now_ms() + _DURATION_MS
        value = json.dumps({"owner": self._owner, "until_ms": until_ms}).encode()
        is_held = self._store.compare_and_put(BOUND, _KEY, expected, value)
        self._value = value if is_held else None
        self._renewed_ms = asked_ms
        return is_held

    def release(self) -> None:
        """Release it at once. Raises `StoreUnavailable`."""
        value, self._value = self._value, None
        if value is not None:
            free = json.dumps({"owner": self._owner, "until_ms": 0}).encode()
            self._store.compare_and_put(BOUND, _KEY, value, free)
