"""Waits for a store of HBase's."""

from tables.hbase.store import HBaseStore
from tests.waiting import wait_until
from tms.core.errors import StoreUnavailable


def settled(store: HBaseStore) -> None:
    """Return when it takes writes."""

    def is_writable() -> bool:
        try:
            store.check_writable()
        except StoreUnavailable:
            return False
        return True

    wait_until(is_writable)
