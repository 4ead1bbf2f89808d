"""Calls observers one after another, whatever they raise."""

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from tms.metadata.interface import Stop

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Observers(Generic[T]):
    """Those who want to hear of something. Used from the event loop's thread alone."""

    def __init__(self) -> None:
        self._observers: dict[object, Callable[[T], None]] = {}

    def add(self, observer: Callable[[T], None]) -> Stop:
        """Call `observer` from now on; return what ends it."""
        key = object()
        self._observers[key] = observer

        def stop() -> None:
            self._observers.pop(key, None)

        return stop

    def tell(self, what: T) -> None:
        """Call each with `what`. One that was stopped meanwhile is not called."""
        for key, observer in list(self._observers.items()):
            if key not in self._observers:
                continue
            try:
                observer(what)
            except Exception:  # one observer's fault is not the others', nor the store's
                _log.exception("an observer of the metadata store failed")

    def clear(self) -> None:
        """Forget all."""
        self._observers.clear()
