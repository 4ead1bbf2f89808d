"""Closes clients that are still open when the program ends.

They are closed after all threads except daemon threads have ended. Calls of daemon threads get a
few seconds; those that are not finished by then, and open transactions, are named in the log, which
goes to stderr unless logging is configured. Nothing is done if a process ends at once: by
`os._exit`, by a signal without a handler, or as a child of multiprocessing's fork.
"""

import logging
from collections.abc import Collection
from time import monotonic
from typing import Protocol
from weakref import WeakSet

CALLS_S_MAX = 5.0
"""How long to wait for the calls of daemon threads."""
CLOSE_S_MAX = 30.0
"""How long closing one client may take: a store in this process flushes its data."""

_log = logging.getLogger(__name__)


class Unclosed(Protocol):
    """A client to close (`tms.client.threads.bridge`). Its methods are called in this order."""

    def refuse_calls(self) -> None:
        """Refuse calls, and end those that wait for messages."""
        ...

    def finish_calls(self, within_s: float) -> int:
        """Wait `within_s` seconds for other calls; return how many had to be cancelled."""
        ...

    def open_transactions(self) -> Collection[object]:
        """Return the transactions that have begun and not ended."""
        ...

    def finish(self, within_s: float) -> bool:
        """Close the client; return whether that was done within `within_s` seconds.

        Raises errors of closing.
        """
        ...


_unclosed: WeakSet[Unclosed] = WeakSet()


def close_then(client: Unclosed) -> None:
    """Close `client` when the program ends, if it still exists and is open."""
    _unclosed.add(client)


def is_closed(client: Unclosed) -> None:
    """Record that a client is closed."""
    _unclosed.discard(client)


def close_all() -> None:
    """Close all open clients. `tms` registers it to be called as the program ends."""
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
            _log.error("the program ended during %r, which is not committed", transaction)
    for client in clients:
        _finish(client)


def _finish(client: Unclosed) -> None:
    try:
        if not client.finish(CLOSE_S_MAX):
            _log.error("the program ended before a client was closed, after %g s", CLOSE_S_MAX)
    except Exception:  # close the others anyway
        _log.exception("cannot close a client at the end of the program")
