"""A clock that does not believe a step of the machine's wall clock at once.

While a step is in doubt there are two candidates: the wall clock, and the trusted time, which
continues by steady time. The doubt ends when the wall clock returns, when it has been stable for
long enough, or when an operator accepts it. A start is not a step: see `start_after`. Any thread
may call it.
"""

import logging
import math
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from tms.core.errors import ClockMoved
from tms.core.limits import MS_PER_S, Limits
from tms.core.runtime.clock import Clock, SystemClock

_DAY_MS = 86_400_000
_NS_PER_MS = 1_000_000
_JITTER_MS = 20
"""Smaller differences between the wall clock and steady time are ignored."""
_SET_WITHIN_MS = 600_000
"""A machine without a battery, which restores the time from a file, sets the wall clock this soon
after its start. Steady time counts from the start.
"""
_READ_TOGETHER_MS = 1_000
"""Two clocks must be read within this steady time to be compared."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockState:
    """The state of a clock."""

    wall_ms: int
    """The time of the machine's clock, in milliseconds since 1970."""
    trusted_ms: int
    """The server's time, in milliseconds since 1970."""
    step_s: int
    """How far the machine's clock is ahead of it, in doubt; 0 unless a step is in doubt."""
    in_doubt_s: int | None
    """How long it has been in doubt; None if it is not."""
    ends_in_s: int | None
    """When the server accepts the machine's clock unless it is set again; None if not in doubt."""
    held: tuple[str, ...]
    """The paused rules: "expiry" and "tombstones", or only "deletion" after a start."""


class _Doubt(NamedTuple):
    offset_ms: int
    """The offset of the wall clock to steady time at its last step."""
    since_ms: int
    """The steady time of that step."""
    began_ms: int
    """The steady time of its first step."""


class _Wait(NamedTuple):
    """The wait of deletions after a start: until when, and which time they use until then."""

    until_ms: int
    """In steady time."""
    began_ms: int
    offset_ms: int


class TrustedClock(Clock):
    """A clock that does not believe a step of the wall clock at once."""

    def __init__(
        self, source: Clock | None = None, *, step_s_max: float = 60, hold_s: float = 3_600
    ) -> None:
        """Begin with the time of `source`, by default the machine's.

        A difference of at most `step_s_max` seconds is followed at once, a larger one after it has
        lasted for `hold_s`; 0 means at once.
        """
        self._source = source or SystemClock()
        self._wall_ns, self._steady_ns = self._source.readers()
        self._step_ms = int(step_s_max * MS_PER_S)
        self._hold_ms = int(hold_s * MS_PER_S)
        self._lock = Lock()
        self._offset_ms = self._source.now_ms() - self._source.steady_ms()
        """The offset of the trusted time to steady time."""
        self._doubt: _Doubt | None = None
        self._unset_until_ms: float = -math.inf
        """Until this steady time, a forward step of the wall clock counts as the first setting
        after a start.
        """
        self._is_told = False
        """Whether an earlier server, or the leader, supplied the time."""
        self._wait: _Wait | None = None
        self._set_calm()
        self._floor_ms = 0
        self.deleted_ms = 0
        self.beliefs = 0
        """How many steps were accepted since the process started."""
        self.steps = 0
        """How often the wall clock stepped since the process started."""

    # The times that rules use.

    # Each flush calls the first two. While the wall clock runs evenly they are equal,
    # which is detected here. No step is used before it was detected.

    def now_ms(self) -> int:
        """Return the trusted time."""
        wall_ns = self._wall_ns()
        if self._calm_from_ns <= wall_ns - self._steady_ns() <= self._calm_to_ns:
            return wall_ns // _NS_PER_MS
        return self.candidates()[0]

    def keys_ms(self) -> int:
        """Return the later of the trusted time and the wall's, not below the floor of keys."""
        wall_ns = self._wall_ns()
        if self._calm_from_ns <= wall_ns - self._steady_ns() <= self._calm_to_ns:
            return max(wall_ns // _NS_PER_MS, self._floor_ms)
        return max(*self.candidates(), self._floor_ms)

    def expiry_ms(self) -> int:
        """Return the earlier of the trusted time and the wall clock's."""
        # Each poll calls it. The trusted time advances, so a wall clock that is not ahead of its
        # earlier value, by more than is followed at once, is the earlier one, however it was set.
        wall_ns = self._wall_ns()
        if wall_ns < self._not_ahead_ns:
            return wall_ns // _NS_PER_MS
        return min(self.candidates())

    def candidates(self) -> tuple[int, int]:
        """Return the trusted time and the wall clock's."""
        with self._lock:
            step = self._follow()
            self._not_ahead_ns = (step[0] + max(self._step_ms, _JITTER_MS)) * _NS_PER_MS
            return step

    def steady_ms(self) -> int:
        """Return the source's steady time."""
        return self._source.steady_ms()

    def standstill_ms(self) -> int:
        """Return steady time, if the source runs by itself."""
        return self._source.standstill_ms()

    def deletion_ms(self) -> int:
        """Return the time up to which things may be deleted, and remember it."""
        expiry_ms = self.expiry_ms()
        with self._lock:
            wait, steady_ms = self._wait, self._source.steady_ms()
            if wait is not None and steady_ms < wait.until_ms:
                expiry_ms = min(expiry_ms, steady_ms + wait.offset_ms)
            else:
                self._wait = None
            self.deleted_ms = max(self.deleted_ms, expiry_ms)
        return expiry_ms

    @property
    def boot_id(self) -> str:
        """Identifies the boot since which steady time counts."""
        return self._source.boot_id

    # How the trusted time follows the wall.

    def _follow(self) -> tuple[int, int]:
        """Read the wall clock, and return the trusted time and the wall clock's."""
        wall_ms, steady_ms = self._together()
        offset_ms, doubt = wall_ms - steady_ms, self._doubt
        if abs(offset_ms - self._offset_ms) <= self._step_ms:
            self._believe(offset_ms)
            if doubt is not None:
                _log.warning("the clock is right again; the server follows it from now on")
                self._unset_until_ms = -math.inf
            return wall_ms, wall_ms
        if steady_ms < self._unset_until_ms and offset_ms > self._offset_ms:
            level = logging.INFO if doubt is None else logging.WARNING
            _log.log(level, "the clock was set; the server follows it from now on")
            self._wait_to_delete(steady_ms, offset_ms - self._offset_ms)
            self._believe(offset_ms)
            return wall_ms, wall_ms
        if doubt is None or abs(offset_ms - doubt.offset_ms) > self._step_ms:
            self.steps += 1
            began_ms = steady_ms if doubt is None else doubt.began_ms
            self._doubt = _Doubt(offset_ms, steady_ms, began_ms)
            self._set_calm()
            if doubt is None and self._hold_ms:
                self._warn_of_step(offset_ms - self._offset_ms)
            doubt = self._doubt
        if steady_ms - doubt.since_ms >= self._hold_ms:
            _log.warning(
                "the clock stepped by %d s; the server follows it from now on",
                (offset_ms - self._offset_ms) // MS_PER_S,
            )
            self._believe(offset_ms)
            return wall_ms, wall_ms
        return steady_ms + self._offset_ms, wall_ms

    def _warn_of_step(self, by_ms: int) -> None:
        _log.warning(
            "the clock stepped by %d s. Nothing expires because of the step until the clock has "
            "been stable for %d s; see `tms clock`. If the clock is right: tms clock accept "
            "--step-s %d",
            by_ms // MS_PER_S,
            self._hold_ms // MS_PER_S,
            by_ms // MS_PER_S,
        )

    def _together(self) -> tuple[int, int]:
        """Return the wall clock's time and steady time as of one moment.

        A process may be stopped between the two reads, which would look like a step.
        """
        for _ in range(10):
            before_ms = self._source.steady_ms()
            wall_ms = self._source.now_ms()
            steady_ms = self._source.steady_ms()
            if steady_ms - before_ms <= _READ_TOGETHER_MS:
                break
        return wall_ms, steady_ms

    def _believe(self, offset_ms: int) -> None:
        if abs(offset_ms - self._offset_ms) > self._step_ms:
            self.beliefs += 1
            self._unset_until_ms = -math.inf
        self._offset_ms, self._doubt = offset_ms, None
        self._set_calm()

    def _set_calm(self) -> None:
        """Set which offsets of the wall clock need no attention; none while a step is in doubt.

        The trusted time may have changed, so the wall clock is unknown until `candidates`.
        """
        self._not_ahead_ns = 0
        offset_ns = self._offset_ms * _NS_PER_MS
        around_ns = -1 if self._doubt is not None else _JITTER_MS * _NS_PER_MS
        self._calm_from_ns, self._calm_to_ns = offset_ns - around_ns, offset_ns + around_ns

    # How it continues, and what others tell it.

    def go_on_from(self, trusted_ms: int) -> None:
        """Continue from a trusted time of an earlier server or of the leader.

        A wall clock with any other time has stepped.
        """
        with self._lock:
            self._is_told, self._unset_until_ms = True, -math.inf
            offset_ms = trusted_ms - self._source.steady_ms()
            if self._hold_ms and abs(offset_ms - self._offset_ms) > self._step_ms:
                self._believe(offset_ms)
                self._follow()

    def start_after(
        self, trusted_ms: int, boot_id: str, steady_ms: int, behind_ms: int = 0
    ) -> None:
        """Continue after a stop at `trusted_ms` and `steady_ms`, in the boot of that id.

        Deletions were `behind_ms` behind that time. If they waited, they wait again.

        In the same boot the trusted time continues exactly, however long the stop was. In another
        boot, a wall clock that is behind is in doubt, because most likely it was not set yet. One
        that is ahead, or becomes so when it is set, is believed, because a stop is the usual
        reason; only deletion waits if it is far ahead. One that shows the time of the last stop may
        come from a file, and be set soon after the machine's start, unless an earlier leader
        supplied the time.
        """
        if boot_id and boot_id == self.boot_id:
            self.go_on_from(trusted_ms + self._source.steady_ms() - steady_ms)
            self._wait_to_delete(self._source.steady_ms(), behind_ms)
            return
        ahead_ms = self.now_ms() - trusted_ms
        if ahead_ms < -self._step_ms:
            self.go_on_from(trusted_ms)
            self._unset_until_ms = math.inf
            return
        if ahead_ms <= self._step_ms and not self._is_told:
            self._unset_until_ms = _SET_WITHIN_MS
        self._wait_to_delete(self._source.steady_ms(), max(0, ahead_ms) + behind_ms)

    def _wait_to_delete(self, steady_ms: int, ahead_ms: int) -> None:
        """Make deletion wait if the wall clock is far ahead of the time at the last stop."""
        if ahead_ms > _DAY_MS and self._hold_ms:
            before_ms = self._source.now_ms() - ahead_ms - steady_ms
            self._wait = _Wait(steady_ms + self._hold_ms, steady_ms, before_ms)
            _log.info("the clock is %d s ahead of the last stop", ahead_ms // MS_PER_S)

    def keep_keys_from(self, floor_ms: int) -> None:
        """Return no time for keys before `floor_ms`, whatever the clock does."""
        self._floor_ms = max(self._floor_ms, floor_ms)

    def may_be_deleted(self, expiry_ms: int) -> None:
        """Record that others may delete as of a time."""
        with self._lock:
            self.deleted_ms = max(self.deleted_ms, expiry_ms)

    def state(self) -> ClockState:
        """Return the state of the clock."""
        trusted_ms, wall_ms = self.candidates()
        steady_ms, doubt, wait = self._source.steady_ms(), self._doubt, self._wait
        step_ms, began_ms, until_ms = 0, None, None
        held: tuple[str, ...] = ()
        if doubt is not None:
            step_ms, began_ms = wall_ms - trusted_ms, doubt.began_ms
            until_ms, held = doubt.since_ms + self._hold_ms, ("expiry", "tombstones")
        elif wait is not None and steady_ms < wait.until_ms:
            step_ms, began_ms = wall_ms - steady_ms - wait.offset_ms, wait.began_ms
            until_ms, held = wait.until_ms, ("deletion",)
        return ClockState(
            wall_ms=wall_ms,
            trusted_ms=trusted_ms,
            step_s=round(step_ms / MS_PER_S),
            in_doubt_s=None if began_ms is None else (steady_ms - began_ms) // MS_PER_S,
            ends_in_s=None if until_ms is None else max(0, until_ms - steady_ms) // MS_PER_S,
            held=held,
        )

    def accept(self, step_s: int) -> ClockState:
        """Accept the wall clock, whose step is said to be `step_s`, and return the state then.

        Raises `ClockMoved` if the step is now another one, or there is none.
        """
        state = self.state()
        is_same = abs(state.step_s - step_s) * MS_PER_S <= self._step_ms
        if state.in_doubt_s is None or not is_same:
            raise ClockMoved(step_s=state.step_s, told_s=step_s)
        with self._lock:
            wall_ms, steady_ms = self._together()
            self._believe(wall_ms - steady_ms)
            self._wait = None
        _log.warning("a superuser accepted the clock; the server follows it from now on")
        return self.state()


def trusted(clock: Clock | None, limits: Limits) -> TrustedClock:
    """Return a clock on `clock` that does not believe a step at once, or `clock` if it is one."""
    if isinstance(clock, TrustedClock):
        return clock
    return TrustedClock(clock, step_s_max=limits.clock_step_s_max, hold_s=limits.clock_hold_s)
