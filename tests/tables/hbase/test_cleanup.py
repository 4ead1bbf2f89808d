"""The deletions of cleanup in a store on HBase whose regions split topics."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings

from cleanup.hbase.cleaner import RegionCleaner
from cleanup.hbase.parts import behind_ms
from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tables.keys import payload_prefix, prefix
from tables.store import GROUP, MESSAGE, PAYLOAD, SUBSCRIPTION
from tests.cleanup.clock_stories import DEAD_MESSAGES
from tests.cleanup.expiring_rows import (
    LIMITS,
    NOW_MS,
    Rows,
    all_rows,
    kept_messages,
    kept_payloads,
    put,
    tables,
)
from tests.cleanup.nobody import NoServices
from tests.cleanup.twins import NOW_MS as TWINS_NOW_MS
from tests.cleanup.twins import Twin
from tests.contracts.invalid_contract import (  # noqa: F401  run here on these twins
    OTHER,
    STAY_MS,
    TOPIC,
    _timeouts_by_hand,
    committed,
    invalid,
    listed,
    publish,
    test_a_dead_message_is_never_seen_by_whom_cleanup_knows_it,
    test_a_pass_with_nothing_new_writes_nothing,
    test_an_older_reader_holds_the_inversion,
    test_checkpoints_are_inverted_too,
    test_one_that_waits_holds_the_bound_and_not_the_inversion_of_others,
    test_references_are_inverted_and_their_payloads_stay,
)
from tests.contracts.store_contract import empty
from tests.manual_clock import ManualClock
from tests.scale import scaled
from tests.tables.hbase.conftest import gateway_to
from tests.tables.hbase.cut_tables import cut_place  # noqa: F401  a fixture
from tests.tables.hbase.twins import WORKERS, HBaseTwin
from tms.core.runtime.clock import SystemClock
from tms.core.services.transactions import StartRequest
from tms.core.values.message import KEY
from tms.core.values.store_features import GROUPS
from tms.core.values.topic import TopicId
from tms.server.jobs import open_pruning, prune_region, regions
from tms.settings import Settings

pytestmark = pytest.mark.slow

DAY_MS = 86_400_000
EXAMPLES = scaled(8)


@pytest.fixture(scope="module")
def cut_store(cut_place: Place) -> Iterator[HBaseStore]:  # noqa: F811
    store = HBaseStore(cut_place, gateway_to(cut_place))
    yield store
    store.close()


@settings(
    max_examples=EXAMPLES * 3,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(found=tables())
def test_a_pass_leaves_what_the_policy_keeps(
    cut_store: HBaseStore, found: tuple[dict[str, int], Rows, Rows]
) -> None:
    empty(cut_store)
    topics, messages, payloads = found
    put(cut_store, topics, messages, payloads)
    clock = ManualClock(NOW_MS + behind_ms(cut_store))
    cleaner = RegionCleaner(cut_store, NoServices(), LIMITS, clock, workers=WORKERS)
    for _ in cleaner.steps():
        pass

    assert set(all_rows(cut_store, MESSAGE)) == kept_messages(topics, messages)
    # A part cannot know whether the next region has a greater row of its last pointer.
    left = set(all_rows(cut_store, PAYLOAD))
    kept = kept_payloads(topics, payloads)
    assert kept <= left
    assert len(left - kept) <= len(cut_store.regions(PAYLOAD))


def test_passes_in_one_process_find_what_expires_between_them(cut_store: HBaseStore) -> None:
    empty(cut_store)
    clock = ManualClock(NOW_MS)
    start = prefix(TopicId("ns", "a"), 1)
    messages = {start + KEY.pack(NOW_MS + n * 1000, 0): b"\0x" for n in range(100)}
    pointer = payload_prefix(start, NOW_MS * 1_000_000)
    payloads = {pointer + KEY.pack(NOW_MS + n * 1000, 0): b"x" for n in range(100)}
    put(cut_store, {"a": 1}, messages, payloads)
    cleaner = RegionCleaner(cut_store, NoServices(), LIMITS, clock, workers=WORKERS)
    for second in range(1, 200, 13):
        clock.set(NOW_MS + behind_ms(cut_store) + second * 1000)
        for _ in cleaner.steps():
            pass
        left = min(99, max(0, second - 60))
        assert set(all_rows(cut_store, MESSAGE)) == set(sorted(messages)[left:])
        assert set(all_rows(cut_store, PAYLOAD)) == set(sorted(payloads)[left:])


@pytest.mark.parametrize("table", [SUBSCRIPTION, GROUP])
def test_positions_and_groups_of_dead_generations_go(cut_store: HBaseStore, table: str) -> None:
    cut_store.add_feature(GROUPS)
    empty(cut_store)
    rows = {prefix(TopicId("ns", "a"), generation) + b"x": b"" for generation in (1, 2)}
    batch = cut_store.batch()
    batch.put_rows(table, rows.items())
    cut_store.write(batch)
    put(cut_store, {"a": 2}, {}, {})
    for _ in RegionCleaner(
        cut_store, NoServices(), LIMITS, ManualClock(NOW_MS), workers=WORKERS
    ).steps():
        pass

    assert list(all_rows(cut_store, table)) == sorted(rows)[1:]


@pytest.fixture(params=[False, True], ids=["in-server", "apart"])
def twin(cut_place: Place, request: pytest.FixtureRequest) -> Iterator[Twin]:  # noqa: F811
    loop = asyncio.new_event_loop()
    twin = HBaseTwin(loop, ManualClock(TWINS_NOW_MS), place=cut_place, is_apart=request.param)
    for topic_id in (TOPIC, OTHER):
        twin.await_(twin.services.messaging.create_topic(topic_id))
    yield twin
    twin.close()
    loop.close()


@pytest.mark.usefixtures("_timeouts_by_hand")
def test_the_cache_knows_what_was_inverted_before_the_list_forgets_it(twin: Twin) -> None:
    publish(twin, b"1")
    invalid(twin, b"dead", b"dead")
    twin.clean()
    twin.clock.advance(STAY_MS + 1)
    twin.clean()

    assert listed(twin) == []
    assert committed(twin) == [b"1"]


@pytest.mark.parametrize("story", DEAD_MESSAGES)
@pytest.mark.usefixtures("_timeouts_by_hand")
def test_a_dead_message_is_found_however_far_from_its_pointer(
    twin: Twin, story: Callable[[Twin], None]
) -> None:
    story(twin)


def prune(url: str) -> None:
    """Prune the store like `tms prune`, by this machine's clock."""
    with closing(open_pruning(url, Settings(), WORKERS)) as pruning:
        for _ in pruning.steps():
            pass


def prune_each_region(url: str) -> None:
    """Prune each region like Spark's job, by this machine's clock."""
    for region in regions(url, Settings()):
        prune_region(Settings(), region)


@pytest.mark.parametrize("prunes", [prune, prune_each_region])
def test_a_pruner_whose_wall_is_ahead_deletes_only_what_servers_give_no_more(
    cut_place: Place,  # noqa: F811
    prunes: Callable[[str], None],
) -> None:
    """The wall is 400 days ahead, so that by it everything has expired."""
    url = f"hbase://{cut_place.host}:{cut_place.port}/{cut_place.prefix}"
    loop = asyncio.new_event_loop()
    clock = ManualClock(SystemClock().now_ms() - 400 * DAY_MS)
    twin = HBaseTwin(loop, clock, place=cut_place, is_apart=False)
    twin.await_(twin.services.messaging.create_topic(TOPIC, {"ttl": 604_800}))
    for number in range(3):
        publish(twin, b"%d" % number)
    pointer = twin.await_(twin.transactions.start(StartRequest())).transaction_id
    twin.await_(twin.services.messaging.store(TOPIC, [b"stored"], pointer))
    prunes(url)
    twin.reopen(crashes=True)  # so that everything is read from the tables
    twin.await_(twin.services.messaging.publish(TOPIC, [], pointer))
    twin.await_(twin.transactions.commit(pointer))

    assert committed(twin) == [b"0", b"1", b"2", b"stored"]
    twin.clock.advance(8 * DAY_MS)
    publish(twin, b"new")
    twin.put_mark()
    prunes(url)
    twin.reopen(crashes=True)
    assert committed(twin) == [b"new"]
    assert len(all_rows(twin.store, MESSAGE)) == 1, "what has expired for servers too is gone"
    twin.close()
    loop.close()
