"""Closes clients that are still open when the program ends.

They are closed then, after all threads but daemon ones have ended. What daemon threads have under
way is given a few seconds; what is not finished by then, and transactions that nobody has ended,
are named in the log, which goes to stderr where nothing else was set up. Nothing is done where a
process ends at once: `os._exit`, a signal that nobody handles, a child of multiprocessing's fork.
"""

import logging
from collections.abc import Collection
from time import monotonic
from typing import Protocol
from weakref import WeakSet

CALLS_S_MAX = 5.0
"""How long the calls of daemon threads are waited for."""
CLOSE_S_MAX = 30.0
"""How long the closing of one client may take: a store in this process writes what it has."""

_log = logging.getLogger(__name__)


class Unclosed(Protocol):
    """A client to close (`tms.client.threads.bridge`). The methods are called in this order."""

    def refuse_calls(self) -> None:
        """Take no more calls, and end those that wait for messages."""
        ...

    def finish_calls(self, within_s: float) -> int:
        """Wait for the other calls; return how many had to be cancelled after so many seconds."""
        ...

    def open_transactions(self) -> Collection[object]:
        """Return the transactions that nobody has ended."""
        ...

    def finish(self, within_s: float) -> bool:
        """Close the client; return whether that was done within so many seconds.

        Raises what the closing does.
        """
        ...


_unclosed: WeakSet[Unclosed] = WeakSet()


def close_then(client: Unclosed) -> None:
    """Have `client` closed when the program ends, if it lives then and is not closed before."""
    _unclosed.add(client)


def is_closed(client: Unclosed) -> None:
    """Forget a client that is closed."""
    _unclosed.discard(client)


def close_all() -> None:
    """Close what is not closed. `tms` has it called as the program ends."""
    clients = tuple(_unclosed)
    _unclosed.clear()
    calls_until = monotonic() + CALLS_S_MAX
    for client in clients:
        client.refuse_calls()
    for client in clients:
        cut_off = client.finish_calls(max(0.0, calls_until - monotonic()))
        if cut_off:
            _log.error(
                "the program ended during calls of daemon threads (%d); their outcome is unknown",
                cut_off,
            )
        for transaction in client.open_transactions():
            _log.error("the program ended within %r, which is not committed", transaction)
    for client in clients:
        _finish(client)


def _finish(client: Unclosed) -> None:
    try:
        if not client.finish(CLOSE_S_MAX):
            _log.error("the program ended before a client was closed, after %g s", CLOSE_S_MAX)
    except Exception:  # the others are closed all the same
        _log.exception("a client could not be closed as the program ended")
