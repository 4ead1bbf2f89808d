"""Waits for a store of HBase's."""

import time

from tables.hbase.store import HBaseStore
from tms.core.errors import StoreUnavailable

SETTLED_S_MAX = 30


def settled(store: HBaseStore) -> None:
    deadline = time.monotonic() + SETTLED_S_MAX
    while True:
        try:
            store.check_writable()
        except StoreUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return
