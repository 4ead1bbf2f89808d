"""Who is signed in to the console: a cookie's random id stands for the credential that was given.

1. The credential stays here, and the door is given it with each request of a page. So whatever ends
   it (its time, a revocation, a changed password) ends what the cookie can do, too.
2. An id is kept by its SHA-256, for `LIFE_S` at most. At most `SESSIONS_MAX` are kept, and
   `OWN_MAX` of a principal: of too many the oldest goes, of a principal's the oldest of its own.
3. After `FAILURES_MAX` failed attempts within a minute from an address, or with a name, the next
   ones are refused.
"""

import hashlib
import secrets
from collections import deque
from dataclasses import dataclass

from tms.core.clock import Clock
from tms.core.errors import RateExceeded

LIFE_S = 12 * 3600
SESSIONS_MAX = 1_024
OWN_MAX = 16
FAILURES_MAX = 10
_MINUTE_MS = 60_000
_SOURCES_MAX = 4_096


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """Somebody who is signed in."""

    authorization: bytes
    """The value of Authorization that stands for them."""
    principal: str
    csrf: str
    """The token that each form of theirs carries."""
    ends_ms: int


class BrowserSessions:
    """The sessions of one server. Used from the event loop's thread alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_digest: dict[bytes, BrowserSession] = {}
        self._failures: dict[str, deque[int]] = {}

    def begin(self, authorization: bytes, principal: str, ends_ms: int) -> str:
        """Return the id of a new session, which ends at `ends_ms` at the latest."""
        session_id = secrets.token_urlsafe(32)
        ends_ms = min(ends_ms, self._clock.keys_ms() + LIFE_S * 1000)
        own = [digest for digest, of in self._by_digest.items() if of.principal == principal]
        if len(own) >= OWN_MAX:
            del self._by_digest[own[0]]
        elif len(self._by_digest) >= SESSIONS_MAX:
            del self._by_digest[next(iter(self._by_digest))]
        csrf = secrets.token_urlsafe(24)
        session = BrowserSession(authorization, principal, csrf, ends_ms)
        self._by_digest[_digest(session_id)] = session
        return session_id

    def find(self, session_id: str) -> BrowserSession | None:
        """Return the session of an id, None if it has ended."""
        session = self._by_digest.get(_digest(session_id))
        if session is not None and session.ends_ms <= self._clock.keys_ms():
            self.end(session_id)
            return None
        return session

    def end(self, session_id: str) -> None:
        """End a session, if there is one."""
        self._by_digest.pop(_digest(session_id), None)

    def check_attempt(self, source: str) -> None:
        """Raise `RateExceeded` if too many attempts from an address, or with a name, failed."""
        failures = self._failures.get(source)
        if failures is None:
            return
        now_ms = self._clock.keys_ms()
        while failures and failures[0] <= now_ms - _MINUTE_MS:
            failures.popleft()
        if len(failures) >= FAILURES_MAX:
            left_s = 1 + (failures[0] + _MINUTE_MS - now_ms) // 1000
            raise RateExceeded("principal_rate_exceeded", setting="sign-ins", retry_after_s=left_s)

    def failed(self, source: str) -> None:
        """Take note of a failed attempt from an address, or with a name."""
        failures = self._failures.pop(source, None) or deque(maxlen=FAILURES_MAX)
        failures.append(self._clock.keys_ms())
        self._failures[source] = failures
        if len(self._failures) > _SOURCES_MAX:
            del self._failures[next(iter(self._failures))]


def _digest(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode()).digest()
