"""The byte under which LevelDB has each table, by the layout of the data folder.

New messages have the greatest keys of their topic. If no table follows them, those of the last
topic have the greatest keys of all, and LevelDB's files of them overlap no others, so it never
merges them. In layout 1 other tables followed. A file with rows of those and messages was merged
with all later files, again and again, which was half of LevelDB's work.

DO NOT CHANGE a layout: on disk. A folder keeps the layout that it was created with.
"""

from collections.abc import Mapping

from tables.store import (
    BOUND,
    COORDINATION,
    GROUP,
    MESSAGE,
    METADATA,
    PAYLOAD,
    SUBSCRIPTION,
    TRANSACTION,
)

Prefixes = Mapping[str, bytes]

_OTHERS = {
    PAYLOAD: b"p",
    METADATA: b"t",
    SUBSCRIPTION: b"s",
    TRANSACTION: b"x",
    BOUND: b"b",
    COORDINATION: b"c",
    GROUP: b"g",
}

PREFIXES: Mapping[int, Prefixes] = {
    1: {MESSAGE: b"m", **_OTHERS},
    2: {MESSAGE: b"z", **_OTHERS},
}
