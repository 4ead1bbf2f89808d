"""The rules of a schedule as pure functions, and its rows."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tables.keys import prefix
from tables.memory import MemoryStore
from tables.schedule_table import StoreScheduleTable, counting_rows, row_of_schedule
from tables.store import GROUP
from tms.core.values.frame import FramedBody, encode_body
from tms.core.values.schedules import (
    FIRST_PLACE,
    LAST_PLACE,
    DuePlace,
    ScheduledRow,
    place_of,
)
from tms.core.values.topic import TopicId
from tms.messaging.schedules.due_topics import DueTopics

PREFIX = prefix(TopicId("default", "t"), 1)
TIMES = st.integers(0, (1 << 63) - 1)
PLACES = st.builds(DuePlace, TIMES, TIMES)
SMALL = st.builds(DuePlace, st.integers(0, 3), st.integers(1, 40))
FRAMED = FramedBody(encode_body(b"payload", b"key")[0])


class Elsewhere(MemoryStore):
    """A store that reports that writes may arrive late."""

    is_embedded = False


@given(PLACES)
def test_an_id_names_its_place(place: DuePlace) -> None:
    assert place_of(place.id) == place
    assert place_of(place.id.upper()) == place


@given(st.lists(PLACES, min_size=2))
def test_ids_and_keys_ascend_as_places_do(places: list[DuePlace]) -> None:
    assert [each.id for each in sorted(places)] == sorted(each.id for each in places)


@given(st.lists(SMALL, unique=True), st.sets(SMALL), st.integers(1, 5), st.booleans())
def test_pages_have_all_rows_that_count(
    places: list[DuePlace], cancelled: set[DuePlace], rows_max: int, is_elsewhere: Any
) -> None:
    store = Elsewhere() if is_elsewhere else MemoryStore()
    rows = StoreScheduleTable(store).read(PREFIX).rows
    bodies = {each: FRAMED if each.number % 2 else b"%d" % each.number for each in places}
    batch = store.batch()
    rows.put(batch, [ScheduledRow(*each) for each in bodies.items()])
    store.write(batch)
    for each in cancelled:
        batch = store.batch()
        rows.cancel(batch, each)
        store.write(batch)
    late = store.batch()  # a remote store may carry out a write again
    if is_elsewhere:
        rows.put(late, [ScheduledRow(each, b"late") for each in cancelled])
        store.write(late)

    waiting = sorted(set(places) - cancelled)
    found: list[ScheduledRow] = []
    watermark = FIRST_PLACE
    while True:
        page = rows.page(watermark, LAST_PLACE, rows_max=rows_max)
        assert len(page.rows) <= rows_max
        found += page.rows
        if page.is_empty:
            break
        through = page.through(LAST_PLACE)
        batch = store.batch()
        rows.publish(batch, page, through)
        store.write(batch)
        assert (page.next is None) == (through == LAST_PLACE)
        watermark = through
        assert StoreScheduleTable(store).read(PREFIX).watermark == watermark
    assert [each.place for each in found] == waiting
    assert all(type(row.body) is type(bodies[row.place]) for row in found)
    assert [row.body for row in found] == [bodies[each] for each in waiting]
    with store.scan(GROUP, b"", b"\xff") as left:
        facts = [row_of_schedule(PREFIX, key) for key, _ in left]
    is_moved = bool(waiting or (is_elsewhere and cancelled))
    assert facts == [{"watermark": True, "token": 0}] * is_moved


@given(st.lists(SMALL, unique=True), st.sets(SMALL), SMALL)
def test_a_copy_has_what_counts(
    places: list[DuePlace], cancelled: set[DuePlace], watermark: DuePlace
) -> None:
    store = Elsewhere()
    rows = StoreScheduleTable(store).read(PREFIX).rows
    batch = store.batch()
    page = rows.page(FIRST_PLACE, FIRST_PLACE, rows_max=1)
    rows.publish(batch, page, watermark)
    rows.put(batch, [ScheduledRow(each, b"") for each in places])
    store.write(batch)
    for each in cancelled:
        batch = store.batch()
        rows.cancel(batch, each)
        store.write(batch)
    waiting = sorted(each for each in set(places) - cancelled if each > watermark)

    copied = list(counting_rows(store, PREFIX))
    assert copied == sorted(copied)
    target = MemoryStore()
    batch = target.batch()
    batch.put_rows(GROUP, copied)
    target.write(batch)
    stored = StoreScheduleTable(target).read(PREFIX)
    assert stored.watermark == watermark
    found = stored.rows.page(watermark, LAST_PLACE, rows_max=1_000)
    assert [each.place for each in found.rows] == waiting
    assert stored.rows.count(watermark, limit=1_000) == (len(waiting), None)
    parts, count = 0, 0
    at: DuePlace | None = watermark
    while at is not None:
        some, at = rows.count(at, limit=2)
        count, parts = count + some, parts + 1
    assert count == len(waiting)


def test_a_later_leaders_watermark_counts() -> None:
    class Led(StoreScheduleTable):
        token = 5

        def _token(self) -> int:
            return self.token

    store = Elsewhere()
    for token, due_ms in ((5, 100), (7, 50)):
        table = Led(store)
        table.token = token
        batch = store.batch()
        rows = table.read(PREFIX).rows
        rows.publish(batch, rows.page(FIRST_PLACE, FIRST_PLACE, rows_max=1), DuePlace(due_ms, 1))
        store.write(batch)
    assert StoreScheduleTable(store).read(PREFIX).watermark == DuePlace(50, 1)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9))), st.integers(0, 9))
def test_the_topics_that_are_due_are_taken_in_order(
    puts: list[tuple[str, int]], now_ms: int
) -> None:
    due, least = DueTopics(), dict[TopicId, int]()
    for name, due_ms in puts:
        topic = TopicId("default", name)
        is_first = due.put(topic, due_ms)
        least[topic] = min(due_ms, least.get(topic, due_ms))
        assert not is_first or due_ms == min(least.values())
    assert due.first_ms() == min(least.values(), default=None)
    taken = due.take(now_ms, 10)
    assert taken == sorted((due_ms, each) for each, due_ms in least.items() if due_ms <= now_ms)
    assert len(due) == len(least) - len(taken)
