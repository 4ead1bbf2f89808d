"""The mark of a store: numbers ascend across restarts, whatever the clock does."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup.invalid import bound_of
from tables.prune_bound_table import Bound, StoreBoundTable
from tables.store import MESSAGE, TRANSACTION
from tables.store_tables import StoreTables
from tests.cleanup.clock_stories import (
    cache_and_table_show_the_same,
    elsewhere,
    ids_ascend,
    starts_far_ahead,
    versions_ascend,
)
from tests.cleanup.twins import NOW_MS, Twin
from tests.contracts.invalid_contract import _timeouts_by_hand  # noqa: F401  a fixture
from tests.manual_clock import ManualClock
from tms.core.errors import StoreCorrupt
from tms.core.services.mark import ClockElsewhere, Mark, decode_mark, encode_mark, latest_mark
from tms.core.values.message import MessageId
from tms.core.values.topic import TopicId

TOPIC = TopicId("default", "t")
DAY = 86_400_000
INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture
def twin() -> Iterator[Twin]:
    loop = asyncio.new_event_loop()
    twin = Twin(loop, ManualClock(NOW_MS))
    twin.await_(twin.services.messaging.create_topic(TOPIC))
    yield twin
    twin.close()
    loop.close()


@pytest.mark.parametrize("crashes", [True, False])
@pytest.mark.parametrize("by_ms", [0, -1_000, -10 * DAY])
def test_versions_of_subscriptions_ascend_over_restarts(
    twin: Twin, *, by_ms: int, crashes: bool
) -> None:
    versions_ascend(twin, by_ms, crashes=crashes)


@pytest.mark.parametrize("crashes", [True, False])
def test_ids_ascend_over_a_topic_that_was_forgotten(twin: Twin, *, crashes: bool) -> None:
    ids_ascend(twin, crashes=crashes)


def test_the_cache_shows_no_message_that_a_pass_deleted(twin: Twin) -> None:
    cache_and_table_show_the_same(twin)


def test_an_earlier_clock_at_a_restart_shows_what_had_not_expired(twin: Twin) -> None:
    twin.await_(twin.services.messaging.publish(TOPIC, [b"1"]))
    elsewhere(twin, NOW_MS - DAY)
    first = twin.await_(twin.services.messaging.publish(TOPIC, [b"2"]))

    assert MessageId.decode(first.first_key + bytes(10)).publish_timestamp >= NOW_MS
    assert [payload for _, payload in twin.await_(twin.polled(TOPIC))] == [b"1", b"2"]


def test_bounds_of_a_store_without_a_mark_are_forgotten_once(twin: Twin) -> None:
    def record() -> None:
        batch = twin.store.batch()
        StoreBoundTable(twin.store).put(batch, Bound(MESSAGE, b"", b"\xff", 7, NOW_MS))
        twin.store.write(batch)

    record()
    twin.reopen(crashes=False)
    assert bound_of(twin.store) == 7, "there is a mark"
    twin.close()
    batch = twin.store.batch()
    with twin.store.scan(TRANSACTION, b"t", b"u") as rows:
        batch.delete_rows(TRANSACTION, [key for key, _ in rows])
    twin.store.write(batch)
    twin.open()

    assert bound_of(twin.store) == 0
    assert latest_mark(StoreTables(twin.store).transactions) is not None


def test_after_a_start_far_ahead_the_mark_and_a_longer_ttl_hide_nothing_for_good(
    twin: Twin,
) -> None:
    twin.await_(twin.services.messaging.publish(TOPIC, [b"1"]))
    starts_far_ahead(twin)
    twin.put_mark()
    twin.await_(twin.services.messaging.update_topic(TOPIC, {"ttl": 10 * DAY // 1_000}))
    mark = latest_mark(StoreTables(twin.store).transactions)
    twin.clock.step(-30 * DAY)

    assert mark is not None
    assert mark.expiry_ms == NOW_MS
    assert [payload for _, payload in twin.await_(twin.polled(TOPIC))] == [b"1"]


@pytest.mark.parametrize("boots", [True, False])
def test_a_second_start_does_not_end_the_wait_of_deletions(twin: Twin, *, boots: bool) -> None:
    starts_far_ahead(twin)
    twin.close()
    if boots:
        twin.clock.reboot()
    twin.clock.advance(60_000)
    twin.open()

    assert twin.services.engine.clock.deletion_ms() <= NOW_MS + 60_000


@given(st.builds(Mark, INT64, INT64, INT64, INT64, INT64, st.text(max_size=40)))
def test_a_mark_survives_and_damage_is_seen(mark: Mark) -> None:
    row = encode_mark(mark)

    assert decode_mark(row) == mark
    for damaged in (row[:-1], row[:-1] + bytes((row[-1] ^ 1,)), b"", b"\2" + row[1:]):
        with pytest.raises(StoreCorrupt):
            decode_mark(damaged)


def test_what_an_earlier_leader_puts_late_does_no_harm(twin: Twin) -> None:
    tables = StoreTables(twin.store)
    for token, mark in (
        (9, Mark(NOW_MS, NOW_MS, 5, 70, 80, "b")),
        (8, Mark(NOW_MS + DAY, NOW_MS + DAY, 6, 90, 20, "a")),
    ):
        batch = tables.batch()
        tables.transactions.put_mark(batch, token, encode_mark(mark))
        tables.write(batch)

    assert latest_mark(tables.transactions) == Mark(NOW_MS, NOW_MS, 5, 90, 80, "b")


@pytest.mark.parametrize(
    ("now_ms", "by_ms"), [(NOW_MS + DAY, NOW_MS), (NOW_MS - DAY, NOW_MS - DAY)]
)
def test_a_process_elsewhere_deletes_by_its_time_and_by_that_of_servers(
    now_ms: int, by_ms: int
) -> None:
    mark = Mark(NOW_MS, NOW_MS, 5, 0, 0, "b")

    assert ClockElsewhere(mark, ManualClock(now_ms)).deletion_ms() == by_ms
    assert ClockElsewhere(None, ManualClock(now_ms)).deletion_ms() == now_ms
