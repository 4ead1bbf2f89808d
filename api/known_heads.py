"""Keeps what the heads of simple requests said, so that one that comes again is not parsed again.

A client repeats itself, byte for byte: all its publishes of one size to a topic have the same head,
and all its polls of it; all its commits too, but for the transaction's id. A head says the same
wherever it stands behind the end of another request, so what is kept serves all connections.
"""

from typing import Any, NamedTuple

from api.endpoint import Endpoint
from api.transactions import TRANSACTIONS

HEAD_END = b"\r\n\r\n"
HEAD_BYTES_MAX = 1024
"""Larger ones are parsed each time."""
_HEADS_MAX = 1024
_OF_TRANSACTION = f"POST {TRANSACTIONS}/".encode()
_ID_DIGITS_MAX = 19


class SimpleHead(NamedTuple):
    """What a head says whose request is whole with so many bytes behind it, and its endpoint."""

    endpoint: Endpoint
    scope: dict[str, Any]
    """As of ASGI, as far as endpoints look at it. Not to be changed."""
    fields: dict[bytes, bytes]
    """Its headers by their names in lower case. Not to be changed."""
    body_bytes: int
    keep_alive: bool

    def of_transaction(self, transaction_id: str) -> "SimpleHead":
        """Return what it would say with another id in its path."""
        verb = self.scope["path"].rpartition("/")[2]
        scope = {
            **self.scope,
            "path": f"{TRANSACTIONS}/{transaction_id}/{verb}",
            "path_params": {"transaction_id": transaction_id},
        }
        return SimpleHead(self.endpoint, scope, self.fields, self.body_bytes, self.keep_alive)


class KnownHeads:
    """Heads that were parsed, by their bytes without the empty line that ends them."""

    def __init__(self) -> None:
        self._heads: dict[bytes, SimpleHead] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def find(self, head: bytes) -> SimpleHead | None:
        """Return what a head says, None where it has to be parsed."""
        if not head.startswith(_OF_TRANSACTION):
            return self._heads.get(head)
        key, transaction_id = _without_id(head)
        said = self._heads.get(key)
        return said.of_transaction(transaction_id) if said and transaction_id else said

    def keep(self, head: bytes, said: SimpleHead) -> None:
        """Keep what a head said; where there are too many, begin anew."""
        if len(self._heads) >= _HEADS_MAX:
            self._heads.clear()
        self._heads[_without_id(head)[0]] = said


def _without_id(head: bytes) -> tuple[bytes, str]:
    """Return what is behind the id of a transaction, as no head begins, and the id.

    A head that has none in its path is returned as it is.
    """
    start = len(_OF_TRANSACTION)
    found, slash, _ = head[start : start + _ID_DIGITS_MAX + 1].partition(b"/")
    if not (slash and found.isdigit() and head.startswith(_OF_TRANSACTION)):
        return head, ""
    return head[start + len(found) :], found.decode()
