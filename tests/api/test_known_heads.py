"""A head that came before is not parsed again, and its request is answered as it was."""

import json
from collections.abc import AsyncIterator

import pytest

from api.joined_writes import JoinedWritesProtocol
from tests.api.heads import KNOWN, ONE, PUBLISH, request
from tests.api.rest import TOPIC, TOPICS, Live, Wire, avro_publish, live
from tms.core.transactions import StartRequest, TransactionStatus

OTHER = f"{TOPICS}/other"


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
async def test_a_target_and_what_is_behind_it_are_known_apart(
    served: Live, wire: Wire, parsed: list[bytes]
) -> None:
    await served.create(OTHER)
    for known in (request(f"{OTHER}/publish", ONE), request(PUBLISH, ONE, b"x-a: b\r\n")):
        wire.writer.write(known)
        assert (await wire.answer())[0] == 200
        assert parsed[-1] == known
    parsed.clear()
    wire.writer.write(request(f"{OTHER}/publish", ONE, b"x-a: b\r\n"))
    assert (await wire.answer())[0] == 200

    assert parsed == []
    assert (len(await served.payloads()), len(await served.messages(OTHER))) == (2, 2)


@pytest.mark.anyio
async def test_an_answer_is_compressed_though_its_parts_are_known(served: Live) -> None:
    def asked(verb: str, body: str, more: str = "") -> bytes:
        fields = f"host: t\r\ncontent-type: application/json\r\n{more}content-length: 5000\r\n\r\n"
        return f"POST {TOPIC}/{verb} HTTP/1.1\r\n{fields}{body:<5000}".encode()

    gzip = "accept-encoding: gzip\r\n"
    publish = json.dumps({"messages": ["x" * 4_000]})
    wire = await served.connect()
    encodings = []
    for verb, body, more in (
        ("publish", publish, gzip),
        ("poll", "{}", ""),
        ("publish", publish, gzip),
        ("poll", "{}", gzip),
        ("poll", "{}", ""),
    ):
        wire.writer.write(asked(verb, body, more))
        status, headers, _ = await wire.answer()
        assert status == 200
        encodings.append(headers.get("content-encoding"))

    assert encodings == [None, None, None, "gzip", None]
    await wire.close()


@pytest.mark.anyio
async def test_a_target_behind_two_spaces_is_each_its_own(served: Live, wire: Wire) -> None:
    await served.create(OTHER)
    for path in (PUBLISH, f"{OTHER}/publish", PUBLISH, f"{OTHER}/publish"):
        wire.writer.write(request(path, ONE).replace(b"POST /", b"POST  /"))
        assert (await wire.answer())[0] == 200

    assert (len(await served.payloads()), len(await served.messages(OTHER))) == (3, 2)


@pytest.mark.anyio
async def test_a_target_of_another_method_is_none_that_is_known(served: Live, wire: Wire) -> None:
    wire.writer.write(KNOWN.replace(b"POST /", b"GET  /"))

    assert (await wire.answer())[0] == 405
    assert len(await served.payloads()) == 1


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
