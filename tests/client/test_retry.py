"""The calls that are repeated after a failure, and those that are left to the caller.

The server here breaks connections at chosen points; `requests` shows how often a call was sent.
"""

import logging
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import tms
from tests.client.faulty_server import FaultyServer, answer, refusal
from tests.waiting import WAIT_S_MAX, wait_until
from tms.client.remote import retry
from tms.client.remote.error_answers import error_from
from tms.core.services.messaging import RollbackRange
from tms.core.values.message import Message, MessageBlock, id_after
from tms.wire.avro_frames import AVRO_FRAMES
from tms.wire.bodies import PollRequest

Call = Callable[[tms.Client], object]

POINTER = 1_785_585_600_000_000_000
RANGE = RollbackRange(POINTER, 1, 0, 1, 0)

READS: dict[str, tuple[Call, bytes]] = {
    "topics": (lambda client: client.topics(), b"[]"),
    "properties": (
        lambda client: client.topic("t").properties(),
        b'{"name": "t", "properties": {"ttl": "1", "generation": "1"}}',
    ),
    "flat properties": (
        lambda client: client.topic("t").properties(),
        b'{"ttl": "1", "generation": "1"}',
    ),
    "poll": (lambda client: list(client.topic("t").poll()), b"\x00"),
}
REPEATABLE_CHANGES: dict[str, tuple[Call, bytes]] = {
    "replace_properties": (lambda client: client.topic("t").replace_properties(), b""),
    "rollback": (lambda client: client.topic("t").rollback(RANGE), b""),
}
OTHER_CHANGES: dict[str, tuple[Call, bytes]] = {
    "create": (lambda client: client.topic("t").create(), b""),
    "delete": (lambda client: client.topic("t").delete(), b""),
    "publish": (lambda client: client.topic("t").publish(b"x"), b""),
    "store": (lambda client: client.topic("t").store(b"x", POINTER), b""),
}

safe = pytest.mark.parametrize(
    ("call", "body"),
    [pytest.param(*case, id=name) for name, case in (READS | REPEATABLE_CHANGES).items()],
)
once = pytest.mark.parametrize(
    ("call", "body"), [pytest.param(*case, id=name) for name, case in OTHER_CHANGES.items()]
)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_backoff", lambda _: 0.01)


@safe
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(b"", id="no answer"),
        pytest.param(answer(200, announced=99), id="cut off"),
        pytest.param(refusal(503, "store_unavailable"), id="store_unavailable"),
        pytest.param(refusal(503, "queue_full"), id="queue_full"),
        pytest.param(refusal(504, "outcome_unknown"), id="outcome_unknown"),
        pytest.param(answer(502, b"<html>"), id="a proxy's 502"),
        pytest.param(answer(503, b"<html>"), id="a proxy's 503"),
    ],
)
def test_what_may_be_done_twice_is_repeated(call: Call, body: bytes, fault: bytes) -> None:
    with FaultyServer(fault, answer(200, body)) as server, tms.connect(server.url) as client:
        call(client)
        assert len(server.requests) == 2
        assert server.requests[0] == server.requests[1]


@once
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(b"", id="no answer"),
        pytest.param(answer(200, announced=99), id="cut off"),
        pytest.param(answer(502, b"<html>"), id="a proxy's 502"),
        pytest.param(answer(503, b"<html>"), id="a proxy's 503"),
        pytest.param(answer(504, b"<html>"), id="a proxy's 504"),
    ],
)
def test_what_may_have_been_done_is_not_repeated(call: Call, body: bytes, fault: bytes) -> None:
    with FaultyServer(fault, answer(200, body)) as server, tms.connect(server.url) as client:
        with pytest.raises(tms.OutcomeUnknown):
            call(client)
        assert len(server.requests) == 1


@once
def test_a_write_of_unknown_outcome_is_left_to_the_caller(call: Call, body: bytes) -> None:
    fault = refusal(504, "outcome_unknown")
    with FaultyServer(fault, answer(200, body)) as server, tms.connect(server.url) as client:
        with pytest.raises(tms.OutcomeUnknown) as unknown:
            call(client)
        assert len(server.requests) == 1
    assert unknown.value.detail == {"n": 1}


@once
@pytest.mark.parametrize("code", ["queue_full", "stopping", "store_unavailable"])
def test_what_was_refused_untouched_is_repeated(call: Call, body: bytes, code: str) -> None:
    fault = refusal(503, code)
    with FaultyServer(fault, answer(200, body)) as server, tms.connect(server.url) as client:
        call(client)
        assert len(server.requests) == 2


def test_the_time_the_server_asks_for_is_waited() -> None:
    fault = refusal(503, "queue_full", retry_after="1")
    with FaultyServer(fault, answer(200)) as server, tms.connect(server.url) as client:
        begun = time.monotonic()
        client.topic("t").publish(b"x")
        assert time.monotonic() - begun >= 1


def test_a_wait_beyond_the_time_for_retries_is_not_begun(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "tms.client")
    fault = refusal(503, "queue_full", retry_after="60")
    with (
        FaultyServer(fault) as server,
        tms.connect(server.url) as client,
        pytest.raises(tms.QueueFull),
    ):
        client.topic("t").publish(b"x")
    assert "trying again" not in caplog.text


def test_a_server_that_comes_late_is_waited_for(
    free_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tms.client")
    url = f"http://127.0.0.1:{free_port}"
    with tms.connect(url) as client, ThreadPoolExecutor(1) as threads:
        publish = threads.submit(client.topic("t").publish, b"x")
        wait_until(lambda: "trying again" in caplog.text)
        with FaultyServer(answer(200), port=free_port) as server:
            publish.result(WAIT_S_MAX)
            assert len(server.requests) == 1


def test_retries_end(free_port: int) -> None:
    with (
        tms.connect(f"http://127.0.0.1:{free_port}", retry_for_s=0.4) as client,
        pytest.raises(tms.ServerUnreachable),
    ):
        client.topics()


def test_what_is_tried_again_is_logged_with_the_reason_and_the_pause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "tms.client")
    busy = refusal(503, "queue_full", retry_after="0")
    with FaultyServer(b"", busy, answer(200, b"[]")) as server, tms.connect(server.url) as client:
        assert client.topics() == []

    lost, refused, again = caplog.records
    assert (lost.levelno, refused.levelno, again.levelno) == (
        logging.WARNING,
        logging.INFO,
        logging.INFO,
    )
    assert re.fullmatch(
        rf"No answer from {server.url} \(the server closed the connection\): "
        r"trying again in \d\.\d s",
        lost.getMessage(),
    )
    assert "Too much is waiting to be written" in refused.getMessage()
    assert re.fullmatch(r"Answered again, after \d+\.\d s and 3 attempts", again.getMessage())


def test_what_succeeds_at_once_or_is_not_tried_again_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "tms.client")
    missing = refusal(404, "topic_not_found")
    with FaultyServer(answer(200, b"[]"), missing) as server, tms.connect(server.url) as client:
        client.topics()
        with pytest.raises(tms.TopicNotFound):
            client.topic("t").properties()

    assert caplog.records == []


def test_no_answer_in_time_leaves_the_outcome_unknown() -> None:
    with (
        FaultyServer(None) as server,
        tms.connect(server.url, timeout_s=0.2) as client,
        pytest.raises(tms.OutcomeUnknown),
    ):
        client.topic("t").publish(b"x")


MESSAGES = [Message(b"%d" % n * 100, id=tms.MessageId(1000 + n, 0).encode()) for n in range(10)]
WHOLE = AVRO_FRAMES.encode_block(MessageBlock.of(MESSAGES), first=True) + b"\x00"
FIVE = AVRO_FRAMES.encode_block(MessageBlock.of(MESSAGES[:5]), first=True)


@pytest.mark.parametrize("sent", range(0, len(WHOLE), 67))
def test_a_poll_cut_anywhere_continues_after_the_last_message(sent: int) -> None:
    given = sum(WHOLE.index(message.payload) + 100 <= sent for message in MESSAGES)
    rest = AVRO_FRAMES.encode_block(MessageBlock.of(MESSAGES[given:]), first=True) + b"\x00"
    cut = answer(200, WHOLE[:sent], announced=len(WHOLE))
    with FaultyServer(cut, answer(200, rest)) as server, tms.connect(server.url) as client:
        assert list(client.topic("t").poll(limit=100)) == MESSAGES
        again = AVRO_FRAMES.decode_poll(server.requests[1].body)
    start = id_after(MESSAGES[given - 1].id) if given else bytes(20)
    assert again == PollRequest(start, True, 100 - given, None)


def test_an_answer_without_its_end_is_noticed() -> None:
    rest = AVRO_FRAMES.encode_block(MessageBlock.of(MESSAGES[5:]), first=True) + b"\x00"
    ended = FaultyServer(answer(200, FIVE), answer(200, rest))
    with ended as server, tms.connect(server.url) as client:
        assert list(client.topic("t").poll()) == MESSAGES


def test_a_poll_that_lost_only_its_end_is_done() -> None:
    cut = answer(200, FIVE, announced=len(FIVE) + 1)
    with FaultyServer(cut) as server, tms.connect(server.url) as client:
        assert list(client.topic("t").poll(limit=5)) == MESSAGES[:5]
        assert len(server.requests) == 1


def test_a_wait_is_asked_for_in_the_query() -> None:
    with FaultyServer(answer(200, b"\x00")) as server, tms.connect(server.url, "ns") as client:
        list(client.topic("t").poll(wait_s=2.5))
        assert server.requests[0].line == (
            "POST /v1/namespaces/ns/topics/t/poll?wait=2.500 HTTP/1.1"
        )


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (404, "not_tms"),
        (405, "not_tms"),
        (413, "request_too_large"),
        (401, "not_tms"),
        (500, "internal"),
        (302, "not_tms"),
    ],
)
def test_an_answer_that_is_not_ours_is_reported_by_its_status(status: int, code: str) -> None:
    error = error_from(status, {}, b"<html>no</html>")

    assert error.problem.code == code
    assert {"status": status, "answer": "<html>no</html>"}.items() <= error.detail.items()


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"error": "x"}', b"\xff", b'{"error": {"code": 5}}']
)
def test_any_body_makes_an_error(body: bytes) -> None:
    assert isinstance(error_from(500, {}, body), tms.InternalError)


def test_a_code_of_a_newer_server_keeps_what_it_says() -> None:
    body = b'{"error": {"code": "too_tired", "message": "Sleep first.", "detail": {"h": 8}}}'
    error = error_from(503, {b"retry-after": b"8"}, body)

    assert type(error) is tms.InternalError
    assert error.detail == {"code": "too_tired", "message": "Sleep first.", "h": 8}


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.topics(),
        lambda client: client.topic("t").publish(b"x", POINTER),
        lambda client: list(client.topic("t").poll()),
    ],
)
def test_an_answer_that_makes_no_sense_is_the_servers_fault(call: Call) -> None:
    with (
        FaultyServer(answer(200, b"\x01nonsense")) as server,
        tms.connect(server.url) as client,
        pytest.raises(tms.InternalError),
    ):
        call(client)
