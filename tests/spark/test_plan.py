"""Plans read everything once, or say what is lost."""

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from tms.core.values.message import FIRST_ID, MessageId
from tms.spark.offsets import Offset, Standing
from tms.spark.plan import Span, latest, packed, parts_for, plan, shares


def at(time_ms: int) -> bytes:
    return MessageId(time_ms, 0).encode()


TOPICS = ("a", "b", "c")
times = st.integers(1, 50)


@st.composite
def standings(draw: st.DrawFn) -> Standing:
    start, end = sorted((draw(times), draw(times)))
    return Standing(at(start), at(end), draw(st.integers(1, 2)), kept_from=at(start))


all_standings = st.fixed_dictionaries(dict.fromkeys(TOPICS, st.none() | standings()))
all_offsets = st.dictionaries(
    st.sampled_from(TOPICS),
    st.builds(Offset, st.just(FIRST_ID) | times.map(at), st.integers(1, 2)),
)


@given(all_offsets, all_standings)
def test_a_plan_reads_all_from_start_to_end_or_says_what_is_lost(
    start: dict[str, Offset], there: dict[str, Standing | None]
) -> None:
    ends, losses_on_the_way = latest(start, there)
    planned = plan(start, ends, there)
    lost = {loss.topic for loss in [*losses_on_the_way, *planned.losses]}
    read = {one.topic: one for one in planned.ranges}

    for topic, standing in there.items():
        if standing is None:
            assert (topic in lost) == (topic in start)
            continue
        begin = start.get(topic, Offset(FIRST_ID, standing.generation))
        if topic not in lost:
            assert begin.generation == standing.generation or begin.position == FIRST_ID
            first = max(begin.position, standing.start)
            if first < standing.end:
                assert (read[topic].start, read[topic].end) == (first, standing.end)
            else:
                assert topic not in read
        elif topic in read:
            assert read[topic].start == standing.start


@given(all_offsets, all_standings)
def test_an_offset_never_goes_back(
    start: dict[str, Offset], there: dict[str, Standing | None]
) -> None:
    ends, _ = latest(start, there)

    for topic in start.keys() & ends.keys():
        if start[topic].generation == ends[topic].generation:
            assert start[topic].position <= ends[topic].position


@given(all_standings)
def test_batches_one_after_another_leave_nothing_out_and_give_nothing_twice(
    there: dict[str, Standing | None],
) -> None:
    """A batch may end anywhere; the next one begins there."""
    ends, _ = latest({}, there)
    half = {topic: end._replace(position=at(25)) for topic, end in ends.items()}
    half = {topic: min(half[topic], ends[topic]) for topic in ends}
    first, second = plan({}, half, there), plan(half, ends, there)
    whole = {one.topic: (one.start, one.end) for one in plan({}, ends, there).ranges}
    parts = {one.topic: (one.start, one.end) for one in first.ranges}
    for one in second.ranges:
        start, end = parts.get(one.topic, (one.start, one.start))
        assert one.start == end
        parts[one.topic] = (start, one.end)

    assert not first.losses
    assert whole == parts


def test_an_expired_message_is_a_loss_only_where_it_was_claimed_to_be_there() -> None:
    there = {"a": Standing(at(10), at(20), 1, kept_from=at(10))}
    end = {"a": Offset(at(20), 1)}

    assert not plan({"a": Offset(FIRST_ID, 1)}, end, there).losses
    [loss] = plan({"a": Offset(at(5), 1)}, end, there).losses
    assert (loss.topic, loss.reason, loss.now) == ("a", "messages have expired", at(10))


def test_an_empty_stretch_that_is_older_than_the_time_to_live_is_not_a_loss() -> None:
    there = {"a": Standing(at(10), at(20), 1, kept_from=at(4))}

    assert not plan({"a": Offset(at(5), 1)}, {"a": Offset(at(20), 1)}, there).losses


def test_a_topic_created_again_is_read_from_its_start() -> None:
    there = {"a": Standing(at(30), at(40), 2, kept_from=at(30))}
    planned = plan({"a": Offset(at(5), 1)}, {"a": Offset(at(40), 2)}, there)

    assert [loss.reason for loss in planned.losses] == ["the topic was created again"]
    assert [(one.start, one.end) for one in planned.ranges] == [(at(30), at(40))]


@given(
    st.integers(1, 10**6),
    st.dictionaries(st.text(max_size=3), st.integers(0, 10**9), min_size=1),
)
def test_shares_are_in_proportion_and_not_more_than_the_limit(
    limit: int, sizes: dict[str, int]
) -> None:
    parts = shares(limit, sizes)

    assert parts.keys() == sizes.keys()
    assert min(parts.values()) >= 1
    assert sum(parts.values()) <= limit + len(sizes)
    by_size = sorted(sizes, key=lambda name: sizes[name])
    assert all(parts[one] <= parts[other] for one, other in combinations(by_size, 2))


spans = st.lists(
    st.tuples(st.sampled_from(TOPICS), st.integers(1, 5), st.integers(0, 1000)), max_size=30
)


@given(spans, st.integers(1, 12))
def test_packing_keeps_all_in_order_in_no_more_runs_than_asked(
    drawn: list[tuple[str, int, int]], parts: int
) -> None:
    given_spans: list[Span] = []
    ends = dict.fromkeys(TOPICS, 0)
    for topic, length, size in sorted(drawn, key=lambda one: one[0]):
        begin = ends[topic]
        ends[topic] = begin + length
        given_spans.append(Span(topic, at(begin), at(begin + length), size))
    runs = packed(given_spans, parts)

    assert len(runs) <= parts
    assert all(runs)
    flat = [span for run in runs for span in run]
    assert sum(span.size for span in flat) == sum(span.size for span in given_spans)
    assert flat == sorted(flat, key=lambda span: (span.topic, span.start))
    for topic in TOPICS:
        of_topic = [span for span in flat if span.topic == topic]
        assert all(a.end == b.start for a, b in pairwise(of_topic))


def test_equal_spans_are_packed_evenly() -> None:
    runs = packed([Span("a", at(i), at(i + 1), 100) for i in range(40)], 4)

    assert [run[0].size // 100 for run in runs] == [10, 10, 10, 10]


def test_how_many_partitions() -> None:
    assert parts_for(1000, None, 8) == 1, "a task for less than a quarter of a MiB is a waste"
    assert parts_for(10 << 20, None, 8) == 8
    assert parts_for(1 << 40, None, 8) == 1 << 15
    assert parts_for(1000, 5, 8) == 5
    assert parts_for(0, None, 8) == 8, "a size that is not known"
