"""What readers see of a store on HBase is the same with cleanup and without, whoever cleans up.

The tables are cut in the middle of topics.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.stateful import run_state_machine_as_test

from cleanup.hbase.cleaner import RegionCleaner
from cleanup.hbase.parts import behind_ms
from dev.hbase.servers import HBaseServers
from tables.hbase import creation
from tables.hbase.layout import Place, Salt
from tables.hbase.store import HBaseStore
from tables.keys import payload_prefix, prefix
from tables.store import GROUP, MESSAGE, PAYLOAD, SUBSCRIPTION
from tests.cleanup.clock_stories import DEAD_MESSAGES
from tests.cleanup.compaction_machine import Compacting
from tests.cleanup.expiring_rows import (
    LIMITS,
    NAMES,
    NOW_MS,
    Rows,
    all_rows,
    kept_messages,
    kept_payloads,
    put,
    tables,
)
from tests.cleanup.nobody import NoServices
from tests.cleanup.twins import LIMITS as TWINS_LIMITS
from tests.cleanup.twins import NOW_MS as TWINS_NOW_MS
from tests.cleanup.twins import Twin
from tests.cleanup.twins_machine import TOPICS, Twins
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
from tests.tables.hbase.conftest import BUCKETS, gateway_to
from tests.tables.hbase.twins import WORKERS, HBaseTwin
from tms.core.clock import SystemClock
from tms.core.limits import Limits
from tms.core.message import KEY
from tms.core.store_features import GROUPS
from tms.core.topic import TopicId
from tms.core.transactions import StartRequest
from tms.server.jobs import open_pruning, prune_region, regions
from tms.settings import Settings

pytestmark = pytest.mark.slow

DAY_MS = 86_400_000
EXAMPLES = scaled(8)


@pytest.fixture(scope="module")
def cut_place(servers: HBaseServers) -> Place:
    """A store whose topics are in several regions each."""
    place = Place("127.0.0.1", servers.gateway_port, f"c{uuid.uuid4().hex[:8]}", BUCKETS)
    admin = ("127.0.0.1", servers.admin_port)
    ids = [TopicId("ns", name) for name in NAMES]
    messages = [
        prefix(topic, generation) + KEY.pack(now_ms - 60_000, 1)
        for topic in {*ids, *TOPICS, TOPIC}
        for generation, now_ms in ((1, TWINS_NOW_MS + 70_000), (2, NOW_MS))
    ]
    payloads = [payload_prefix(prefix(topic, 1), (NOW_MS - 60_001) * 1_000_000) for topic in ids]
    for table, keys in ((MESSAGE, messages), (PAYLOAD, payloads)):
        salt = Salt(table, BUCKETS)
        cuts = {*salt.split_keys(), *(salt.of(key) + key for key in keys)}
        creation._create_split(admin, None, place.name_of(table), sorted(cuts))
    creation.create(place, gateway_to(place), admin)
    return place


@pytest.fixture(scope="module")
def cut_store(cut_place: Place) -> Iterator[HBaseStore]:
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
def twin(cut_place: Place, request: pytest.FixtureRequest) -> Iterator[Twin]:
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
    """As `tms prune` does it, by this machine's clock."""
    with closing(open_pruning(url, Settings(), WORKERS)) as pruning:
        for _ in pruning.steps():
            pass


def prune_each_region(url: str) -> None:
    """As Spark's job does it, by this machine's clock."""
    for region in regions(url, Settings()):
        prune_region(Settings(), region)


@pytest.mark.parametrize("prunes", [prune, prune_each_region])
def test_a_pruner_whose_wall_is_ahead_deletes_only_what_servers_give_no_more(
    cut_place: Place, prunes: Callable[[str], None]
) -> None:
    """By 400 days, so that by its clock all has expired."""
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
    twin.reopen(crashes=True)  # so that all is read from the tables
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


@pytest.mark.parametrize("is_apart", [False, True])
@pytest.mark.usefixtures("_timeouts_by_hand")
def test_readers_of_twins_see_the_same(cut_place: Place, *, is_apart: bool) -> None:
    """The first twin is on HBase, and cleaned up; the other is in memory, and never is."""

    class HBaseTwins(Twins):
        is_first = True

        def make(  # type: ignore[override]
            self, loop: asyncio.AbstractEventLoop, clock: ManualClock
        ) -> Twin:
            if not self.is_first:
                return Twin(loop, clock)
            self.is_first = False
            return HBaseTwin(loop, clock, place=cut_place, is_apart=is_apart)

    run_state_machine_as_test(
        HBaseTwins,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=20,
        ),
    )


@pytest.mark.usefixtures("_timeouts_by_hand")
def test_readers_find_the_same_of_each_key(cut_place: Place) -> None:
    """The first twin is on HBase, and compacted; the other is in memory, and never is."""

    class HBaseCompacting(Compacting):
        is_first = True
        limits = replace(TWINS_LIMITS, cleanup_keys_max=2)
        tombstone_s = 600  # at least, on a store where writes may come late
        pace = 20

        def make(self, loop: asyncio.AbstractEventLoop, clock: ManualClock, limits: Limits) -> Twin:
            if not self.is_first:
                return Twin(loop, clock, limits)
            self.is_first = False
            return HBaseTwin(loop, clock, limits, place=cut_place, is_apart=False)

    run_state_machine_as_test(
        HBaseCompacting,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=20,
        ),
    )
