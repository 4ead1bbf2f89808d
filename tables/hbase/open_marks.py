"""Marks that say who has a store open, in the Transaction table.

    mark key := 0xff "open"                    of a server that has the store alone
                0xff "open", token int64       of the leader with that token, of a cluster
    mark     := JSON object {"host", "pid", "since"}; empty if closed

A server that died leaves its mark. The next single server waits until no call of the dead one can
be in progress. A leader need not wait, because late rows of earlier leaders are hidden. It deletes
their marks.

A single server knows nothing of leases, so it does not open a store with a cluster's mark. The last
server of a cluster deletes that mark when it stops; otherwise a person confirms that no server
runs.
"""

import json
import os
import socket
import struct
from collections.abc import Mapping

from tables.hbase.writes import Run
from tables.store import TRANSACTION
from tms.core.errors import StoreLocked
from tms.core.limits import MS_PER_S
from tms.core.runtime.clock import SystemClock

OPEN_KEY = b"\xffopen"
RANGE = (OPEN_KEY, OPEN_KEY + b"\xff")
"""The range of all marks: start <= row < stop."""
_TOKEN = struct.Struct(">q")


def key_of(token: int) -> bytes:
    """Return the row of a mark; token 0 means a single server."""
    return OPEN_KEY + (_TOKEN.pack(token) if token else b"")


def opened(token: int) -> Run:
    """Return the run that marks the store as open in this process."""
    now = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": SystemClock().now_ms() // MS_PER_S,
    }
    return _put(key_of(token), json.dumps(now).encode())


def closed_alone() -> Run:
    """Return the run that marks the store as closed by a single server."""
    return _put(OPEN_KEY, b"")


def closed(token: int) -> list[Run]:
    """Return the runs that mark the store as closed by a leader, or (token 0) a single server."""
    return [closed_alone(), *([taken_away({key_of(token): b""}, token)] if token else ())]


def released_by_cluster() -> Run:
    """Return the run after which a single server waits, as after the death of one."""
    return _put(OPEN_KEY, json.dumps({"released": SystemClock().now_ms() // MS_PER_S}).encode())


def taken_away(marks: Mapping[bytes, bytes], through: int) -> Run:
    """Return the run that deletes the marks of leaders up to a token."""
    rows = {key: b"" for key in marks if 0 < _token_of(key) <= through}
    return Run(TRANSACTION, is_delete=True, rows=rows)


def of_clusters(marks: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the marks of leaders."""
    return {key: value for key, value in marks.items() if _token_of(key)}


def check_alone(marks: Mapping[bytes, bytes]) -> None:
    """Raise `StoreLocked` (store_of_a_cluster) if a cluster has the store."""
    for value in of_clusters(marks).values():
        raise StoreLocked("store_of_a_cluster", leader=value.decode(errors="replace"))


def _token_of(key: bytes) -> int:
    return int.from_bytes(key[len(OPEN_KEY) :])


def _put(key: bytes, value: bytes) -> Run:
    return Run(TRANSACTION, is_delete=False, rows={key: value})
