"""Programs create their group at every start, several at once, whatever happened to it before."""

import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tms
from tms.core.values.group_settings import DEFAULTS, SETTABLE, GroupOptions


@pytest.mark.parametrize("changes", [{"paused": True}, {"lease_s": 60, "open_max": 5}])
def test_a_group_that_was_changed_since_is_created_as_it_is(
    topic: tms.Topic, changes: GroupOptions, caplog: pytest.LogCaptureFixture
) -> None:
    group = topic.group("billing")
    group.create(order="key", retry_s=7)
    changed = group.set(**changes)
    caplog.set_level("INFO", "tms.client")
    assert group.create(order="key", retry_s=7) == changed
    assert ("exists already; its settings are not changed" in caplog.text) == (
        "paused" not in changes
    )
    assert group.create(order="key").settings.retry_s == 7


@pytest.mark.parametrize("kind", [tms.TopicGroup, tms.aio.AsyncTopicGroup])
def test_options_are_shown_with_their_defaults(kind: type[Any]) -> None:
    shown = inspect.signature(kind.create).parameters
    assert {name: shown[name].default for name in SETTABLE} == {
        name: getattr(DEFAULTS, name) for name in SETTABLE
    }
    assert (shown["lease_s"].annotation, shown["paused"].annotation) == (int, bool)


def test_type_checkers_know_the_options() -> None:
    """Asserted by mypy, which is run on this file; nothing is called."""

    def threads(group: tms.TopicGroup) -> None:
        group.create("key", lease_s=5, paused=True)
        group.create(lease_s="5")  # type: ignore[arg-type]
        group.create(latest=True)  # type: ignore[call-arg]
        group.set(order="key")  # type: ignore[call-arg]


def test_a_group_of_another_order_does_not_count(topic: tms.Topic) -> None:
    topic.group("billing").create()
    with pytest.raises(tms.SubscriptionExists):
        topic.group("billing").create(order="key")
    topic.subscription("reader").create()
    with pytest.raises(tms.SubscriptionExists):
        topic.group("reader").create()


def test_programs_that_start_at_once_all_have_it(topic: tms.Topic) -> None:
    """This includes programs that start while the first creation is being written."""
    topic.group("first").create()
    with ThreadPoolExecutor(8) as threads:
        groups = list(threads.map(lambda _: topic.group("billing").create(), range(8)))
        readers = list(
            threads.map(lambda _: topic.subscription("reader").create(exist_ok=True), range(8))
        )
    assert len({group.version for group in groups}) == 1
    assert len({reader.version for reader in readers}) == 1
