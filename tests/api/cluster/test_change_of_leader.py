"""Nothing a server caches outlives its term as leader: each request checks who leads now.

Requests go over sockets that stay open, with heads that the server has cached.
"""

from collections.abc import AsyncIterator

import pytest

from tests.api.cluster.standing_by import Second
from tests.api.http.heads import KNOWN, request
from tests.api.rest import TOPIC, Live, Rest, Wire, avro_poll, live
from tests.cluster.hands import LEASE_S, Hands
from tms.cluster.lease import Lease

pytestmark = pytest.mark.anyio

POLL = request(f"{TOPIC}/poll", avro_poll())


class Term:
    """A term of the second server as leader: its services, and the lease they are open under."""

    def __init__(self, second: Second, own: Rest, token: int) -> None:
        self.own = own
        self.clock = Hands()
        self.lease = Lease(token, LEASE_S, self.clock, sent_s=0.0)
        second.routing.lead(0, own.services, lambda: self.lease.left_s)


@pytest.fixture
async def wire(second: Second) -> AsyncIterator[Wire]:
    wire = await second.connect()
    yield wire
    await wire.close()


async def by_whom(wire: Wire, asked: bytes) -> str:
    """Return who answered the request, which must succeed."""
    wire.writer.write(asked)
    status, headers, _ = await wire.answer()
    assert status == 200
    return "leader" if "tms-forwarded-by" in headers else "second"


async def test_a_known_head_is_answered_by_whoever_leads(
    second: Second, leader: Live, wire: Wire
) -> None:
    await leader.create()
    async with live(own=True) as before:
        await before.create()
        Term(second, before, token=1)
        for asked in (KNOWN, POLL, KNOWN, POLL):
            assert await by_whom(wire, asked) == "second"
        assert len(await before.payloads()) == 2
        second.routing.follow(0)
    # The second server's services are closed, and another server leads.
    for asked in (KNOWN, POLL, KNOWN):
        assert await by_whom(wire, asked) == "leader"
    assert len(await leader.payloads()) == 2

    async with live(own=True) as after:
        await after.create()
        Term(second, after, token=3)
        for asked in (POLL, KNOWN, KNOWN):
            assert await by_whom(wire, asked) == "second"
        assert len(await after.payloads()) == 2


async def test_a_known_head_asks_for_the_lease_each_time(
    second: Second, leader: Live, wire: Wire
) -> None:
    await leader.create()
    async with live(own=True) as own:
        await own.create()
        term = Term(second, own, token=1)
        assert [await by_whom(wire, KNOWN) for _ in range(2)] == ["second"] * 2

        term.clock.s = LEASE_S  # as if it had paused
        assert [await by_whom(wire, asked) for asked in (KNOWN, POLL)] == ["leader"] * 2

        term.lease.renewed(sent_s=LEASE_S)  # nobody has claimed it in the meantime
        assert await by_whom(wire, KNOWN) == "second"
        assert (len(await own.payloads()), len(await leader.payloads())) == (3, 1)


async def test_the_head_of_a_transaction_is_known_for_as_long(
    second: Second, leader: Live, wire: Wire
) -> None:
    def in_json(path: str) -> bytes:
        return request(path, b"{}").replace(b"avro/binary", b"application/json")

    def commit(transaction_id: int) -> bytes:
        return in_json(f"/v1/transactions/{transaction_id}/commit")

    start = in_json("/v1/transactions?codec=false")
    async with live(own=True) as own:
        Term(second, own, token=1)
        for _ in range(2):
            assert await by_whom(wire, start) == "second"
            wire.writer.write(commit(1))
            assert (await wire.answer())[0] == 404
        second.routing.follow(0)
    assert await by_whom(wire, start) == "leader"
    [started] = (await leader.http.get("/v1/transactions?status=in_progress")).json()
    assert await by_whom(wire, commit(started["transaction_id"])) == "leader"


async def test_requests_sent_ahead_are_answered_by_whoever_leads_when_it_is_their_turn(
    second: Second, leader: Live, wire: Wire
) -> None:
    await leader.create()
    async with live(own=True) as own:
        await own.create()
        Term(second, own, token=1)
        wire.writer.write(request(f"{TOPIC}/poll?wait=60", avro_poll()) + KNOWN)
        await own.until(lambda: own.waiters() == 1)
        second.routing.follow(0)
        own.service.stop_waiting()
        forwarded = []
        for _ in range(2):
            status, headers, _ = await wire.answer()
            assert status == 200
            forwarded.append("tms-forwarded-by" in headers)
    assert forwarded == [False, True]
    assert len(await leader.payloads()) == 1
