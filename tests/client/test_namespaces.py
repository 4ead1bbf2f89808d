"""Namespaces from Python, on a server and on a store in the process: the same rules."""

from pathlib import Path

import pytest

import tms
from tests.client.faulty_server import FaultyServer, answer, refusal

SMALL = tms.NamespaceSettings(message_bytes_max=5, ttl_s_max=100)


def test_settings_are_given_shown_listed_and_deleted(client: tms.Client, namespace: str) -> None:
    namespaces = client.namespaces
    assert namespaces.namespace(namespace).version is None

    declared = namespaces.declare(namespace, SMALL)

    assert (declared.version, declared.settings) == (0, SMALL)
    assert (declared.rules.ttl_s_default, declared.rules.message_bytes_max) == (100, 5)
    assert namespaces.namespace(namespace) == declared
    assert declared in namespaces.namespaces()
    namespaces.delete(namespace)
    assert declared not in namespaces.namespaces()
    with pytest.raises(tms.NamespaceNotDeclared):
        namespaces.delete(namespace)


def test_who_goes_beyond_them_is_refused(client: tms.Client, topic: tms.Topic) -> None:
    client.namespaces.declare(topic.namespace, SMALL)

    with pytest.raises(tms.TooLarge, match="the limit of its namespace"):
        topic.publish(b"123456")
    with pytest.raises(tms.InvalidRequest, match="longest ttl of the topic's namespace"):
        client.topic("long").create(ttl=101)
    topic.publish(b"12345")
    with pytest.raises(tms.InvalidRequest):
        client.namespaces.declare("a-b", SMALL)


def test_settings_survive_a_restart(tmp_path: Path) -> None:
    url = f"leveldb:{tmp_path / 'data'}"
    with tms.connect(url) as client:
        client.namespaces.declare("default", SMALL)
        client.namespaces.declare("default", SMALL)

    with tms.connect(url) as client:
        assert client.namespaces.namespace("default").version == 1
        topic = client.topic("t")
        topic.create()
        with pytest.raises(tms.TooLarge):
            topic.publish(b"123456")


def test_a_store_in_the_process_refuses_beyond_the_rate() -> None:
    with tms.connect("memory:") as client:
        topic = client.topic("t")
        topic.create()
        client.namespaces.declare("default", tms.NamespaceSettings(publish_messages_per_s=1))
        topic.publish([b"1"] * 100)
        with pytest.raises(tms.RateExceeded) as refused:
            topic.publish(b"1")

    assert 96 <= refused.value.detail["retry_after_s"] <= 100


def test_a_publish_beyond_the_rate_is_repeated_when_the_server_says(tmp_path: Path) -> None:
    busy = refusal(429, "publish_rate_exceeded", retry_after="1")
    with (
        FaultyServer(busy, answer(200, b"")) as server,
        tms.connect(server.url, retry_for_s=30.0) as client,
    ):
        client.topic("t").publish(b"x")
        assert len(server.requests) == 2


@pytest.mark.parametrize("body", [b"{}", b"[", b'{"name": 5}'])
def test_an_answer_that_is_none_is_the_servers_fault(body: bytes) -> None:
    with (
        FaultyServer(answer(200, body)) as server,
        tms.connect(server.url) as client,
        pytest.raises(tms.InternalError),
    ):
        client.namespaces.namespace("default")
