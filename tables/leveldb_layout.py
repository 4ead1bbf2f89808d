"""Under which byte of the one LevelDB each table is, by the layout of the data folder.

New messages have the greatest keys of their topic. Where no row of any table is behind them, those
of the last topic have the greatest of all, and LevelDB's files of them overlap no other: it never
merges them. In layout 1 other tables came behind, and the file that held a row of those together
with messages was merged with all later ones, again and again: half of what LevelDB did.

DO NOT CHANGE a layout: on disk. Folders keep the one that they were made with.
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
