"""The contract of every Store (`tables/store.py`). A subclass gives the fixture `store`."""

import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tables.store import GROUP, MESSAGE, METADATA, PAYLOAD, TABLES, Store, tables_with
from tests.scale import scaled
from tms.core.errors import StoreUnavailable
from tms.core.values.store_features import GROUPS

KEYS = st.binary(min_size=1, max_size=4)
VALUES = st.binary(max_size=6)
END = b"\xff" * 6

shares_the_store = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    max_examples=scaled(60),
)


ranges = given(rows=st.dictionaries(KEYS, VALUES), start=KEYS, stop=KEYS, limit=st.integers(0, 5))
batches = given(
    batches=st.lists(
        st.lists(st.tuples(st.sampled_from(TABLES), KEYS, st.none() | VALUES), max_size=8),
        max_size=8,
    )
)


def rows_of(
    store: Store, table: str, start: bytes = b"", stop: bytes = END, **how: bool | int | None
) -> list[tuple[bytes, bytes]]:
    with store.scan(table, start, stop, **how) as rows:  # type: ignore[arg-type]
        return list(rows)


def put(store: Store, table: str, *rows: tuple[bytes, bytes]) -> None:
    batch = store.batch()
    batch.put_rows(table, rows)
    store.write(batch)


def empty(store: Store) -> None:
    batch = store.batch()
    for table in tables_with(store.features()):
        for key, _ in rows_of(store, table):
            batch.delete(table, key)
    store.write(batch)


class StoreContract:
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        raise AssertionError("a subclass gives the store")

    def test_what_was_put_is_there(self, store: Store) -> None:
        put(store, MESSAGE, (b"k", b"v"))

        assert store.get(MESSAGE, b"k") == b"v"

    def test_what_was_not_put_is_not_there(self, store: Store) -> None:
        assert store.get(MESSAGE, b"k") is None
        assert rows_of(store, MESSAGE) == []

    def test_an_empty_value_is_a_value(self, store: Store) -> None:
        put(store, MESSAGE, (b"k", b""))

        assert store.get(MESSAGE, b"k") == b""

    def test_tables_are_apart(self, store: Store) -> None:
        for table in TABLES:
            put(store, table, (b"k", table.encode()))

        assert [store.get(table, b"k") for table in TABLES] == [t.encode() for t in TABLES]
        assert rows_of(store, PAYLOAD) == [(b"k", b"payload")]

    def test_a_batch_is_carried_out_in_order_across_tables(self, store: Store) -> None:
        batch = store.batch()
        batch.put(MESSAGE, b"k", b"1")
        batch.delete(MESSAGE, b"k")
        batch.put(METADATA, b"k", b"2")
        batch.put(METADATA, b"k", b"3")
        batch.delete(PAYLOAD, b"absent")
        store.write(batch)

        assert store.get(MESSAGE, b"k") is None
        assert store.get(METADATA, b"k") == b"3"

    def test_many_deletes_are_as_many_single_ones(self, store: Store) -> None:
        put(store, MESSAGE, *((bytes((i,)), b"v") for i in range(10)))
        batch = store.batch(durable=False)
        batch.delete_rows(MESSAGE, [bytes((i,)) for i in range(1, 20)])
        store.write(batch)

        assert rows_of(store, MESSAGE) == [(b"\x00", b"v")]

    def test_compaction_changes_no_row(self, store: Store) -> None:
        put(store, MESSAGE, *((bytes((i,)), b"v") for i in range(10)))
        put(store, PAYLOAD, (b"k", b"v"))
        batch = store.batch()
        batch.delete_rows(MESSAGE, [bytes((i,)) for i in range(5)])
        store.write(batch)
        store.compact(MESSAGE, b"", b"\x08")
        store.compact(MESSAGE, b"\x08", b"\x01")

        assert rows_of(store, MESSAGE) == [(bytes((i,)), b"v") for i in range(5, 10)]
        assert rows_of(store, PAYLOAD) == [(b"k", b"v")]
        assert store.size_bytes(MESSAGE, b"", END) >= 0

    def test_raising_the_format_changes_no_row(self, store: Store) -> None:
        put(store, METADATA, (b"k", b"v"))
        for _ in range(2):
            store.raise_format()

        assert rows_of(store, METADATA) == [(b"k", b"v")]

    def test_a_feature_is_recorded_once_and_its_table_is_there(self, store: Store) -> None:
        for _ in range(2):
            store.add_feature(GROUPS)
        put(store, GROUP, (b"k", b"v"))

        assert store.features() == {GROUPS}
        assert rows_of(store, GROUP) == [(b"k", b"v")]

    def test_an_unwritten_batch_does_nothing(self, store: Store) -> None:
        store.batch().put(MESSAGE, b"k", b"v")

        assert store.get(MESSAGE, b"k") is None

    def scans_a_range_in_byte_order(
        self, store: Store, rows: dict[bytes, bytes], start: bytes, stop: bytes, limit: int
    ) -> None:
        empty(store)
        put(store, MESSAGE, *rows.items())
        expected = sorted((k, v) for k, v in rows.items() if start <= k < stop)

        assert rows_of(store, MESSAGE, start, stop) == expected
        assert rows_of(store, MESSAGE, start, stop, reverse=True) == expected[::-1]
        assert rows_of(store, MESSAGE, start, stop, limit=limit) == expected[:limit]
        backwards = expected[::-1][:limit]
        assert rows_of(store, MESSAGE, start, stop, reverse=True, limit=limit) == backwards

    def is_an_ordered_map_for_each_table(
        self, store: Store, batches: list[list[tuple[str, bytes, bytes | None]]]
    ) -> None:
        empty(store)
        model: dict[str, dict[bytes, bytes]] = {table: {} for table in TABLES}
        for writes in batches:
            batch = store.batch()
            for table, key, value in writes:
                if value is None:
                    batch.delete(table, key)
                    model[table].pop(key, None)
                else:
                    batch.put(table, key, value)
                    model[table][key] = value
            store.write(batch)

        for table in TABLES:
            assert rows_of(store, table) == sorted(model[table].items())

    test_a_scan_gives_a_range_in_byte_order = shares_the_store(ranges(scans_a_range_in_byte_order))
    test_it_is_an_ordered_map_for_each_table = shares_the_store(
        batches(is_an_ordered_map_for_each_table)
    )

    def test_a_scan_does_not_see_what_is_written_while_it_runs(self, store: Store) -> None:
        put(store, MESSAGE, *((bytes((i,)), b"old") for i in range(10)))
        with store.scan(MESSAGE, b"", END) as rows:
            first = next(rows)
            put(store, MESSAGE, *((bytes((i,)), b"new") for i in range(20)))
            rest = list(rows)

        assert [first, *rest] == [(bytes((i,)), b"old") for i in range(10)]

    def test_compare_and_put_needs_what_is_expected(self, store: Store) -> None:
        assert not store.compare_and_put(METADATA, b"k", b"1", b"2")
        assert store.compare_and_put(METADATA, b"k", None, b"1")
        assert not store.compare_and_put(METADATA, b"k", None, b"2")
        assert not store.compare_and_put(METADATA, b"k", b"0", b"2")
        assert store.get(METADATA, b"k") == b"1"
        assert store.compare_and_put(METADATA, b"k", b"1", b"2")
        assert store.get(METADATA, b"k") == b"2"
        assert store.compare_and_put(METADATA, b"k", b"2", None)
        assert store.get(METADATA, b"k") is None

    def test_of_many_who_compare_and_put_one_wins_each_round(self, store: Store) -> None:
        rounds, threads = 25, 4

        def count_up() -> None:
            for _ in range(rounds):
                while True:
                    old = store.get(METADATA, b"count")
                    new = str(int(old or b"0") + 1).encode()
                    if store.compare_and_put(METADATA, b"count", old, new):
                        break

        workers = [threading.Thread(target=count_up) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

        assert store.get(METADATA, b"count") == str(rounds * threads).encode()

    def test_readers_and_writers_share_it(self, store: Store) -> None:
        """Each batch writes one number under all keys; a scan never sees two different numbers."""
        if not store.atomic:
            return
        keys = [bytes((i,)) for i in range(50)]
        put(store, MESSAGE, *((key, b"0") for key in keys))
        done = threading.Event()
        seen: list[set[bytes]] = []

        def read() -> None:
            while not done.is_set():
                seen.append({value for _, value in rows_of(store, MESSAGE)})

        reader = threading.Thread(target=read)
        reader.start()
        for number in range(1, 40):
            put(store, MESSAGE, *((key, str(number).encode()) for key in keys))
        done.set()
        reader.join()

        assert all(len(values) == 1 for values in seen)
        numbers = [int(next(iter(values))) for values in seen]
        assert all(earlier <= later for earlier, later in pairwise(numbers))

    def test_what_comes_later_in_a_batch_is_never_there_without_what_came_before(
        self, store: Store
    ) -> None:
        topic, other = b"ns:t:", b"ns:other:"
        written = [(MESSAGE, topic + b"1"), (MESSAGE, topic + b"2"), (PAYLOAD, other)]
        done = threading.Event()
        behind: list[tuple[int, int]] = []

        def read() -> None:
            while not done.is_set():
                # In reverse order: the key read first was written last.
                numbers = [int(store.get(table, key) or b"0") for table, key in written[::-1]]
                behind.extend(pair for pair in pairwise(numbers) if pair[0] > pair[1])

        reader = threading.Thread(target=read)
        reader.start()
        for number in range(1, 40):
            batch = store.batch()
            for table, key in written:
                batch.put(table, key, str(number).encode())
            store.write(batch)
        done.set()
        reader.join()

        assert behind == []

    def test_a_row_deleted_in_the_same_instant_can_be_put_again(self, store: Store) -> None:
        for number in range(100):
            put(store, MESSAGE, (b"k", b"old"))
            batch = store.batch()
            batch.delete(MESSAGE, b"k")
            store.write(batch)
            put(store, MESSAGE, (b"k", str(number).encode()))

            assert store.get(MESSAGE, b"k") == str(number).encode()

    def test_a_closed_store_refuses_everything(self, store: Store) -> None:
        batch = store.batch()
        batch.put(MESSAGE, b"k", b"v")
        store.close()
        store.close()

        with pytest.raises(StoreUnavailable):
            store.get(MESSAGE, b"k")
        with pytest.raises(StoreUnavailable):
            rows_of(store, MESSAGE)
        with pytest.raises(StoreUnavailable):
            store.write(batch)
        with pytest.raises(StoreUnavailable):
            store.compare_and_put(METADATA, b"k", None, b"v")
        with pytest.raises(StoreUnavailable):
            store.compact(MESSAGE, b"", b"k")
        with pytest.raises(StoreUnavailable):
            store.check_writable()
