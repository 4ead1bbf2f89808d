"""Observers of answered requests: the access log, spans. Without any, a request pays for one look.

An observer must not raise, and must not wait: it is called on the event loop's thread.
"""

from typing import Final, Protocol

from api.http.exchange import Exchange


class RequestObserver(Protocol):
    """Gets each answered request."""

    def add(self, exchange: Exchange, seconds: float) -> None:
        """Report a request that has just been answered, `seconds` after it began."""
        ...


class RequestObservers:
    """The observers of a process."""

    def __init__(self) -> None:
        self.is_on = False
        self._each: list[RequestObserver] = []

    def attach(self, observer: RequestObserver) -> None:
        """Report requests to this observer too, from now on."""
        self._each.append(observer)
        self.is_on = True

    def report(self, exchange: Exchange, seconds: float) -> None:
        """Report an answered request to all."""
        for each in self._each:
            each.add(exchange, seconds)


OF_PROCESS: Final = RequestObservers()
