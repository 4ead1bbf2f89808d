"""The fence of a shard: a row with the token of its latest leader, which needs no clock.

    fence row key := 0xff "fence"              in the Transaction table
    fence row     := token int64

1. A leader raises it, by compare-and-put, before it reads anything that an earlier leader may still
   write. So it only grows.
2. A leader reads it after each batch, and before the batch counts as written. If it finds its own
   token, no later leader had begun when the batch was carried out, so every later leader finds the
   batch. Otherwise the batch must not be acknowledged, and the leader stops leading.

This relies on HBase's answers, not on any clock. A server without a lease has no fence. Big-endian.
DO NOT CHANGE: stored.
"""

import logging
import struct
from collections.abc import Callable
from typing import Protocol

from tables.hbase.connections import CallFailed, Gateway
from tables.hbase.sending import Swap, value_of
from tables.store import TRANSACTION
from tms.core.errors import StoreCorrupt, StoreUnavailable

FENCE_KEY = b"\xfffence"
_TOKEN = struct.Struct(">q")
LATER_LEADER_USED_STORE = "a later leader has used this store: was the metadata store replaced?"

_log = logging.getLogger(__name__)


class FencedRows(Protocol):
    """The rows of a store. All methods may fail as writes do."""

    def stored(self, table: str, row: bytes) -> bytes | None:
        """Return the value of a row, None if there is none."""
        ...

    def swap(self, swap: Swap) -> bool:
        """Put a value if the row is as expected; return whether it was."""
        ...


def raise_fence(rows: FencedRows, token: int) -> None:
    """Put the token of a new leader into the row, durably.

    Raises `StoreUnavailable` if the row has this token or a greater one, and `StoreCorrupt`.
    """
    while True:
        row = rows.stored(TRANSACTION, FENCE_KEY)
        last = 0 if row is None else _token_in(row)
        if last >= token:
            raise StoreUnavailable(reason=LATER_LEADER_USED_STORE, token=token, later_token=last)
        if rows.swap(Swap(TRANSACTION, FENCE_KEY, row, _TOKEN.pack(token))):
            return


def _token_in(row: bytes) -> int:
    if len(row) != _TOKEN.size:
        raise StoreCorrupt(table=TRANSACTION, reason="the fence row is damaged")
    return int.from_bytes(row)


class Fence:
    """The fence, for the leader that raised it. Any thread may use it."""

    def __init__(
        self, gateway: Gateway, name: bytes, token: int, on_fenced: Callable[[], object]
    ) -> None:
        """Read it in HBase's table `name`; call `on_fenced` once, on another token."""
        self._is_passed = True
        self._token = token
        self._gateway = gateway
        self._name = name
        self._on_fenced = on_fenced

    def check(self) -> None:
        """Return if no later leader had begun before this call; reads for a bounded time.

        Otherwise, or if HBase does not answer, raises `CallFailed`, `Refused`.
        """
        row = self._gateway.repeated(lambda client: value_of(client, self._name, FENCE_KEY))
        if row == _TOKEN.pack(self._token):
            return
        # The store accepts no other write from now on, and checks again until it is closed.
        reason = f"a later leader has the shard: its fence is {(row or b'').hex()}"
        if self._is_passed:
            self._is_passed = False
            _log.error("a write under token %d is not acknowledged: %s", self._token, reason)
            self._on_fenced()
        raise CallFailed(reason)
