"""Waits for a store on HBase."""

from tables.hbase.store import HBaseStore
from tests.waiting import wait_until
from tms.core.errors import StoreUnavailable


def settled(store: HBaseStore) -> None:
    """Return once the store accepts writes."""

    def is_writable() -> bool:
        try:
            store.check_writable()
        except StoreUnavailable:
            return False
        return True

    wait_until(is_writable)
