"""The client for threads is what `dev/sync_client.py` makes of the one for asyncio."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, assert_type

import pytest

import tms
import tms.aio
from dev.sync_classes import MADE, OWN, SENTENCES, Made
from dev.sync_client import text_of


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.name)
def test_the_committed_file_is_what_its_source_makes(made: Made) -> None:
    text = made.path.read_text(encoding="utf-8")

    assert text == text_of(made), "its source has changed: run `python -m dev.sync_client`"


def test_what_is_said_to_differ_does() -> None:
    """An exception whose source has changed is reported, not just passed over."""
    texts = {made.name: " ".join(made.path.read_text(encoding="utf-8").split()) for made in MADE}

    assert [other for other in SENTENCES.values() if other not in " ".join(texts.values())] == []
    for name, own in OWN.items():
        place, _, function = name.rpartition(".")
        text = texts[place or "Client"]
        assert f"def {function}(" in text, name
        assert " ".join(own.also.split()) in text, name


POLLS = [
    tms.Topic.poll,
    tms.Topic.poll_arrow,
    tms.Topic.follow,
    tms.Subscription.poll,
    tms.aio.AsyncTopic.poll,
    tms.aio.AsyncTopic.poll_arrow,
    tms.aio.AsyncTopic.follow,
    tms.aio.AsyncSubscription.poll,
]


@pytest.mark.parametrize("method", POLLS, ids=lambda method: method.__qualname__)
def test_options_are_shown_with_their_defaults_as_arguments(method: Callable[..., Any]) -> None:
    shown = inspect.signature(method).parameters

    assert [name for name, each in shown.items() if each.kind is each.VAR_KEYWORD] == []
    assert (shown["committed"].annotation, shown["committed"].default) == (bool, False)
    assert all(each.default is not each.empty for name, each in shown.items() if name != "self")
    assert [name for name in shown if f"`{name}" not in f"{tms.Topic.poll.__doc__} `self`"] == []


@pytest.mark.parametrize("method", POLLS, ids=lambda method: method.__qualname__)
def test_an_option_that_there_is_not_is_refused_as_any_argument(
    method: Callable[..., Any],
) -> None:
    with pytest.raises(TypeError, match=rf"^{method.__name__}\(\) got an unexpected .*'latest'$"):
        method(object(), latest=True)


def test_follow_refuses_an_option_of_poll_alone(client: tms.Client) -> None:
    with pytest.raises(TypeError, match="'limit'"):
        client.topic("t").follow(limit=1)  # type: ignore[call-overload]


def test_type_checkers_know_what_polls_take_and_give() -> None:
    """Asserted by mypy, which is run on this file; nothing is called."""

    def threads(topic: tms.Topic, tx: tms.Transaction) -> None:
        assert_type(topic.poll(after=b"", limit=5, wait_s=1.5), tms.Messages[tms.Message])
        assert_type(topic.poll(tx=tx, decode=True), tms.Messages[tms.Record])
        assert_type(topic.follow(start=1, committed=True), tms.Messages[tms.Message])
        assert_type(topic.follow(decode=tms.Decoding()), tms.Messages[tms.Record])
        assert_type(topic.subscription("s").poll(5, tx=tx), tms.Messages[tms.Message])
        topic.poll(limit="5")  # type: ignore[call-overload]
        topic.follow(wait_s=1.0)  # type: ignore[call-overload]
        topic.poll_arrow(committed=1)  # type: ignore[arg-type]

    def tasks(topic: tms.aio.AsyncTopic) -> None:
        assert_type(topic.poll(end="0"), tms.aio.AsyncMessages[tms.Message])
        assert_type(topic.follow(decode=True), tms.aio.AsyncMessages[tms.Record])

    assert callable(threads)
    assert callable(tasks)


def test_iterators_that_call_the_client_are_read_by_the_thread_that_gives_them(
    client: tms.Client,
) -> None:
    """An iterator read in the client's own loop would wait there for that loop."""
    source, target = client.topic("source"), client.topic("target")
    source.create()
    target.create()
    source.publish([b"1", b"2"])

    def payloads() -> Iterator[bytes]:
        return (message.payload for message in source.poll())

    target.publish(payloads())
    client.publish_all({"target": payloads()})
    assert client.ranges(client.topic(name).name for name in client.topics()).keys() == {
        "source",
        "target",
    }
    assert [message.payload for message in target.poll()] == [b"1", b"2", b"1", b"2"]


@pytest.mark.parametrize("url", ["memory:"])
def test_a_call_that_would_wait_for_itself_is_refused(client: tms.Client) -> None:
    class ReadByTheLoop:
        def __iter__(self) -> Iterator[str]:
            return iter(client.topics())

    with pytest.raises(RuntimeError, match="would wait for itself"):
        client.ranges(ReadByTheLoop())
    assert client.topics() == []
