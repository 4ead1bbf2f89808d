"""The sessions of the console: a cookie has a random id, by which the server finds a credential.

1. The credential stays in the server, and the door checks it at each request. So once it expires,
   is revoked, or its password changes, the cookie is worthless too.
2. Ids are stored as SHA-256, for `LIFE_S` at most. There are at most `SESSIONS_MAX` sessions, and
   `OWN_MAX` of one principal; a new one replaces the oldest, or the oldest of its principal.
"""

import hashlib
import secrets
from dataclasses import dataclass

from tms.core.runtime.clock import Clock

LIFE_S = 12 * 3600
SESSIONS_MAX = 1_024
OWN_MAX = 16


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A signed-in visitor."""

    authorization: bytes
    """The value of `Authorization` with the visitor's credential."""
    principal: str
    csrf: str
    """The token against forgery that each form carries."""
    ends_ms: int
    """When its credential ends, in ms since 1970."""
    steady_ends_ms: int
    """When it ends itself, by steady time."""


class BrowserSessions:
    """The sessions of one server. Used from the event loop's thread alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_digest: dict[bytes, BrowserSession] = {}

    def __len__(self) -> int:
        return len(self._by_digest)

    def begin(self, authorization: bytes, principal: str, ends_ms: int) -> str:
        """Start a session that ends at `ends_ms` at the latest, and return its id."""
        session_id = secrets.token_urlsafe(32)
        own = [digest for digest, of in self._by_digest.items() if of.principal == principal]
        if len(own) >= OWN_MAX:
            del self._by_digest[own[0]]
        elif len(self._by_digest) >= SESSIONS_MAX:
            del self._by_digest[next(iter(self._by_digest))]
        csrf = secrets.token_urlsafe(24)
        steady_ends_ms = self._clock.steady_ms() + LIFE_S * 1000
        session = BrowserSession(authorization, principal, csrf, ends_ms, steady_ends_ms)
        self._by_digest[_digest(session_id)] = session
        return session_id

    def find(self, session_id: str) -> BrowserSession | None:
        """Return the session of an id, or None if it has ended."""
        session = self._by_digest.get(_digest(session_id))
        clock = self._clock
        if session is not None and (
            session.ends_ms <= clock.keys_ms() or session.steady_ends_ms <= clock.steady_ms()
        ):
            self.end(session_id)
            return None
        return session

    def end(self, session_id: str) -> None:
        """End a session, if it exists."""
        self._by_digest.pop(_digest(session_id), None)


def _digest(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode()).digest()
