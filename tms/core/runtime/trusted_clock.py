"""A clock that does not believe a step of the machine's wall clock at once.

While a step is in doubt there are two candidates: the wall, and the trusted time, which goes on by
steady time. The doubt ends when the wall comes back, when it has stayed as it is for long enough,
or when somebody says that it is right. A start is not a step: see `start_after`. Any thread may
ask.
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
"""By how much the wall may go otherwise than steady time before that is taken note of."""
_SET_WITHIN_MS = 600_000
"""How soon after its start a machine sets the wall, if it has no battery but a file with a time.
Steady time counts from then."""
_READ_TOGETHER_MS = 1_000
"""Within how much steady time two clocks must be read to be compared."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockState:
    """The state of a clock."""

    wall_ms: int
    """The time of the machine's clock, in milliseconds since 1970."""
    trusted_ms: int
    """The server's time, in milliseconds since 1970."""
    step_s: int
    """By how much the machine's clock is ahead of that, in doubt; 0 if nothing is in doubt."""
    in_doubt_s: int | None
    """For how long it has been in doubt; None if it is not."""
    ends_in_s: int | None
    """When the server believes the machine's clock if it is not set again; None without a doubt."""
    held: tuple[str, ...]
    """The paused rules: "expiry" and "tombstones", or only "deletion" after a start."""


class _Doubt(NamedTuple):
    offset_ms: int
    """The offset of the wall clock at its last step to steady time."""
    since_ms: int
    """When it did, in steady time."""
    began_ms: int
    """When it stepped first, in steady time."""


class _Wait(NamedTuple):
    """Deletion after a start: until when it waits, and by which time it goes till then."""

    until_ms: int
    """In steady time."""
    began_ms: int
    offset_ms: int


class TrustedClock(Clock):
    """A clock that does not believe a step of the wall at once."""

    def __init__(
        self, source: Clock | None = None, *, step_s_max: float = 60, hold_s: float = 3_600
    ) -> None:
        """Begin with the time of `source`, by default the machine's.

        A difference of at most `step_s_max` seconds is followed at once, a larger one when it has
        stayed for `hold_s`. 0: at once.
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
        """Until when a wall that steps ahead is taken to be set for the first time since a start,
        in steady time."""
        self._is_told = False
        """Whether the server before, or the leader, told the time."""
        self._wait: _Wait | None = None
        self._set_calm()
        self._floor_ms = 0
        self.deleted_ms = 0
        self.beliefs = 0
        """How often a step was believed, since the process began."""
        self.steps = 0
        """How often the wall stepped, since the process began."""

    # What each rule asks.

    # The first two are asked for each flush. As long as the wall goes evenly they are the same,
    # which is seen here. No step is used before it is seen.

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
        """Return the earlier of the trusted time and the wall's."""
        # Asked for each poll. The trusted time goes on, so a wall that is not ahead of what that
        # was, by more than is followed at once, is the earlier one, whatever it was set to.
        wall_ns = self._wall_ns()
        if wall_ns < self._not_ahead_ns:
            return wall_ns // _NS_PER_MS
        return min(self.candidates())

    def candidates(self) -> tuple[int, int]:
        """Return the trusted time and the wall's."""
        with self._lock:
            found = self._follow()
            self._not_ahead_ns = (found[0] + max(self._step_ms, _JITTER_MS)) * _NS_PER_MS
            return found

    def steady_ms(self) -> int:
        """Return the source's steady time."""
        return self._source.steady_ms()

    def standstill_ms(self) -> int:
        """Return steady time, if the source goes by itself."""
        return self._source.standstill_ms()

    def deletion_ms(self) -> int:
        """Return the time by which things may be deleted, and remember it."""
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
        """Since which boot of which machine steady time counts."""
        return self._source.boot_id

    # How the trusted time follows the wall.

    def _follow(self) -> tuple[int, int]:
        """Look at the wall, and return the trusted time and the wall's."""
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
        """Return the wall's time and steady time as of one moment.

        A process may be stopped between both, which would look like a step.
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
        """Note which offsets of the wall to steady time are nothing to look at; in doubt: none.

        The trusted time may be another one now, so of the wall nothing is known until `candidates`.
        """
        self._not_ahead_ns = 0
        offset_ns = self._offset_ms * _NS_PER_MS
        around_ns = -1 if self._doubt is not None else _JITTER_MS * _NS_PER_MS
        self._calm_from_ns, self._calm_to_ns = offset_ns - around_ns, offset_ns + around_ns

    # Where it goes on, and what it is told.

    def go_on_from(self, trusted_ms: int) -> None:
        """Go on from a time that was trusted before: by the server before, or by the leader.

        Any other time of the wall clock is a step.
        """
        with self._lock:
            self._is_told, self._unset_until_ms = True, -math.inf
            offset_ms = trusted_ms - self._source.steady_ms()
            if self._hold_ms and abs(offset_ms - self._offset_ms) > self._step_ms:
                self._believe(offset_ms)
                self._follow()

    def start_after(self, trusted_ms: int, boot_id: str, steady_ms: int) -> None:
        """Go on after a stop: then it was `trusted_ms`, and `steady_ms` in the boot of that id.

        In the same boot the trusted time goes on exactly, however long the stop was. In another, a
        wall that is behind is in doubt: most likely nobody has set it yet. One that is ahead, or
        is so when it is set, is believed, because a stop is the usual reason; only, deletion waits
        if it is far ahead. One that is where the last stop was may be so by a file, and be set
        soon after the machine's start, unless a leader before told the time.
        """
        if boot_id and boot_id == self.boot_id:
            self.go_on_from(trusted_ms + self._source.steady_ms() - steady_ms)
            return
        ahead_ms = self.now_ms() - trusted_ms
        if ahead_ms < -self._step_ms:
            self.go_on_from(trusted_ms)
            self._unset_until_ms = math.inf
        elif ahead_ms <= self._step_ms:
            if not self._is_told:
                self._unset_until_ms = _SET_WITHIN_MS
        else:
            self._wait_to_delete(self._source.steady_ms(), ahead_ms)

    def _wait_to_delete(self, steady_ms: int, ahead_ms: int) -> None:
        """Have deletion wait, if the wall is far ahead of where the time was at the last stop."""
        if ahead_ms > _DAY_MS and self._hold_ms:
            before_ms = self._source.now_ms() - ahead_ms - steady_ms
            self._wait = _Wait(steady_ms + self._hold_ms, steady_ms, before_ms)
            _log.info("the clock is %d s ahead of the last stop", ahead_ms // MS_PER_S)

    def keep_keys_from(self, floor_ms: int) -> None:
        """Give no key of a time before `floor_ms`, whatever the clock does."""
        self._floor_ms = max(self._floor_ms, floor_ms)

    def may_be_deleted(self, expiry_ms: int) -> None:
        """Take note that others may delete as of a time."""
        with self._lock:
            self.deleted_ms = max(self.deleted_ms, expiry_ms)

    def state(self) -> ClockState:
        """Return how it stands."""
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
        """Believe the wall now, whose step is said to be `step_s`, and return how it stands then.

        Raises `ClockMoved` if the step is another one by now, or there is none.
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
    """Return a clock that does not believe a step at once, on `clock` unless it is one."""
    if isinstance(clock, TrustedClock):
        return clock
    return TrustedClock(clock, step_s_max=limits.clock_step_s_max, hold_s=limits.clock_hold_s)
