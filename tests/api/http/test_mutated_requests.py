"""Whatever arrives is answered or refused, in order, and the server never fails.

Odd requests are truncated, repeated and changed at random; several share a connection, in random
pieces.
"""

import asyncio
import re
from collections.abc import Iterator
from http import HTTPStatus
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.http.odd_requests import ODD
from tests.api.http.wires import Wires
from tests.api.rest import Live, live
from tests.scale import scaled
from tests.waiting import turns

_EXAMPLES = scaled(1000)
_SENT = [odd.sent for odd in ODD.values()]
_STATUSES = {
    HTTPStatus.CONTINUE,
    HTTPStatus.OK,
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.EXPECTATION_FAILED,
    HTTPStatus.MISDIRECTED_REQUEST,
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
}


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Draw a request that was changed in some places."""
    sent = bytearray(draw(st.sampled_from(_SENT)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(sent)))
        cut = draw(st.integers(0, 4))
        put = draw(st.one_of(st.binary(max_size=3), st.sampled_from((b"\r\n", b"\r\n\r\n", b":"))))
        sent[at : at + cut] = put
    return bytes(sent)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def served(runner: asyncio.Runner) -> Iterator[Live]:
    context = live()
    served = runner.run(context.__aenter__())
    runner.run(served.create())
    yield served
    runner.run(context.__aexit__(None, None, None))


@settings(max_examples=_EXAMPLES)
@given(requests=st.lists(mutated(), min_size=1, max_size=3), cuts=st.lists(st.integers(0, 999)))
def test_whatever_comes_is_answered_or_refused(
    runner: asyncio.Runner, served: Live, requests: list[bytes], cuts: list[int]
) -> None:
    sent = b"".join(requests)
    bounds = sorted({0, len(sent), *(cut % (len(sent) + 1) for cut in cuts)})
    pieces = [sent[start:end] for start, end in pairwise(bounds)]

    async def ask() -> None:
        wires = Wires(served.app)
        connection, transport = wires.connect()
        for piece in pieces:
            connection.data_received(piece)
            await turns()
        # The client abandons an answer that has not ended.
        connection.connection_lost(None)
        await served.until(lambda: connection.is_idle)
        statuses = set(map(int, re.findall(rb"HTTP/1\.1 (\d{3}) ", transport.written)))
        assert statuses <= _STATUSES
        assert not wires.shared.open
        assert wires.shared.idle.oldest() is None
        assert wires.shared.bodies.oldest() is None

    runner.run(ask())
