"""A forwarded request leaves nothing behind that only Python's cyclic collector frees."""

from collections.abc import Callable

import pytest

from api.cluster import ways
from api.cluster.forwarding import Forwarder
from tests.api.cluster.peers import OK, Behaviour, Talk, answer_all, answering, peer_that
from tests.api.cluster.standing_by import ID, Following
from tests.api.http.cycles import collected
from tests.api.http.wires import Wires
from tests.waiting import turns
from tms.core.limits import Limits

pytestmark = pytest.mark.anyio

GET = b"GET /v1/transactions HTTP/1.1\r\nhost: localhost\r\n\r\n"
POLL = b"GET /v1/transactions?wait=5 HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST = b"POST /v1/transactions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\nab"


async def never(talk: Talk) -> None:
    await talk.request()
    await talk.never()


Then = Callable[[Forwarder], None]
CASES: dict[str, tuple[Behaviour, bytes, Then | None, bytes]] = {
    "it is answered": (answer_all, GET, None, b"200"),
    "it is not answered": (answering(b""), GET, None, b"504"),
    "the answer is cut": (answering(OK[:-1]), GET, None, b"200"),
    "another comes to lead": (never, GET, lambda forwarder: forwarder.forward_to(None), b"504"),
    "the client leaves": (never, POLL, None, b""),
    "the client leaves within its body": (never, POST, None, b""),
}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": True}  # the other loop's own transports are cycles


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_it_leaves_no_cycle(
    case: tuple[Behaviour, bytes, Then | None, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "GRACE_S", 0.0)
    behaviour, sent, then, status = case
    async with peer_that(behaviour) as peer:
        forwarder = Forwarder(ID)
        wires = Wires(Following(forwarder, Limits()).app)

        async def ask() -> bytes:
            forwarder.forward_to(peer.url)
            connection, transport = wires.connect()
            connection.data_received(sent)
            await turns(30)
            if then is not None:
                then(forwarder)
                await turns(30)
            connection.connection_lost(None)
            await turns(30)
            return transport.written[9:12]

        for _ in range(2):
            assert await ask() == status  # objects that are made only once may stay
        with collected() as found:
            await ask()
        forwarder.forward_to(None)

    assert not found
