"""The stored bytes of a local store's nodes: writes and reads them.

A row per node: its path in UTF-8, and a value that begins with a fixed head (big-endian):

    format 1 byte (1) | version int64 | created ms int64 | modified ms int64 |
    created revision int64 | modified revision int64 | ephemeral 1 byte | the value's bytes

The row with the key 00, which no path begins with, has the last assigned revision, as int64. Every
write updates it, so that no revision is used twice, even if its node was deleted.
"""

import struct
from collections.abc import Iterable, Sequence

from tms.core.errors import StoreCorrupt, StoreFormatUnknown
from tms.core.values.metadata_rows import MetadataRows
from tms.metadata.tree import Node, Tree, TreeEdit

_FORMAT = 1
_HEAD = struct.Struct(">BqqqqqB")
_REVISION = struct.Struct(">q")
_REVISION_KEY = b"\x00"
NOBODY = 0
"""The owner of ephemeral values read from rows: no session of this process."""


class MetadataJournal:
    """Keeps a tree in rows. Every call blocks, and may raise `StoreUnavailable`."""

    def __init__(self, rows: MetadataRows) -> None:
        self._rows = rows

    def load(self) -> Tree:
        """Return the tree in the rows. Raises `StoreCorrupt`, `StoreFormatUnknown`."""
        revision = 0
        nodes: list[tuple[str, Node]] = []
        for key, value in self._rows.read_all():
            if key == _REVISION_KEY:
                revision = _revision_of(value)
            else:
                nodes.append((_path_of(key), _node_of(key, value)))
        return Tree(nodes, revision)

    def write(self, edits: Sequence[TreeEdit]) -> None:
        """Make edits durable, all or none."""
        self._rows.write([*map(_row_of, edits), *_revision_rows(edits)])


def _row_of(edit: TreeEdit) -> tuple[bytes, bytes | None]:
    node = edit.node
    if node is None:
        return edit.path.encode(), None
    head = _HEAD.pack(
        _FORMAT,
        node.version,
        node.created_ms,
        node.modified_ms,
        node.created_revision,
        node.modified_revision,
        node.owner is not None,
    )
    return edit.path.encode(), head + node.value


def _revision_rows(edits: Iterable[TreeEdit]) -> list[tuple[bytes, bytes]]:
    return [(_REVISION_KEY, _REVISION.pack(max(edit.revision for edit in edits)))]


def _revision_of(value: bytes) -> int:
    if len(value) != _REVISION.size:
        raise StoreCorrupt(row="revision of the metadata")
    revision: int = _REVISION.unpack(value)[0]
    return revision


def _path_of(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise StoreCorrupt(row=key.hex()) from None


def _node_of(key: bytes, value: bytes) -> Node:
    if value and value[0] != _FORMAT:
        raise StoreFormatUnknown(row=key.hex(), format=value[0])
    if len(value) < _HEAD.size:
        raise StoreCorrupt(row=key.hex())
    _, version, created_ms, modified_ms, created, modified, ephemeral = _HEAD.unpack_from(value)
    owner = NOBODY if ephemeral else None
    return Node(value[_HEAD.size :], version, created_ms, modified_ms, created, modified, owner)
