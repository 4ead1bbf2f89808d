"""Metrics of topics and namespaces: totals are the sums of all, and their number is bounded."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tms.core.values.topic import TopicId
from tms.messaging.traffic import OTHER, Traffic, TrafficByTopic

TOPICS = [TopicId(namespace, name) for namespace in ("a", "b", "c") for name in ("x", "y", "z")]
STEPS = st.lists(
    st.tuples(st.sampled_from(("publish", "poll", "delete")), st.sampled_from(TOPICS)), max_size=60
)


def told(traffic: TrafficByTopic) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the samples by metric and labels."""
    return {
        family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples}
        for family in traffic.collect()
    }


@given(steps=STEPS, series_max=st.integers(1, 10))
def test_nothing_is_lost_and_no_more_series_than_may_be(
    steps: list[tuple[str, TopicId]], series_max: int
) -> None:
    by_topic = TrafficByTopic(series_max)
    states: dict[TopicId, Traffic] = {}
    of_namespaces: Counter[str] = Counter()
    polled = 0
    for step, topic_id in steps:
        if step == "delete":
            states.pop(topic_id, None)
            by_topic.deleted(topic_id)
            continue
        traffic = states.setdefault(topic_id, by_topic.of(topic_id))
        if step == "publish":
            traffic.published_messages += 1
            traffic.published_bytes += 10
            of_namespaces[topic_id.namespace] += 1
        else:
            traffic.polled_messages += 1
            traffic.polled_bytes += 10
            polled += 1

    samples = told(by_topic)
    for of in ("topic", "namespace"):
        for number in ("published", "polled"):
            messages = samples[f"tms_{of}_{number}_messages"]
            sizes = samples[f"tms_{of}_{number}_bytes"]
            assert len(messages) <= series_max + 1
            assert sizes == {labels: 10 * value for labels, value in messages.items()}
    published = samples["tms_namespace_published_messages"]
    assert sum(published.values()) == sum(of_namespaces.values())
    assert sum(samples["tms_namespace_polled_messages"].values()) == polled
    for (name,), value in published.items():
        assert name == OTHER or value == of_namespaces[name]


def test_a_topic_has_its_own_number_until_it_is_deleted() -> None:
    by_topic = TrafficByTopic(2)
    first, second, third = TOPICS[:3]
    for topic_id, count in ((first, 1), (second, 2), (third, 4)):
        by_topic.of(topic_id).published_messages += count

    by_name = told(by_topic)["tms_topic_published_messages"]
    assert by_name == {("a", "x"): 1, ("a", "y"): 2, (OTHER, OTHER): 4}

    by_topic.deleted(first)
    by_topic.of(third).published_messages += 8
    samples = told(by_topic)
    assert samples["tms_topic_published_messages"] == {
        ("a", "y"): 2,
        ("a", "z"): 8,
        (OTHER, OTHER): 4,
    }
    assert samples["tms_namespace_published_messages"] == {("a",): 15, (OTHER,): 0}
