"""Topics are compacted when that is worthwhile, and the cache is updated."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cleanup.ranges import Reason
from tests.cleanup.compaction_machine import TOMBSTONE_S, TOPIC, Write, bodies
from tests.cleanup.twins import LIMITS, NOW_MS, Twin
from tests.manual_clock import ManualClock
from tms.core.errors import InvalidRequest, TopicIsCompact
from tms.core.services.transactions import StartRequest
from tms.core.values.message import FIRST_ID, Message
from tms.core.values.reading import Reading, View, isolation_of
from tms.core.values.topic import TopicId

ALL = isolation_of(committed=False)
COMPACT = {"cleanup": "compact", "tombstone_s": TOMBSTONE_S}


@pytest.fixture
def twin() -> Iterator[Twin]:
    loop = asyncio.new_event_loop()
    twin = Twin(loop, ManualClock(NOW_MS), replace(LIMITS, cleanup_slice_rows=50))
    twin.await_(twin.services.messaging.create_topic(TOPIC, COMPACT))
    yield twin
    twin.close()
    loop.close()


def publish(twin: Twin, *writes: Write, pointer: int | None = None) -> list[bytes]:
    return list(twin.await_(twin.services.messaging.publish(TOPIC, bodies([*writes]), pointer)))


def read(twin: Twin, view: View = ALL, topic_id: TopicId = TOPIC) -> list[Message]:
    async def read() -> list[Message]:
        blocks = twin.services.messaging.poll(topic_id, Reading(FIRST_ID, 10_000, view))
        return [message async for block in blocks for message in block]

    return twin.await_(read())


def payloads(twin: Twin, view: View = ALL) -> list[bytes]:
    return [message.payload for message in read(twin, view)]


def passed(twin: Twin, *, is_on_demand: bool = False) -> dict[str, int]:
    """Do a pass; return how many rows it dropped, by reason."""
    counts: dict[str, int] = {}
    for step in twin.cleaner.steps(is_on_demand=is_on_demand):
        if step.dropped:
            counts[step.reason] = counts.get(step.reason, 0) + step.dropped
    return counts


def test_a_topic_is_compacted_when_half_of_it_is_new(twin: Twin) -> None:
    publish(twin, *[(b"%d" % n, b"old") for n in range(10)])
    assert passed(twin) == {}
    publish(twin, *[(b"%d" % n, b"new") for n in range(9)])
    assert passed(twin) == {}
    publish(twin, (b"9", b"new"))
    assert passed(twin) == {Reason.SUPERSEDED: 10}
    assert payloads(twin) == [b"new"] * 10


def test_it_is_compacted_when_somebody_asks(twin: Twin) -> None:
    publish(twin, *[(b"%d" % n, b"old") for n in range(10)])
    passed(twin)
    publish(twin, (b"0", b"new"))
    assert passed(twin, is_on_demand=True) == {Reason.SUPERSEDED: 1}
    assert passed(twin, is_on_demand=True) == {}


def test_it_is_compacted_again_when_what_held_it_up_has_ended(twin: Twin) -> None:
    held = twin.await_(twin.transactions.start(StartRequest())).transaction_id
    publish(twin, (b"a", b"1"))
    publish(twin, (b"b", b"2"), pointer=held)
    publish(twin, (b"a", b"3"))
    assert passed(twin) == {}
    assert passed(twin) == {}
    twin.await_(twin.transactions.commit(held))
    assert passed(twin) == {Reason.SUPERSEDED: 1}
    assert payloads(twin) == [b"2", b"3"]


def test_a_tombstone_goes_after_its_time(twin: Twin) -> None:
    publish(twin, (b"a", b"1"), (b"a", None), (b"b", b"2"))
    assert passed(twin) == {Reason.SUPERSEDED: 1}
    assert [message.is_tombstone for message in read(twin)] == [True, False]
    twin.clock.advance(TOMBSTONE_S * 1_000 + 1)
    assert passed(twin) == {Reason.TOMBSTONE: 1}
    assert payloads(twin) == [b"2"]


def test_what_was_rolled_back_goes_after_that_time(twin: Twin) -> None:
    tx = twin.await_(twin.transactions.start(StartRequest())).transaction_id
    published = twin.await_(twin.services.messaging.publish(TOPIC, bodies([(b"a", b"1")]), tx))
    assert published.rollback_range is not None
    twin.await_(twin.rolled_back(TOPIC, published.rollback_range))
    twin.await_(twin.transactions.abort(tx))
    publish(twin, (b"b", b"2"))
    assert passed(twin) == {}
    assert payloads(twin) == [b"1", b"2"]
    twin.clock.advance(TOMBSTONE_S * 1_000 + 1)
    assert passed(twin) == {Reason.ROLLED_BACK: 1}
    assert payloads(twin) == [b"2"]


def test_ids_continue_from_the_greatest_also_if_it_says_nothing(twin: Twin) -> None:
    first = publish(twin, (b"a", b"1"), (b"a", None))
    twin.clock.advance(TOMBSTONE_S * 1_000 + 1)
    passed(twin)
    twin.reopen(crashes=True)
    assert [message.id for message in read(twin)] == [first[1]]
    conditional = twin.services.messaging.publish(TOPIC, bodies([(b"b", b"2")]), if_last=first[1])
    assert twin.await_(conditional)[0] > first[1]


def test_the_cache_and_the_table_say_the_same_afterwards(twin: Twin) -> None:
    for number in range(20):
        publish(twin, *[(b"%d" % n, b"%d" % number) for n in range(30)])
    assert passed(twin) == {Reason.SUPERSEDED: 570}
    tail = publish(twin, (b"x", b"y"))
    state = twin.services.engine.states.peek(TOPIC)
    assert state is not None
    assert state.cache.floor[:10] <= tail[0][:10]
    checked = twin.await_(twin.services.messaging.cache_check().problems("", 100))
    assert checked[0] == []
    assert len(read(twin)) == 31
    twin.reopen(crashes=False)
    assert len(read(twin)) == 31


def test_messages_without_keys_are_refused_and_nothing_is_stored(twin: Twin) -> None:
    messaging = twin.services.messaging
    mixed = bodies([(b"a", b"1"), (b"b", b"2")])
    keyless = [*mixed, b"plain"]
    for asked in (
        messaging.publish(TOPIC, keyless),
        messaging.publish(TOPIC, [b"plain"]),
        messaging.publish_all({TOPIC: [b"plain"]}),
    ):
        with pytest.raises(InvalidRequest) as refused:
            twin.await_(asked)
        assert refused.value.problem.code == "key_required"
    tx = twin.await_(twin.transactions.start(StartRequest())).transaction_id
    with pytest.raises(TopicIsCompact):
        twin.await_(messaging.store(TOPIC, mixed, tx))
    assert read(twin) == []


def test_what_a_topic_had_before_it_was_compact_stays_if_it_has_no_key(twin: Twin) -> None:
    messaging = twin.services.messaging
    twin.await_(messaging.update_topic(TOPIC, {}))
    twin.await_(messaging.publish(TOPIC, [b"no key", b"nor this"]))
    publish(twin, (b"a", b"1"), (b"a", b"2"))
    twin.await_(messaging.update_topic(TOPIC, COMPACT))
    assert passed(twin) == {Reason.SUPERSEDED: 1}
    assert payloads(twin) == [b"no key", b"nor this", b"2"]
    twin.await_(messaging.update_topic(TOPIC, {"cleanup": "delete"}))
    publish(twin, (b"a", b"3"))
    assert passed(twin, is_on_demand=True) == {}


def test_a_run_ends_if_the_topic_is_compact_no_more(
    twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(twin, *[(b"a", b"%d" % n) for n in range(500)])
    monkeypatch.setattr("cleanup.compact_topics._ASK_AGAIN_S", 0.0)
    dropped = 0
    for step in twin.cleaner.steps():
        dropped += step.dropped
        if dropped == step.dropped > 0:
            twin.await_(twin.services.messaging.update_topic(TOPIC, {}))
    assert 0 < dropped < 400
    assert len(read(twin)) == 500 - dropped


def test_ttl_and_compaction_work_together(twin: Twin) -> None:
    publish(twin, (b"a", b"1"), (b"b", b"2"))
    twin.await_(twin.services.messaging.update_topic(TOPIC, {**COMPACT, "ttl": 10}))
    twin.clock.advance(8_000)
    publish(twin, (b"a", b"3"))
    assert passed(twin) == {Reason.SUPERSEDED: 1}
    twin.clock.advance(3_000)
    assert payloads(twin) == [b"3"]
    assert passed(twin) == {Reason.TTL: 1}
    assert payloads(twin) == [b"3"]
