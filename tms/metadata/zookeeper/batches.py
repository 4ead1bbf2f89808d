"""Counts how many requests fit into one, and how many reads into one answer. Pure."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from kazoo.protocol.serialization import GetChildren

_READS_MAX = 64
_READ_BYTES_MAX = 2_000_000
"""The most bytes of the answer to several reads, if the nodes do not grow in the meantime."""
_NAME_BYTES = 64
"""The approximate size of a child's name in an answer."""
_WRITES_MAX = 256
_WRITE_BYTES_MAX = 1_040_000
"""The most bytes of a request: ZooKeeper accepts 1,048,575 by default (jute.maxbuffer)."""
_REQUEST_BYTES = 64


def count_of_reads(waiting: Sequence[Any]) -> int:
    """Return how many reads, from the first on, may be sent together."""
    return min(len(waiting), _READS_MAX)


def count_of_writes(waiting: Sequence[Any]) -> int:
    """Return how many writes, from the first on, fit into one request."""
    nodes: set[str] = set()
    size = 0
    for request in waiting[:_WRITES_MAX]:
        size += _size(request)
        if nodes and (size > _WRITE_BYTES_MAX or request.path in nodes):
            break
        nodes.add(request.path)
    return len(nodes)


def count_within(sizes: Sequence[int]) -> int:
    """Return how many reads, from the first on, fit into one answer; at least one."""
    return max(1, sum(total <= _READ_BYTES_MAX for total in accumulate(sizes)))


def answer_bytes(request: Any, stat: Any) -> int:
    """Return the approximate size of a read's answer, by the node's stat if it exists."""
    if stat is None:
        return _REQUEST_BYTES
    is_of_names = isinstance(request, GetChildren)
    size = int(stat.numChildren) * _NAME_BYTES if is_of_names else int(stat.dataLength)
    return _REQUEST_BYTES + size


def _size(request: Any) -> int:
    return _REQUEST_BYTES + len(request.path) + len(getattr(request, "data", b""))
