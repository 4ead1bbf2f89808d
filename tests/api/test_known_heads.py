"""A head that came before is not parsed again, and its request is answered as it was."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
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
from api.joined_writes import JoinedWritesProtocol
from api.known_heads import KnownHeads, SimpleHead
from api.runs import Run
from tables.memory import MemoryStore
from tests.api.rest import AVRO_TYPE, TOPIC, TOPICS, Live, Rest, Wire, avro_publish, live, opened
from tms.core.tables import Batch
from tms.core.transactions import StartRequest, TransactionStatus

PUBLISH = f"{TOPIC}/publish"
ONE = avro_publish(b"x" * 100)


def request(path: str, body: bytes, more: bytes = b"") -> bytes:
    head = b"POST %s HTTP/1.1\r\nhost: t\r\ncontent-type: %s\r\n%scontent-length: %d\r\n\r\n"
    return head % (path.encode(), AVRO_TYPE.encode(), more, len(body)) + body


KNOWN = request(PUBLISH, ONE)
UNFOUND = f"{TOPICS}/none/publish"
HEAD_BYTES = len(KNOWN) - len(ONE)


@pytest.fixture
async def served(anyio_backend: object) -> AsyncIterator[Live]:
    async with live() as served:
        await served.create()
        yield served


@pytest.fixture
async def wire(served: Live) -> AsyncIterator[Wire]:
    """A connection to a server to which the head of `KNOWN` is known."""
    wire = await served.connect()
    wire.writer.write(KNOWN)
    assert (await wire.answer())[0] == 200
    yield wire
    await wire.close()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is given to the parser from now on."""
    parsed: list[bytes] = []
    parse = JoinedWritesProtocol.data_received

    def see(self: JoinedWritesProtocol, data: bytes) -> None:
        parsed.append(data)
        parse(self, data)

    monkeypatch.setattr(JoinedWritesProtocol, "data_received", see)
    return parsed


@pytest.mark.anyio
async def test_a_head_is_known_on_every_connection(
    served: Live, wire: Wire, parsed: list[bytes]
) -> None:
    other = await served.connect()
    for connection in (wire, other, wire, other):
        connection.writer.write(KNOWN)
        assert (await connection.answer())[0] == 200

    assert parsed == []
    assert len(await served.payloads()) == 5
    await other.close()


@pytest.mark.anyio
async def test_the_answer_depends_on_the_body_behind_a_known_head(wire: Wire) -> None:
    wire.writer.write(request(PUBLISH, b"\xff" * len(ONE)))
    assert (await wire.answer())[0] == 400
    wire.writer.write(KNOWN)
    assert (await wire.answer())[0] == 200


@pytest.mark.anyio
@pytest.mark.parametrize(
    "other",
    [
        request(PUBLISH, ONE, b"x-a: b\r\n"),
        request(f"{PUBLISH}?", ONE),
        request(PUBLISH, avro_publish(b"x" * 101)),
        request(PUBLISH, ONE).replace(b"host", b"Host"),
    ],
)
async def test_another_head_is_parsed(wire: Wire, parsed: list[bytes], other: bytes) -> None:
    wire.writer.write(other)

    assert (await wire.answer())[0] == 200
    assert parsed == [other]


@pytest.mark.anyio
async def test_what_a_head_leads_to_may_have_changed(served: Live, wire: Wire) -> None:
    assert (await served.http.delete(TOPIC)).status_code == 200
    wire.writer.write(KNOWN)
    assert (await wire.answer())[0] == 404
    await served.create()
    wire.writer.write(KNOWN)
    assert (await wire.answer())[0] == 200


@pytest.mark.anyio
async def test_a_last_request_ends_its_connection_each_time(served: Live) -> None:
    for _ in range(3):
        wire = await served.connect()
        wire.writer.write(request(PUBLISH, ONE, b"connection: close\r\n"))
        assert (await wire.rest()).startswith(b"HTTP/1.1 200 ")
        await wire.close()


def commit(transaction_id: int | str, verb: str = "commit") -> bytes:
    return request(f"/v1/transactions/{transaction_id}/{verb}", b"")


@pytest.fixture
async def own(anyio_backend: object) -> AsyncIterator[Live]:
    """A server with transactions of its own, to which the head of a commit is known."""
    async with live(own=True) as served:
        wire = await served.connect()
        wire.writer.write(commit(1))
        assert (await wire.answer())[0] == 404
        await wire.close()
        yield served


@pytest.mark.anyio
async def test_the_head_of_a_commit_is_known_whatever_its_id(
    own: Live, parsed: list[bytes]
) -> None:
    transactions = own.services.transactions
    assert transactions is not None
    ids = [(await transactions.start(StartRequest())).transaction_id for _ in range(3)]
    wire = await own.connect()
    for asked, status in ((ids[0], 200), (2, 404), (ids[2], 200), (ids[0], 409)):
        wire.writer.write(commit(asked))
        answered, _, body = await wire.answer()
        assert answered == status
        assert str(asked).encode() in body or status == 200

    assert parsed == []
    found = [(await transactions.info(transaction_id)).status for transaction_id in ids]
    assert found == [
        TransactionStatus.COMMITTED,
        TransactionStatus.IN_PROGRESS,
        TransactionStatus.COMMITTED,
    ]
    await wire.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("other", "status"),
    [
        (commit(""), 404),
        (commit("1?x"), 405),
        (commit("1/2"), 404),
        (commit("%31"), 404),
        (commit("-1"), 400),
        (commit("1" * 20), 400),
        (commit(1, "can-commit"), 400),
        (commit(1, "none"), 404),
        (commit(1, "commit?x"), 404),
    ],
)
async def test_a_path_that_is_not_the_same_but_for_an_id_is_parsed(
    own: Live, parsed: list[bytes], other: bytes, status: int
) -> None:
    wire = await own.connect()
    wire.writer.write(other)
    assert (await wire.answer())[0] == status
    assert parsed == [other]
    wire.writer.write(commit(1))
    assert (await wire.answer())[0] == 404
    assert parsed == [other]
    await wire.close()


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


def test_heads_are_kept_up_to_a_number(connections: _Connections) -> None:
    heads = KnownHeads()
    found = cast("HotApp", connections.rest.app).find(PUBLISH)
    assert found is not None
    said = SimpleHead(found.endpoint, {}, {}, 0, keep_alive=True)
    for number in range(10_000):
        heads.keep(b"%d" % number, said)
        assert heads.find(b"%d" % number) is said
        assert len(heads) <= 1024
