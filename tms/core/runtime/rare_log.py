"""Logs events that may happen thousands of times a second at most once a minute."""

import logging
import math
import time

_INTERVAL_S = 60.0


class RareLog:
    """Counts events of one kind, and logs the latest of them now and then."""

    def __init__(self, log: logging.Logger, event: str, level: int = logging.INFO) -> None:
        """Log that `event` happened, and how often."""
        self._log = log
        self._what = event
        self._level = level
        self._unlogged = 0
        self._logged_at = -math.inf

    def add(self, event: object, error: BaseException | None = None) -> None:
        """Count an event; `error` is logged with its traceback."""
        self._unlogged += 1
        now = time.monotonic()
        if now - self._logged_at < _INTERVAL_S:
            return
        counted = f"{self._what}: {self._unlogged}"
        self._log.log(self._level, "%s; now: %s", counted, event, exc_info=error)
        self._unlogged = 0
        self._logged_at = now
