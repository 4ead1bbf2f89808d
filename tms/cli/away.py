"""Tells on standard error, while a command goes on, that its server is away and that it is back.

And at which transaction a poll stands still. That is what the client logs. The library's users
configure logging as they like.
"""

import logging
import sys


class _OnStandardError(logging.Handler):
    """Looks for standard error at each line: a command in a test has its own."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the line."""
        print(self.format(record), file=sys.stderr, flush=True)


_HANDLER = _OnStandardError()


def tell() -> None:
    """Tell it from now on. Telling twice is the same as once."""
    log = logging.getLogger("tms.client")
    log.setLevel(logging.INFO)
    log.addHandler(_HANDLER)
