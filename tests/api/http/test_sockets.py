"""Malformed and odd requests get the same answers at any position and in any pieces."""

import json
from collections.abc import AsyncIterator

import pytest

from tests.api.http.odd_requests import ODD, PING, PUBLISH, Odd
from tests.api.http.wires import Answer, Wires
from tests.api.rest import Live, live
from tests.waiting import in_time

pytestmark = pytest.mark.anyio


class Server:
    """A server with the topic `t`, and what was published there."""

    def __init__(self, served: Live) -> None:
        self.served = served
        self.wires = Wires(served.app)

    async def published(self) -> int:
        return len(await self.served.payloads(limit=1_000_000))


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def server(anyio_backend: object) -> AsyncIterator[Server]:
    async with live() as served:
        await served.create()
        yield Server(served)


def check(odd: Odd, answers: list[Answer], *, is_ended: bool, in_parts: bool = False) -> None:
    """Fail unless the request gets the expected answers, and the connection the expected end."""
    final = [answer for answer in answers if answer.status != 100]
    assert tuple(answer.status for answer in final) == odd.statuses, final
    for answer in final:
        if answer.status >= 400 and answer.body:
            assert json.loads(answer.body)["error"]["code"]
    assert (final[-1].headers.get("connection") == "close") is is_ended
    assert is_ended is odd.is_last or (is_ended and in_parts and odd.is_early)


HEAD_OF_ALL = "head of ping"
"""Its answer has a length, and no body."""
CASES = [name for name in ODD if name != HEAD_OF_ALL]


@pytest.mark.parametrize("name", CASES)
async def test_alone_and_when_its_head_is_known(server: Server, name: str) -> None:
    odd, before = ODD[name], await server.published()
    for _ in range(4):
        answers, is_ended = await server.wires.answers(odd.sent)
        check(odd, answers, is_ended=is_ended)

    assert await server.published() == before + 4 * odd.published


@pytest.mark.parametrize("name", CASES)
async def test_between_others_on_one_connection(server: Server, name: str) -> None:
    odd, before = ODD[name], await server.published()

    answers, is_ended = await server.wires.answers(PUBLISH + PING + odd.sent + PING + PUBLISH)

    behind = 0 if odd.is_last else 2
    assert [answer.status for answer in answers[:2]] == [200, 200]
    check(odd, answers[2 : len(answers) - behind], is_ended=is_ended)
    assert [answer.status for answer in answers[len(answers) - behind :]] == [200] * behind
    assert await server.published() == before + odd.published + 1 + (behind > 0)


@pytest.mark.parametrize("name", CASES)
async def test_split_at_every_place(server: Server, name: str) -> None:
    odd, before = ODD[name], await server.published()
    for at in range(1, len(odd.sent)):
        answers, is_ended = await server.wires.answers(odd.sent[:at], odd.sent[at:])
        check(odd, answers, is_ended=is_ended, in_parts=True)

    assert await server.published() == before + (len(odd.sent) - 1) * odd.published


@pytest.mark.parametrize("name", CASES)
async def test_byte_by_byte(server: Server, name: str) -> None:
    odd = ODD[name]
    pieces = [odd.sent[at : at + 1] for at in range(len(odd.sent))]

    answers, is_ended = await server.wires.answers(*pieces)

    check(odd, answers, is_ended=is_ended, in_parts=True)


async def test_over_a_socket_each_is_answered_and_ends_as_it_must(server: Server) -> None:
    for name in CASES:
        odd = ODD[name]
        wire = await server.served.connect()
        wire.writer.write(odd.sent)
        if odd.is_last:
            assert int((await wire.rest())[9:12]) == odd.statuses[0], name
        else:
            status, _, _ = await wire.answer()
            assert status == odd.statuses[0], name
            wire.writer.write(PING)
            assert (await wire.answer())[0] == 200, name
        await wire.close()


async def test_the_answer_to_head_has_no_body(server: Server) -> None:
    wire = await server.served.connect()
    wire.writer.write(ODD[HEAD_OF_ALL].sent + PING)

    async with in_time():
        head = await wire.reader.readuntil(b"\r\n\r\n")
    assert b"content-length: 3\r\n" in head
    assert (await wire.answer())[2] == b"OK."
    await wire.close()
