"""Logs on standard error when the server of a running command is unavailable and available again.

It also logs at which transaction a poll waits. These are the client's log messages; programs that
use the library configure logging themselves.
"""

import logging
import sys


class _OnStandardError(logging.Handler):
    """Looks up standard error for each line, because a command in a test has its own."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the line."""
        print(self.format(record), file=sys.stderr, flush=True)


_HANDLER = _OnStandardError()


def log_on_stderr() -> None:
    """Start logging. Calling it twice is harmless."""
    log = logging.getLogger("tms.client")
    log.setLevel(logging.INFO)
    log.addHandler(_HANDLER)
