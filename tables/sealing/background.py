"""Seals the topics of a store that nobody asks for, one after another, from a thread of its own.

Those that are used are sealed as they are (`tables.sealing.store`). The others are soon after a
leader has begun, so that what comes late for them is not taken for what they had either.
"""

import logging
from threading import Event, Thread

from tables.keys import metadata_key
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tms.core.errors import StoreCorrupt, StoreUnavailable

_PAUSE_S = 0.02
"""Between two topics: for as long as one is sealed, flushes wait."""
_RETRY_S = 1.0

_log = logging.getLogger(__name__)


class Sealing:
    """The sealing of all topics, once."""

    def __init__(self, tables: SealedTables) -> None:
        """Begin."""
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
        """Seal all topics; return how many there are. Those that were sealed cost nothing again."""
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
        """End; the store is to be open yet."""
        self._stop.set()
        self._thread.join()
