"""Topics: names, properties, ttl, generation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tms.core.errors import InvalidRequest
from tms.core.topic import Topic, TopicId, parse_properties

DEFAULT_S = 604_800


@pytest.mark.parametrize("name", ["t", "topic-1", "topic_2", "A" * 255, "0"])
def test_names_of_topics(name: str) -> None:
    assert TopicId("default", name).name == name


@pytest.mark.parametrize("name", ["", "a.b", "a:b", "a b", "ä", "A" * 256, "a\n", "a/b"])
def test_what_is_no_name_is_refused(name: str) -> None:
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
    """CDAP: a generation sent by the client is ignored; one that is no number is 400."""
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


@pytest.mark.parametrize("given_", [[], "x", 5, {"a": None}, {"a": {}}, {"a": []}, {"a": True}])
def test_properties_of_another_shape_are_refused(given_: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_properties(given_, DEFAULT_S)

    assert refused.value.problem.code == "invalid_properties"


@given(
    st.integers(1, 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1).filter(bool),
    st.dictionaries(st.text().filter(lambda k: k not in ("ttl", "generation")), st.text()),
)
def test_a_topic_survives_its_properties(
    ttl_s: int, generation: int, properties: dict[str, str]
) -> None:
    topic = Topic(TopicId("n", "t"), generation, ttl_s, properties)

    assert Topic.of(topic.id, topic.all_properties()) == topic
    assert list(topic.all_properties()) == sorted(topic.all_properties())
    assert topic.exists == (generation > 0)
