"""A leader seals all topics, even those that nobody uses."""

from tables.keys import metadata_key
from tables.memory import MemoryStore
from tables.sealing.background import Sealing
from tables.sealing.seal import seal_of
from tables.sealing.store import SealedStore
from tables.sealing.tables import SealedTables
from tables.store import METADATA
from tests.tables.sealing.reign import Reign
from tests.waiting import WAIT_S_MAX
from tms.core.errors import StoreUnavailable
from tms.core.values.topic import TopicId, TopicMetadata

TOPICS = [TopicMetadata(TopicId("default", f"t{number}"), 1, 60, {}) for number in range(5)]


class Unwilling(MemoryStore):
    """Rows that refuse a write now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses = 0

    def compare_and_put(
        self, table: str, key: bytes, expected: bytes | None, value: bytes | None
    ) -> bool:
        self.refuses -= 1
        if self.refuses == 0:
            raise StoreUnavailable(reason="a test")
        return super().compare_and_put(table, key, expected, value)


def tables_of(rows: MemoryStore, token: int) -> SealedTables:
    return SealedTables(SealedStore(rows, Reign(token, 100 * token, 100 * token + 100)))


def tokens(rows: MemoryStore) -> list[int]:
    found = [rows.get(METADATA, metadata_key(topic.id)) for topic in TOPICS]
    return [seal_of(row).token for row in found if row is not None]


def test_all_are_sealed_whatever_fails_in_between() -> None:
    rows = Unwilling()
    for topic in TOPICS:
        assert SealedTables(SealedStore(rows)).metadata.replace(None, topic)
    tables = tables_of(rows, 2)
    rows.refuses = 3

    sealing = Sealing(tables)

    assert sealing.done.wait(WAIT_S_MAX)
    assert tokens(rows) == [2] * 5
    sealing.close()


def test_it_ends_when_it_is_told_to() -> None:
    rows = MemoryStore()
    for topic in TOPICS:
        assert SealedTables(SealedStore(rows)).metadata.replace(None, topic)

    sealing = Sealing(tables_of(rows, 2))
    sealing.close()

    assert not sealing._thread.is_alive()
