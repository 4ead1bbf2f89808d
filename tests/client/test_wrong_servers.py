"""A server that is not TMS is reported as such within five seconds."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest

import tms
from tests.cli.conftest import run_command
from tests.client.faulty_server import HEALTH, FaultyServer, answer
from tms.cli import target
from tms.cli.failure import ExitCode
from tms.client.remote import first_contact

Call = Callable[[tms.Client], object]

TOLD_S_MAX = 5.0
TIMEOUT_S = 1.6
HTML = (
    b"HTTP/1.1 %d OK\r\nContent-Type: text/html; charset=utf-8\r\n"
    b"Content-Length: 15\r\nConnection: close\r\n\r\n<h1>welcome</h1"
)
NO_HTTP = b"SSH-2.0-OpenSSH_9.2p1\r\n"
SAID = {
    "a page": (HTML % 200, "it answers 200 text/html"),
    "a page of an error": (HTML % 404, "it answers 404 text/html"),
    "a refusal": (HTML % 403, "it answers 403 text/html"),
    "an answer of another kind": (answer(404, b"no such thing"), "it answers 404"),
    "no HTTP": (NO_HTTP, "it does not speak HTTP but answers 'SSH-2.0-OpenSSH_9.2p1'"),
}
CALLS: dict[str, Call] = {
    "topics": lambda client: client.topics(),
    "publish": lambda client: client.topic("t").publish(b"x"),
    "poll": lambda client: list(client.topic("t").poll()),
    "follow": lambda client: next(client.topic("t").follow()),
    "transaction": lambda client: client.transactions.start(tms.StartRequest()),
}


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report a silent server sooner than usual."""
    assert first_contact.PATIENCE_S + first_contact.HEALTH_S < TOLD_S_MAX
    monkeypatch.setattr(first_contact, "PATIENCE_S", 0.3)
    monkeypatch.setattr(first_contact, "HEALTH_S", 1.0)


@pytest.mark.parametrize(("said", "reason"), SAID.values(), ids=SAID)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_another_server_is_reported_at_once_and_not_asked_again(
    call: Call, said: bytes, reason: str
) -> None:
    with FaultyServer(said, said, is_tms=False) as server, tms.connect(server.url) as client:
        with pytest.raises(tms.NotTms) as wrong:
            call(client)
        assert len([r for r in server.requests if not r.line.startswith(HEALTH)]) == 1

    assert wrong.value.detail["url"] == server.url
    assert wrong.value.detail["reason"] == reason


@pytest.mark.parametrize(("said", "reason"), SAID.values(), ids=SAID)
def test_a_command_reports_it_in_a_line(said: bytes, reason: str) -> None:
    with FaultyServer(said, said, is_tms=False) as server:
        code, out, err = run_command("--url", server.url, "topic", "list")

    assert (code, out) == (1, "")
    assert err == f"{server.url} answers, but it is not TMS: {reason}. Check --url or TMS_URL.\n"


@pytest.mark.usefixtures("_impatient")
def test_a_port_that_takes_connections_and_says_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The caller chooses how long to wait for an answer."""
    with (
        FaultyServer(None, None, is_tms=False) as server,
        tms.connect(server.url, timeout_s=TIMEOUT_S) as client,
    ):
        with pytest.raises(tms.ServerSilent) as silent:
            client.topics()
        assert [request.line for request in server.requests] == [
            "GET /v1/namespaces/default/topics HTTP/1.1",
            "GET /health HTTP/1.1",
        ]

    assert isinstance(silent.value, tms.OutcomeUnknown), "it may be a TMS that hangs"
    assert silent.value.detail["url"] == server.url
    assert "has not said a byte" in caplog.text, "that is told before the time is over"


@pytest.mark.usefixtures("_impatient")
def test_a_command_reports_silence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "connect", partial(tms.connect, timeout_s=TIMEOUT_S))
    with FaultyServer(None, None, is_tms=False) as server:
        code, _, err = run_command("--url", server.url, "publish", "t", "x")

    assert code == ExitCode.UNKNOWN
    waiting, told = err.splitlines()
    assert waiting.startswith(f"{server.url} accepts connections but has not said a byte")
    assert told.startswith(f"{server.url} accepts connections but does not answer")


@pytest.mark.usefixtures("_impatient")
def test_a_server_that_is_only_slow_is_waited_for() -> None:
    """The server answers a health check on a second connection, so the client keeps waiting."""
    with (
        FaultyServer(None) as server,
        tms.connect(server.url, timeout_s=1.5, retry_for_s=0) as client,
        pytest.raises(tms.AnswerLost),
    ):
        client.topics()


@pytest.mark.usefixtures("_impatient")
def test_a_port_that_greets_and_waits() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def greet(held: ExitStack) -> None:
            for _ in range(2):
                held.enter_context(listener.accept()[0]).sendall(NO_HTTP)

        with ThreadPoolExecutor() as thread, tms.connect(url) as client, ExitStack() as held:
            greeting = thread.submit(greet, held)
            with pytest.raises(tms.NotTms, match=r"SSH-2\.0"):
                client.topics()
            greeting.result()


@pytest.mark.usefixtures("_impatient")
def test_one_that_has_answered_before_is_not_asked_how_it_is() -> None:
    with (
        FaultyServer(answer(200, b"[]"), None) as server,
        tms.connect(server.url, timeout_s=1.0, retry_for_s=0) as client,
    ):
        client.topics()
        with pytest.raises(tms.OutcomeUnknown):
            client.topics()
        assert len(server.requests) == 2
