"""The first and the last key of a topic or a run that a seal does not hide. Reads the store."""

from tables.sealing.seal import Seal
from tables.store import Store
from tms.core.values.message import KEY_BYTES, key_after


def shown(
    store: Store, table: str, prefix: bytes, seal: Seal, within: tuple[bytes, bytes]
) -> tuple[bytes | None, bytes | None]:
    """Return the first and the last visible key after `prefix`, of start <= key < stop.

    None if none is visible.
    """
    start, stop = within
    last = _edge(store, table, prefix, start, stop, reverse=True)
    while last is not None and (hidden := seal.range_of(last)) is not None:
        below = max(start, hidden.start)
        last = _edge(store, table, prefix, start, below, reverse=True) if hidden.after else None
    if last is None:
        return None, None
    end = key_after(last)
    first = _edge(store, table, prefix, start, end)
    while first is not None and (hidden := seal.range_of(first)) is not None:
        first = _edge(store, table, prefix, hidden.stop, end)
    return first, last


def _edge(
    store: Store, table: str, prefix: bytes, start: bytes, stop: bytes, *, reverse: bool = False
) -> bytes | None:
    rows = store.scan(table, prefix + start, prefix + stop, reverse=reverse, limit=1)
    with rows as scanned:
        own = slice(len(prefix), len(prefix) + KEY_BYTES)
        return next((key[own] for key, _ in scanned), None)
