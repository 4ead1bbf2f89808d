"""Accepts each number of a sender once, with a sliding window as in IPsec. Pure.

A sender counts up. A number is accepted if it is above the highest one, or at most `WINDOW` below
it and new. So numbers may overtake each other, and the memory is bounded: one bit for each number
of a window, and `SENDERS_MAX` windows. The least recently used window is dropped for another
sender, once it was silent for `SILENCE_MS`; the caller must refuse older numbers by then. No window
is dropped just because time passes: after a clock is set back, its numbers would be accepted again.
"""

from collections import OrderedDict
from collections.abc import Callable

WINDOW = 65_536
SENDERS_MAX = 1_000
SILENCE_MS = 60_000


class _Window:
    """The numbers of one sender."""

    def __init__(self) -> None:
        self.at_ms = 0
        self._highest = -1
        self._taken = 0
        """Bit i: whether the highest less i was accepted."""

    def take(self, number: int) -> bool:
        """Accept a number; return whether it was new."""
        behind = self._highest - number
        if behind < 0:
            shifted = self._taken << -behind if -behind < WINDOW else 0
            self._taken = (shifted | 1) & _MASK
            self._highest = number
            return True
        if behind >= WINDOW or self._taken >> behind & 1:
            return False
        self._taken |= 1 << behind
        return True


_MASK = (1 << WINDOW) - 1


class Replays:
    """The numbers of all senders."""

    def __init__(self, steady_ms: Callable[[], int]) -> None:
        """Use a steady time in milliseconds."""
        self._steady_ms = steady_ms
        self._windows: OrderedDict[str, _Window] = OrderedDict()
        """The most recent sender is last."""

    def __len__(self) -> int:
        return len(self._windows)

    def take(self, sender: str, number: int) -> str | None:
        """Accept a number of a sender once. Return why it is refused; None if it was accepted."""
        now_ms = self._steady_ms()
        window = self._windows.get(sender)
        if window is None:
            if len(self._windows) >= SENDERS_MAX and not self._makes_way(now_ms):
                return f"more than {SENDERS_MAX} servers forwarded within {SILENCE_MS} ms"
            window = self._windows[sender] = _Window()
        if not window.take(number):
            return f"it was sent before, or {WINDOW} others overtook it"
        window.at_ms = now_ms
        self._windows.move_to_end(sender)
        return None

    def _makes_way(self, now_ms: int) -> bool:
        """Drop the least recent sender; return whether that was possible."""
        sender, window = next(iter(self._windows.items()))
        if now_ms - window.at_ms <= SILENCE_MS:
            return False
        del self._windows[sender]
        return True
