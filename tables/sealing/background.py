"""Seals the unused topics of a store, one after another, from a thread of its own.

Topics are sealed when they are used (`tables.sealing.store`). The others are sealed soon after a
leader has begun, so that their late rows are recognized too.
"""

import logging
from threading import Event, Thread

from tables.keys import metadata_key
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tms.core.errors import StoreCorrupt, StoreUnavailable

_PAUSE_S = 0.02
"""The pause between two topics: flushes wait while one is sealed."""
_RETRY_S = 1.0

_log = logging.getLogger(__name__)


class Sealing:
    """A thread that seals all topics once."""

    def __init__(self, tables: SealedTables) -> None:
        """Start the thread."""
        self._tables = tables
        self._stop = Event()
        self.done = Event()
        self._thread = Thread(target=self._run, name="tms-sealing", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                count = self._seal_all()
            except StoreUnavailable as error:
                _log.warning("cannot seal all topics yet: %s", error)
                self._stop.wait(_RETRY_S)
            except StoreCorrupt:
                _log.exception("topics are sealed only when they are used")
                return
            else:
                _log.info("sealed all topics: %d", count)
                self.done.set()
                return

    def _seal_all(self) -> int:
        """Seal all topics; return how many there are. Those already sealed cost nothing."""
        store = self._tables.store
        assert isinstance(store, SealedStore)
        count = 0
        for topic in self._tables.metadata.scan():
            if not store.is_sealed(metadata_key(topic.id)):
                if self._stop.wait(_PAUSE_S):
                    break
                store.seal(metadata_key(topic.id))
            count += 1
        return count

    def close(self) -> None:
        """Stop the thread; the store must still be open."""
        self._stop.set()
        self._thread.join()
