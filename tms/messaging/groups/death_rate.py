"""The rate at which messages of a group become dead letters. A restart forgets it.

If the service behind a group is down, every message fails. Without a limit the whole topic would
become dead letters.
"""

from collections import deque

from tms.core.limits import MS_PER_S
from tms.core.values.group_settings import GroupSettings


class DeathRate:
    """The times of the last dead letters of a group."""

    def __init__(self) -> None:
        self._times_ms: deque[int] = deque()
        self.is_over = False
        """Whether the limit was reached; the group must be paused."""

    def take(self, settings: GroupSettings, now_ms: int) -> bool:
        """Count one more message; return False if that would exceed `dead_letters_max`."""
        times = self._times_ms
        while times and times[0] <= now_ms - settings.dead_letters_per_s * MS_PER_S:
            times.popleft()
        if len(times) >= settings.dead_letters_max:
            self.is_over = True
            return False
        times.append(now_ms)
        return True

    def reset(self) -> None:
        """Forget the count: an operator has looked at the group and resumed it."""
        self._times_ms.clear()
        self.is_over = False
