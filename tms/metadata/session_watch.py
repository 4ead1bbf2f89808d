"""The state of a session with a server, and the events for its observers. Pure.

| what happens | reported |
| --- | --- |
| the connection breaks | CONNECTION_LOST |
| silence for 5/6 of the session timeout | CONNECTION_LOST if not reported yet, SESSION_LOST |
| the server says that the session has ended | the same |
| the server answers again | RECONNECTED, and SESSION_REESTABLISHED if SESSION_LOST was reported |

Silence counts from the sending of the last answered request, because the server cannot have begun
to count earlier. So a session counts as lost here before the server releases what it held.
"""

from tms.metadata.interface import SessionEvent

LOST_SHARE = 5 / 6
"""The share of the session timeout after which a silent session counts as lost."""
LOOKS = 15
"""How often silence is checked within a session timeout."""


class SessionWatch:
    """The state of one session. Each method returns the events to report, in order."""

    def __init__(self, timeout_ms: float, now_ms: float) -> None:
        """Watch a session that has just been created."""
        self.timeout_ms = timeout_ms
        self._heard_ms = now_ms
        self._is_linked = True
        self._is_lost = False
        self.is_connected = True

    def silent_ms(self, now_ms: float) -> int:
        """Return the time since the last answer, in ms."""
        return max(0, int(now_ms - self._heard_ms))

    def heard(self, sent_ms: float, now_ms: float) -> list[SessionEvent]:
        """Record that a request sent at `sent_ms` was answered, in the session."""
        self._heard_ms = max(self._heard_ms, sent_ms)
        if self.is_connected or not self._is_linked or self._is_silent(now_ms):
            return []
        self.is_connected = True
        events = [SessionEvent.RECONNECTED]
        if self._is_lost:
            self._is_lost = False
            events.append(SessionEvent.SESSION_REESTABLISHED)
        return events

    def linked(self, sent_ms: float, now_ms: float) -> list[SessionEvent]:
        """Record that there is a connection, on which changes are reported from now on."""
        self._is_linked = True
        return self.heard(sent_ms, now_ms)

    def broken(self) -> list[SessionEvent]:
        """Record that there is no connection."""
        self._is_linked = False
        return self._disconnected()

    def expired(self) -> list[SessionEvent]:
        """Record that the server has ended the session."""
        return self.broken() + self._lost()

    def look(self, now_ms: float) -> list[SessionEvent]:
        """Record that it is `now_ms`."""
        return self._disconnected() + self._lost() if self._is_silent(now_ms) else []

    def _is_silent(self, now_ms: float) -> bool:
        return now_ms - self._heard_ms >= LOST_SHARE * self.timeout_ms

    def _disconnected(self) -> list[SessionEvent]:
        was_connected, self.is_connected = self.is_connected, False
        return [SessionEvent.CONNECTION_LOST] if was_connected else []

    def _lost(self) -> list[SessionEvent]:
        was_lost, self._is_lost = self._is_lost, True
        return [] if was_lost else [SessionEvent.SESSION_LOST]
