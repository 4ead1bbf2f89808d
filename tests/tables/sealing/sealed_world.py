"""Rows of a store, and leaders that seal its topics."""

from collections.abc import Sequence

from tables.keys import after_prefix, metadata_key, prefix
from tables.memory import MemoryStore
from tables.sealing.seal import Seal, seal_of
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tables.store import MESSAGE, METADATA
from tests.contracts.store_contract import put, rows_of
from tests.tables.sealing.reign import Reign
from tms.core.values.message import KEY
from tms.core.values.topic import TopicId, TopicMetadata

TOPIC = TopicId("default", "t")
ROW = metadata_key(TOPIC)
START = prefix(TOPIC, 1)
STOP = after_prefix(START)


class World:
    """Rows, and successive leaders whose ceilings are a hundred ms apart."""

    def __init__(self) -> None:
        self.rows = MemoryStore()

    def leader(self, token: int) -> SealedStore:
        return SealedStore(self.rows, Reign(token, 100 * (token - 1), 100 * token))

    def late(self, *milliseconds: int) -> None:
        """Put late rows with keys of these times, without a lease."""
        put(self.rows, MESSAGE, *message_rows(milliseconds))

    def seal(self) -> Seal:
        row = self.rows.get(METADATA, ROW)
        assert row is not None
        return seal_of(row)


def message_rows(milliseconds: Sequence[int]) -> list[tuple[bytes, bytes]]:
    return [(START + KEY.pack(ms, 0), b"\x00%d" % ms) for ms in milliseconds]


def publish(store: SealedStore, *milliseconds: int) -> None:
    put(store, MESSAGE, *message_rows(milliseconds))


def with_topic() -> World:
    """Return rows with a topic that a first leader has published to."""
    world = World()
    first = SealedTables(world.leader(1))
    assert first.metadata.replace(None, TopicMetadata(TOPIC, 1, 60, {}))
    publish(world.leader(1), 10, 20)
    return world


def seen(store: SealedStore, **how: bool | int | None) -> list[int]:
    return [int(value[1:]) for _, value in rows_of(store, MESSAGE, START, STOP, **how)]
