"""Keeps what the heads of simple requests said, so that what comes again is not parsed again.

A client repeats itself, byte for byte: all its publishes of one size have the same headers, and all
its requests of a topic the same target; those of a transaction too, but for its id. A head is its
target and what is behind it, and each says the same whatever the other is. So the two are kept
apart, for all connections, and ten thousand topics need no more than one to be known.
"""

from typing import Any, NamedTuple

from cachetools import FIFOCache

from api.endpoint import Endpoint
from api.transactions import TRANSACTIONS

HEAD_END = b"\r\n\r\n"
HEAD_BYTES_MAX = 1024
"""Larger ones are parsed each time."""
_TARGETS_MAX = 16_384
_OTHERS_MAX = 1024
_METHOD = b"POST "
_TARGET_START = len(_METHOD)
_OF_TRANSACTION = f"{TRANSACTIONS}/".encode()
_ID_START = len(_OF_TRANSACTION)
_ID_DIGITS_MAX = 19


class Target(NamedTuple):
    """What the target of a POST leads to."""

    endpoint: Endpoint
    scope: dict[str, Any]
    """As of ASGI, as far as endpoints look at it. Not to be changed."""
    may_compress: bool
    """Whether its answers are compressed for those who take that."""


class Fields(NamedTuple):
    """What a head says behind its target."""

    values: dict[bytes, bytes]
    """Its headers by their names in lower case. Not to be changed."""
    body_bytes: int
    keep_alive: bool
    takes_gzip: bool


SimpleHead = tuple[Target, Fields]
"""The head of a request that is whole with so many bytes behind it."""


class KnownHeads:
    """The parts of heads that were parsed, by their bytes. Of too many, the oldest go."""

    def __init__(self) -> None:
        self._targets: FIFOCache[bytes, Target] = FIFOCache(_TARGETS_MAX)
        self._of_transactions: FIFOCache[bytes, Target] = FIFOCache(_OTHERS_MAX)
        """By what is behind the id."""
        self._fields: FIFOCache[bytes, Fields] = FIFOCache(_OTHERS_MAX)

    def __len__(self) -> int:
        return len(self._targets) + len(self._of_transactions) + len(self._fields)

    def find(self, data: bytes, end: int) -> SimpleHead | None:
        """Return what the head says that `data` begins with and that ends at `end`.

        None: it is not known, and has to be parsed.
        """
        if not data.startswith(_METHOD):
            return None
        target_end = data.find(b" ", _TARGET_START, end)
        fields = self._fields.get(data[target_end:end])
        if fields is None:
            return None
        asked = data[_TARGET_START:target_end]
        target = self._targets.get(asked) or self._of_transaction(asked)
        if target is None or (fields.takes_gzip and target.may_compress):
            return None
        return target, fields

    def _of_transaction(self, asked: bytes) -> Target | None:
        transaction_id, verb = _split(asked)
        target = self._of_transactions.get(verb)
        return target and _of_another(target, transaction_id.decode())

    def keep(self, head: bytes, asked: bytes, said: SimpleHead) -> None:
        """Keep what a head said whose target was `asked`."""
        start = b"%s%s" % (_METHOD, asked)
        # The parser takes more spaces than one, and then the target is not where it is looked for.
        if not head.startswith(b"%s HTTP/1.1\r\n" % start):
            return
        target, fields = said
        if not asked.startswith(_OF_TRANSACTION):
            self._targets[asked] = target
        elif verb := _split(asked)[1]:
            self._of_transactions[verb] = target
        self._fields[head[len(start) :]] = fields


def _split(target: bytes) -> tuple[bytes, bytes]:
    """Return the id of a transaction that a target has, and what is behind it; else nothing."""
    if not target.startswith(_OF_TRANSACTION):
        return b"", b""
    end = target.find(b"/", _ID_START, _ID_START + _ID_DIGITS_MAX + 1)
    transaction_id = target[_ID_START:end]
    return (transaction_id, target[end:]) if end > 0 and transaction_id.isdigit() else (b"", b"")


def _of_another(target: Target, transaction_id: str) -> Target:
    """Return what the target would lead to with another id."""
    verb = target.scope["path"].rpartition("/")[2]
    scope = {
        **target.scope,
        "path": f"{TRANSACTIONS}/{transaction_id}/{verb}",
        "path_params": {"transaction_id": transaction_id},
    }
    return Target(target.endpoint, scope, target.may_compress)
