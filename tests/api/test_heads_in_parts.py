"""Requests are answered the same however they come and whatever heads are known by then."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from itertools import accumulate, pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn import Config
from uvicorn.server import ServerState

from api.deadlines import Timeouts
from api.direct import DirectProtocol, HotApp
from api.known_heads import Fields, KnownHeads, Target
from api.runs import Run
from tables.memory import MemoryStore
from tests.api.heads import HEAD_BYTES, KNOWN, ONE, PUBLISH, UNFOUND, request
from tests.api.rest import AVRO_TYPE, TOPIC, TOPICS, Rest, avro_publish, opened
from tms.core.tables import Batch


class _Recorded(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def answers(self) -> list[int]:
        """Return the statuses of what was written."""
        return [int(answer[:3]) for answer in self.written.split(b"HTTP/1.1 ")[1:]]

    def has(self, count: int) -> bool:
        """Return whether so many answers were written."""
        return len(self.answers()) == count

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """Take what comes anyway, as a socket does whose bytes are here already."""

    resume_reading = pause_reading


class _Connections:
    """Makes connections to one application in an event loop of their own."""

    def __init__(self, runner: asyncio.Runner, rest: Rest) -> None:
        self.runner = runner
        self.rest = rest

    def connect(self, idle: Timeouts[DirectProtocol]) -> tuple[DirectProtocol, _Recorded]:
        """Return a connection to a server that knows no head, and what it writes to."""
        transport = _Recorded()
        protocol = DirectProtocol(
            Config(self.rest.app, lifespan="off", log_config=None, proxy_headers=False),
            ServerState(),
            {},
            asyncio.get_running_loop(),
            idle=idle,
            head_bytes_max=65536,
            runs=set[Run](),
            known_heads=KnownHeads(),
        )
        protocol.connection_made(transport)
        return protocol, transport

    def answers(self, asked: list[bytes], bounds: list[int], *, patient: bool = True) -> list[int]:
        """Return the statuses that requests are answered with, cut at `bounds` as they come.

        Where `patient`, each piece comes only after the answers that are due.
        """
        return self.runner.run(self._answers(asked, sorted({0, *bounds}), patient))

    async def _answers(self, asked: list[bytes], bounds: list[int], patient: bool) -> list[int]:  # noqa: FBT001  as above
        protocol, transport = self.connect(Timeouts(60, DirectProtocol.end))
        sent, ends = b"".join(asked), list(accumulate(map(len, asked)))
        for start, end in pairwise([*(bound for bound in bounds if bound < len(sent)), len(sent)]):
            protocol.data_received(sent[start:end])
            if patient or end == len(sent):
                due = sum(each <= end for each in ends)
                await self.rest.until(partial(transport.has, due))
        return transport.answers()


@pytest.fixture(scope="module")
def connections() -> Iterator[_Connections]:
    with asyncio.Runner() as runner:
        context = opened()
        rest = runner.run(context.__aenter__())
        runner.run(rest.create())
        yield _Connections(runner, rest)
        runner.run(context.__aexit__(None, None, None))


CHUNKED = KNOWN[:HEAD_BYTES].replace(
    b"content-length: %d" % len(ONE), b"transfer-encoding: chunked"
) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(ONE), ONE)
REQUESTS = {
    KNOWN: 200,
    request(PUBLISH, avro_publish(b"y")): 200,
    request(PUBLISH, b"\xff" * len(ONE)): 400,
    request(f"{TOPICS}/none/publish", ONE): 404,
    request(f"{TOPIC}/poll", b"\xff"): 400,
    request(PUBLISH, avro_publish(KNOWN)): 200,
    CHUNKED: 200,
    b"\r\n" + KNOWN: 200,
    KNOWN.replace(b"content-length: ", b"content-length: 0"): 200,
    b"GET /none HTTP/1.1\r\nhost: t\r\n\r\n": 404,
}


@given(
    asked=st.lists(st.sampled_from(list(REQUESTS)), min_size=1, max_size=6),
    cuts=st.none() | st.lists(st.integers(1, 1500), max_size=6),
    patient=st.booleans(),
)
def test_requests_are_answered_however_they_come(
    connections: _Connections,
    *,
    asked: list[bytes],
    cuts: list[int] | None,
    patient: bool,
) -> None:
    bounds = list(accumulate(map(len, asked))) if cuts is None else cuts

    answers = connections.answers(asked, bounds, patient=patient)
    assert answers == [REQUESTS[one] for one in asked]


@given(cut=st.integers(1, len(KNOWN) - 1), then=st.sampled_from(list(REQUESTS)))
def test_a_known_head_may_come_in_parts(connections: _Connections, cut: int, then: bytes) -> None:
    bounds = [len(KNOWN), len(KNOWN) + cut, 2 * len(KNOWN)]

    assert connections.answers([KNOWN, KNOWN, then], bounds) == [200, 200, REQUESTS[then]]


@pytest.mark.parametrize(
    "other",
    [
        b"POST %s HTTP/1.1\r\nx-a: %s" % (UNFOUND.encode(), KNOWN),
        request(UNFOUND, avro_publish(KNOWN, b"more")),
    ],
)
def test_what_looks_like_a_request_within_another_is_none(
    connections: _Connections, other: bytes
) -> None:
    start = other.index(KNOWN[:HEAD_BYTES])
    bounds = [len(KNOWN), len(KNOWN) + start, 2 * len(KNOWN) + start]

    assert connections.answers([KNOWN, other, KNOWN], bounds) == [200, 404, 200]


@pytest.mark.parametrize(
    ("other", "status"),
    [
        (request(UNFOUND, ONE), 404),
        (request(f"{UNFOUND}?wait", ONE), 404),
        (KNOWN.replace(AVRO_TYPE.encode(), b"text/plain"), 415),
    ],
)
def test_no_head_is_taken_for_another(connections: _Connections, other: bytes, status: int) -> None:
    size = len(other)

    assert connections.answers([KNOWN, other, other], [len(KNOWN), len(KNOWN) + size]) == [
        200,
        status,
        status,
    ]
    assert connections.answers([other, KNOWN, other], [size + len(KNOWN)]) == [status, 200, status]


def test_a_connection_whose_request_is_at_work_is_not_idle(
    connections: _Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()
    write = MemoryStore.write

    def kept(store: MemoryStore, batch: Batch) -> None:
        assert may_end.wait(10)
        write(store, batch)

    async def ask() -> None:
        loop, until = asyncio.get_running_loop(), connections.rest.until
        time, passed_s = loop.time, 0
        monkeypatch.setattr(loop, "time", lambda: time() + passed_s)
        ended: list[DirectProtocol] = []
        protocol, transport = connections.connect(Timeouts(60, ended.append))
        protocol.data_received(KNOWN)
        await until(lambda: transport.has(1))
        monkeypatch.setattr(MemoryStore, "write", kept)
        protocol.data_received(KNOWN)
        passed_s = 61
        for _ in range(10):
            await asyncio.sleep(0)
        assert (transport.answers(), ended) == ([200], [])
        may_end.set()
        await until(lambda: transport.has(2))
        assert ended == []
        passed_s = 122
        await until(lambda: ended == [protocol])

    connections.runner.run(ask())


@pytest.mark.parametrize(
    ("path", "most"), [("/%d", 16_384), ("/v1/transactions/1/commit?%d", 1_024)]
)
def test_the_latest_heads_are_kept_up_to_a_number(
    connections: _Connections, path: str, most: int
) -> None:
    heads = KnownHeads()
    found = cast("HotApp", connections.rest.app).find(PUBLISH)
    assert found is not None
    target = Target(found.endpoint, {"path": PUBLISH}, may_compress=False)
    fields = Fields({}, 0, keep_alive=True, takes_gzip=False)

    def head(number: int, fields_of: int) -> tuple[bytes, bytes]:
        asked = (path % number).encode()
        return asked, b"POST %s HTTP/1.1\r\na: %d" % (asked, fields_of)

    def is_known(number: int, fields_of: int) -> bool:
        asked = head(number, fields_of)[1]
        return heads.find(asked, len(asked)) is not None

    count = 40_000
    for number in range(count):
        asked, whole = head(number, number)
        for _ in range(2):
            heads.keep(whole, asked, (target, fields))
        said = heads.find(whole, len(whole))
        assert said is not None
        assert (said[0].endpoint, said[1]) == (found.endpoint, fields)
        assert len(heads) <= 16_384 + 1_024
    last = count - 1
    assert [is_known(count - most + ago, last) for ago in (-1, 0)] == [False, True]
    assert [is_known(last, count - 1_024 + ago) for ago in (-1, 0)] == [False, True]
