"""Connecting, closing, and many threads on one client."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tms
from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX, wait_until


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("localhost:11015", "give http://HOST:PORT"),
        ("redis://localhost", "give http://HOST:PORT"),
        ("", "give http://HOST:PORT"),
        ("http://", "names no host"),
        ("http://host:notaport", "is not a URL"),
        ("leveldb:", "leveldb:DIR"),
    ],
)
def test_a_wrong_url_is_reported_at_once(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        tms.connect(url)


def test_wrong_names_are_reported_at_once(client: tms.Client) -> None:
    with pytest.raises(tms.InvalidRequest) as namespace:
        tms.connect("memory:", "a-b")
    with pytest.raises(tms.InvalidRequest) as topic:
        client.topic("a.b")

    assert namespace.value.problem.code == "invalid_namespace_name"
    assert topic.value.problem.code == "invalid_topic_name"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("memory:", "memory:"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1"),
        ("http://me:secret@a:1,me:secret@b:2", "http://a:1,b:2"),
        ("https://me:secret@a:1/p@", "https://a:1/p@"),
    ],
)
def test_a_client_shows_its_principal_and_no_password(url: str, told: str) -> None:
    with tms.connect(url, "shop", allow_plaintext=True) as client:
        assert repr(client) == f"Client({told}, namespace=shop)"


def test_timeouts_of_a_client_are_durations() -> None:
    with (
        tms.connect("http://127.0.0.1:1", timeout_s="1m", retry_for_s="0s") as client,
        pytest.raises(tms.ServerUnreachable),
    ):
        client.topics()
    with pytest.raises(ValueError, match="'long' is not a valid duration"):
        tms.connect("http://127.0.0.1:1", timeout_s="long")


def test_no_server_is_reported_with_its_address() -> None:
    with (
        tms.connect("http://127.0.0.1:1", retry_for_s=0) as client,
        pytest.raises(tms.ServerUnreachable) as unreachable,
    ):
        client.topics()
    assert unreachable.value.detail["url"] == "http://127.0.0.1:1"


def test_what_leveldb_holds_is_there_for_the_next_client(tmp_path: Path) -> None:
    url = f"leveldb:{tmp_path / 'data'}"
    with tms.connect(url) as client:
        client.topic("orders").create()
        client.topic("orders").publish(b"kept")
        with pytest.raises(tms.StoreLocked):
            tms.connect(url)
    with tms.connect(url) as client:
        assert [message.payload for message in client.topic("orders").poll()] == [b"kept"]


def test_a_closed_client_says_so(client: tms.Client, topic: tms.Topic) -> None:
    client.close()
    client.close()

    with pytest.raises(RuntimeError, match="closed"):
        client.topics()
    with pytest.raises(RuntimeError, match="closed"):
        next(topic.poll())


def test_closing_amid_a_poll_is_quiet(
    client: tms.Client, topic: tms.Topic, caplog: pytest.LogCaptureFixture
) -> None:
    topic.publish([b"x" * 1000] * 5000)
    messages = topic.poll()
    next(messages)
    client.close()
    del messages

    assert [record for record in caplog.records if record.name == "asyncio"] == []


def test_closing_ends_what_other_threads_wait_for(client: tms.Client, topic: tms.Topic) -> None:
    with ThreadPoolExecutor(2) as threads:
        waits = [
            threads.submit(list, messages) for messages in (topic.follow(), topic.poll(wait_s=30))
        ]
        wait_until(lambda: sum(client._bridge.life.calls.values()) == 2)
        client.close()
        for wait in waits:
            with pytest.raises(tms.OutcomeUnknown):
                wait.result(WAIT_S_MAX)


def test_closing_amid_a_commit_does_not_wait_for_it(
    client: tms.Client, topic: tms.Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = threading.Event()
    remote = type(client._client.transactions)
    commit = remote.commit

    async def slow(*arguments: object) -> None:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        await commit(*arguments)  # type: ignore[arg-type]

    def work() -> None:
        with client.transaction() as tx:
            topic.publish(b"one", tx)

    monkeypatch.setattr(remote, "commit", slow)
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(work)
        begun.wait(WAIT_S_MAX)
        client.close()
        with pytest.raises(tms.OutcomeUnknown):
            working.result(WAIT_S_MAX)


def test_an_interrupted_call_leaves_the_client_usable(client: tms.Client, topic: tms.Topic) -> None:
    def interrupt_read() -> None:
        wait_until(lambda: any(client._bridge.life.calls.values()))
        os.kill(os.getpid(), signal.SIGINT)

    interrupt = threading.Thread(target=interrupt_read)
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        list(topic.poll(wait_s=30))
    interrupt.join()

    topic.publish(b"after")
    assert [message.payload for message in topic.poll()] == [b"after"]


def test_a_client_leaves_no_thread_behind(url: str) -> None:
    before = set(threading.enumerate())
    with tms.connect(url) as client:
        client.topics()
    with pytest.raises(ValueError, match="give http"):
        tms.connect("nothing")

    assert set(threading.enumerate()) <= before


def test_many_threads_publish_and_read_at_once(topic: tms.Topic) -> None:
    def publish(thread: int) -> None:
        for number in range(20):
            topic.publish(b"%d %d" % (thread, number))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(publish, range(8)))
        read = list(threads.map(lambda _: list(topic.poll()), range(4)))

    assert len(read[0]) == 160
    assert all(messages == read[0] for messages in read)
    for thread in range(8):
        own = [m.payload for m in read[0] if m.payload.startswith(b"%d " % thread)]
        assert own == [b"%d %d" % (thread, number) for number in range(20)]


def test_compressed_bodies_say_the_same(server: ServerProcess, namespace: str) -> None:
    messages = [b"again and again " * 100] * 50
    with tms.connect(server.url, namespace, compress=True) as client:
        topic = client.topic("orders")
        topic.create()
        topic.publish(messages)
        topic.publish(b"short")

        assert [m.payload for m in topic.poll()] == [*messages, b"short"]


def test_a_url_may_end_in_a_slash(server: ServerProcess, namespace: str) -> None:
    with tms.connect(server.url + "/", namespace) as client:
        assert client.topics() == []
