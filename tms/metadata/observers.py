"""Calls observers one after another, even if some raise."""

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from tms.metadata.interface import Stop

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Observers(Generic[T]):
    """The observers of one thing. Used only from the event loop's thread."""

    def __init__(self) -> None:
        self._observers: dict[object, Callable[[T], None]] = {}

    def add(self, observer: Callable[[T], None]) -> Stop:
        """Call `observer` from now on; return a function that ends this."""
        key = object()
        self._observers[key] = observer

        def stop() -> None:
            self._observers.pop(key, None)

        return stop

    def notify(self, event: T) -> None:
        """Call each with `event`, except those stopped in the meantime."""
        for key, observer in list(self._observers.items()):
            if key not in self._observers:
                continue
            try:
                observer(event)
            except Exception:  # an observer's error affects neither the others nor the store
                _log.exception("an observer of the metadata store failed")

    def clear(self) -> None:
        """Remove all observers."""
        self._observers.clear()
