"""Topics: names, properties, ttl, generation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.errors import InvalidRequest
from tms.core.values.topic import TopicId, TopicMetadata, parse_properties

DEFAULT_S = 604_800


@pytest.mark.parametrize("name", ["t", "topic-1", "topic_2", "A" * 255, "0"])
def test_names_of_topics(name: str) -> None:
    assert TopicId("default", name).name == name


@pytest.mark.parametrize("name", ["", "a.b", "a:b", "a b", "ä", "A" * 256, "a\n", "a/b"])
def test_what_is_not_a_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        TopicId("default", name)
    assert refused.value.problem.code == "invalid_topic_name"
    with pytest.raises(InvalidRequest) as refused:
        TopicId(name, "t")
    assert refused.value.problem.code == "invalid_namespace_name"


def test_a_namespace_has_no_dash() -> None:
    with pytest.raises(InvalidRequest):
        TopicId("a-b", "t")


def test_properties_have_defaults_and_are_strings() -> None:
    assert parse_properties(None, DEFAULT_S) == (DEFAULT_S, {})
    assert parse_properties({}, DEFAULT_S) == (DEFAULT_S, {})
    assert parse_properties({"ttl": 5, "owner": "me"}, DEFAULT_S) == (5, {"owner": "me"})
    assert parse_properties({"ttl": "5", "n": 1.5}, DEFAULT_S) == (5, {"n": "1.5"})


def test_a_generation_given_by_the_user_is_ignored() -> None:
    """CDAP: a generation sent by the client is ignored; one that is not a number is 400."""
    assert parse_properties({"generation": "7"}, DEFAULT_S) == (DEFAULT_S, {})
    for wrong in ("x", "0", ""):
        with pytest.raises(InvalidRequest):
            parse_properties({"generation": wrong}, DEFAULT_S)


@pytest.mark.parametrize(
    "ttl", [0, -1, "0", "x", "", "1.5", 1.5, 2**31, "9" * 30, "1_0", "٣", " 1"]
)
def test_a_wrong_ttl_is_refused(ttl: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_properties({"ttl": ttl}, DEFAULT_S)

    assert refused.value.problem.code == "invalid_ttl"


@pytest.mark.parametrize(
    "given_",
    [
        *([], "x", 5, {"a": None}, {"a": {}}, {"a": []}, {"a": True}),
        *({"a": 10**5_000}, {"a": "\ud800"}, {"\ud800": "a"}),
    ],
)
def test_properties_of_another_shape_are_refused(given_: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_properties(given_, DEFAULT_S)

    assert refused.value.problem.code == "invalid_properties"


TTLS_S = st.integers(1, 2**31 - 1)
TIMES_MS = st.integers(0, 2**42)


@given(
    TTLS_S,
    st.integers(-(2**31), 2**31 - 1).filter(bool),
    st.dictionaries(st.text().filter(lambda k: k not in {"ttl", "generation"}), st.text()),
    TIMES_MS,
)
def test_a_topic_survives_its_row(
    ttl_s: int, generation: int, properties: dict[str, str], live_from_ms: int
) -> None:
    properties.pop("live_from_ms", None)
    topic = TopicMetadata(TopicId("n", "t"), generation, ttl_s, properties, live_from_ms)
    told, stored = topic.all_properties(), topic.stored_properties()

    assert TopicMetadata.of(topic.id, stored) == topic
    assert list(told) == sorted(told)
    assert list(stored) == sorted(stored)
    assert "live_from_ms" not in told
    assert (stored == told) == (live_from_ms == 0)
    assert topic.exists == (generation > 0)


@pytest.mark.parametrize("value", ["", "soon", "0", "07", "+7", "-7", "9" * 19])
def test_what_a_user_had_under_a_name_that_is_ours_now_stays(value: str) -> None:
    stored = {"generation": "1", "live_from_ms": value, "ttl": "5"}
    topic = TopicMetadata.of(TopicId("n", "t"), stored)

    assert topic.live_from_ms == 0
    assert topic.stored_properties() == stored


def test_what_a_client_gives_for_what_is_ours_is_dropped() -> None:
    assert parse_properties({"live_from_ms": 7, "owner": "me"}, DEFAULT_S) == (
        DEFAULT_S,
        {"owner": "me"},
    )


@given(TTLS_S, TIMES_MS, TIMES_MS, TIMES_MS)
def test_what_was_written_at_a_time_dies_at_one(
    ttl_s: int, live_from_ms: int, written_ms: int, now_ms: int
) -> None:
    topic = TopicMetadata(TopicId("n", "t"), 1, ttl_s, {}, live_from_ms)

    assert (written_ms < topic.first_live_ms(now_ms)) == (now_ms >= topic.dies_ms(written_ms))


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 10)), min_size=1, max_size=8))
def test_what_has_expired_once_stays_expired(changes: list[tuple[int, int]]) -> None:
    """This holds however and whenever the ttl is changed, as long as time goes forward."""
    topic, now_ms, expired_ms = TopicMetadata(TopicId("n", "t"), 1, 5, {}), 10_000, 0
    for later_ms, ttl_s in changes:
        now_ms += later_ms
        before_ms = topic.first_live_ms(now_ms)
        topic = topic.changed(ttl_s, {}, now_ms)
        assert topic.first_live_ms(now_ms) >= before_ms >= expired_ms
        expired_ms = topic.first_live_ms(now_ms)
        assert expired_ms <= now_ms


@given(TTLS_S, TTLS_S, TIMES_MS, TIMES_MS)
def test_only_a_longer_ttl_writes_down_what_has_expired(
    old_s: int, new_s: int, live_from_ms: int, now_ms: int
) -> None:
    old = TopicMetadata(TopicId("n", "t"), 1, old_s, {"a": "b"}, live_from_ms)
    new = old.changed(new_s, {"c": "d"}, now_ms)
    longer = max(live_from_ms, now_ms - old_s * 1000)

    assert new == TopicMetadata(
        old.id, 1, new_s, {"c": "d"}, longer if new_s > old_s else live_from_ms
    )


def test_a_ttl_longer_than_time_has_lasted_expires_nothing() -> None:
    assert TopicMetadata(TopicId("n", "t"), 1, 2**31 - 1, {}).first_live_ms(1_000) == 0
