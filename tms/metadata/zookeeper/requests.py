"""Requests that kazoo lacks: several at once, containers, a watch of everything below a node.

`MultiWrite` is atomic; `MultiRead` answers each read by itself. The bytes are those of ZooKeeper's
protocol; kazoo sends any object with `type`, `serialize` and `deserialize`.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.serialization import (
    Create,
    Create2,
    Delete,
    GetChildren,
    GetData,
    MultiHeader,
    SetData,
    read_buffer,
    read_string,
    stat_struct,
    write_string,
)
from kazoo.protocol.states import ZnodeStat

_INT = struct.Struct("!i")
_PERSISTENT_RECURSIVE = 1


class CreateContainer(Create2):  # type: ignore[misc]  # kazoo has no types
    """Creates a node that ZooKeeper removes some time after its last child."""

    type = 19
    FLAGS = 4


class FailedRequest(NamedTuple):
    """The error of one request among several."""

    error: Exception


class _Multi:
    """Several requests in one; a subclass defines the type."""

    def __init__(self, requests: Sequence[Any]) -> None:
        self.requests = requests

    def serialize(self) -> bytes:
        """Return the bytes of the request."""
        parts = []
        for request in self.requests:
            parts.append(MultiHeader(request.type, False, -1).serialize())
            parts.append(request.serialize())
        parts.append(MultiHeader(-1, True, -1).serialize())
        return b"".join(parts)

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> list[Any]:
        """Return the answer to each request; a `FailedRequest` if it failed."""
        answers: list[Any] = []
        header, offset = MultiHeader.deserialize(data, offset)
        while not header.done:
            answer, offset = _ANSWERS[header.type](data, offset)
            answers.append(answer)
            header, offset = MultiHeader.deserialize(data, offset)
        return answers


class MultiWrite(_Multi):
    """Creates, puts and deletes, all or none."""

    type = 14


class MultiRead(_Multi):
    """Reads of data and children."""

    type = 22


class AddWatch:
    """Watches a node and everything below it, until the connection ends."""

    type = 106

    def __init__(self, path: str) -> None:
        self.path = path

    def serialize(self) -> bytes:
        """Return the bytes of the request."""
        whole: bytes = write_string(self.path) + _INT.pack(_PERSISTENT_RECURSIVE)
        return whole

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> bool:
        """Return True: errors are in the answer's head."""
        del data, offset
        return True


def _stat(data: bytes, offset: int) -> tuple[Any, int]:
    return ZnodeStat._make(stat_struct.unpack_from(data, offset)), offset + stat_struct.size


def _created(data: bytes, offset: int) -> tuple[Any, int]:
    _, offset = read_string(data, offset)
    return _stat(data, offset)


def _deleted(data: bytes, offset: int) -> tuple[Any, int]:
    del data
    return None, offset


def _read(data: bytes, offset: int) -> tuple[Any, int]:
    value, offset = read_buffer(data, offset)
    stat, offset = _stat(data, offset)
    return (value or b"", stat), offset


def _children(data: bytes, offset: int) -> tuple[Any, int]:
    (count,) = _INT.unpack_from(data, offset)
    offset += _INT.size
    names = []
    for _ in range(count):
        name, offset = read_string(data, offset)
        names.append(name)
    return names, offset


def _error(data: bytes, offset: int) -> tuple[Any, int]:
    (code,) = _INT.unpack_from(data, offset)
    return FailedRequest(EXCEPTIONS[code]()), offset + _INT.size


_ANSWERS = {
    Create.type: _created,
    Create2.type: _created,
    CreateContainer.type: _created,
    Delete.type: _deleted,
    SetData.type: _stat,
    GetData.type: _read,
    GetChildren.type: _children,
    -1: _error,
}
