"""Only one master writes: elections by hand, what a former master may still do, ids in batches."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.manual_clock import ManualClock
from tests.registry.elected_by_hand import Server
from tests.registry.registries import Registries, fixed, opened
from tests.virtual_loop import VIRTUAL
from tests.waiting import until
from tms.metadata.host import MetadataHost
from tms.metadata.interface import MetadataStore
from tms.registry.log.mastership import Elected
from tms.registry.log.members import Announcement, MembersElection, Seen, first_of
from tms.registry.log.schema_log import WayToLog
from tms.registry.log.service import NotMaster
from tms.registry.log.store_election import StoreElection
from tms.registry.state.ids import StoreIds

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> object:
    """Use virtual time: polls, sessions and restarts take none."""
    return VIRTUAL


@pytest.fixture
async def registries() -> AsyncIterator[Registries]:
    async with opened() as made:
        yield made


@pytest.fixture
async def two(registries: Registries) -> AsyncIterator[tuple[Server, Server]]:
    servers = Server(registries, "one"), Server(registries, "two")
    for server in servers:
        server.take_part()
    yield servers
    for server in servers:
        await server.mastership.close()


async def test_a_follower_writes_nothing(two: tuple[Server, Server]) -> None:
    one, other = two
    await one.become()
    other.hand.tell(Elected(one.name))
    assert (await one.called.id_of("s", fixed(1))) == 1
    with pytest.raises(NotMaster):
        await other.called.register("s", fixed(2))
    assert other.mastership.master == one.name
    await until(lambda: other.called.registry.state.versions_count == 1)
    assert other.called.registry.state.master == one.name


async def test_an_earlier_master_is_refused_by_the_log_and_steps_down(
    two: tuple[Server, Server],
) -> None:
    """The former master was not notified: it was paused, or is cut off from the election."""
    one, other = two
    await one.become()
    await one.called.id_of("s", fixed(1))
    await other.become()
    assert one.mastership.is_master, "nobody has told it"

    with pytest.raises(NotMaster):
        await one.called.register("t", fixed(2))

    assert not one.mastership.is_master
    assert await other.called.versions("t") == 40401
    assert await other.called.id_of("t", fixed(3)) == 2
    assert other.called.registry.state.epoch == 2


async def test_who_is_still_elected_begins_again(
    two: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tms.registry.log.mastership.AGAIN_S", 0.05)
    one, other = two
    await one.become()
    await other.become()
    with pytest.raises(NotMaster):
        await one.called.register("t", fixed(2))
    await until(lambda: one.mastership.is_master)
    assert one.called.registry.state.epoch == 3
    assert one.mastership.begun == 2
    assert await one.called.id_of("t", fixed(2)) == 1


async def test_who_is_elected_no_more_writes_no_more(two: tuple[Server, Server]) -> None:
    one, _ = two
    await one.become()
    one.hand.tell(Elected(None))
    with pytest.raises(NotMaster):
        await one.called.register("t", fixed(2))
    assert one.mastership.master is None


async def test_a_server_that_cannot_be_master_asks_the_one_in_the_log(
    registries: Registries, two: tuple[Server, Server]
) -> None:
    one, _ = two
    await one.become()
    pure = Server(registries, "pure", is_eligible=False)
    pure.take_part()
    await until(lambda: pure.mastership.master == one.name)
    await pure.mastership.close()


async def test_a_master_that_does_not_reach_the_log_gives_way(
    registries: Registries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tms.registry.log.mastership.MASTER_LOOKS_S", 0.02)
    monkeypatch.setattr("tms.registry.log.schema_log.REACHED_S_MAX", 0.1)
    way = WayToLog(registries.services.messaging)
    server = Server(registries, "one")
    server.called.registry.log._way = way
    server.take_part()
    await server.become()
    way.attach(None)
    await until(lambda: server.hand.given_way > 0)
    await server.mastership.close()


async def test_ids_come_in_batches(registries: Registries) -> None:
    host = MetadataHost()
    sessions: list[MetadataStore] = [host.open_session() for _ in range(2)]
    servers = [
        Server(registries, name, ids=StoreIds(session, "/registry", 3))
        for name, session in zip(("one", "two"), sessions, strict=True)
    ]
    for server in servers:
        server.take_part()
    one, other = servers
    await one.become()
    given = [await one.called.id_of(f"s{n}", fixed(n)) for n in range(1, 6)]
    assert given == [1, 2, 3, 4, 5]
    await other.become()
    given = [await other.called.id_of(f"t{n}", fixed(10 + n)) for n in range(1, 5)]
    assert given == [7, 8, 9, 10], "a new batch, above all that the other had"
    assert await other.called.id_of(":.c:s", fixed(1)) == 1, "each context has ids of its own"
    assert await other.called.id_of("u", fixed(1)) == 1, "a schema keeps its id"
    registered = await one.called.list(lambda state: state.space(".").next_id)
    assert registered == 11
    for server, session in zip(servers, sessions, strict=True):
        await server.mastership.close()
        await session.close()


async def test_a_batch_begins_above_what_the_log_has(registries: Registries) -> None:
    before = registries.make()
    await before.id_of("s", fixed(1))
    for number in range(1, 6):
        await before.register(f"s{number}", fixed(number + 100))
    store = MetadataHost().open_session()
    server = Server(registries, "one", ids=StoreIds(store, "/registry", 2))
    server.take_part()
    await server.become()
    assert await server.called.id_of("t", fixed(99)) == 7
    found = await store.get("/registry/schema_id_counter/default")
    assert found is not None
    assert found.value == b"9"
    await server.mastership.close()
    await store.close()


async def test_the_store_elects_who_writes_first(registries: Registries) -> None:
    host = MetadataHost()
    stores = [host.open_session() for _ in range(3)]
    servers = []
    for name, store in zip(("pure", "one", "two"), stores, strict=True):
        can = name != "pure"
        election = StoreElection(store, "/registry", f"http://{name}:1", is_eligible=can)
        servers.append(server := Server(registries, name, is_eligible=can, election=election))
        server.take_part()
        if name == "one":
            await until(lambda: servers[1].mastership.is_master)
    pure, one, two = servers
    await until(lambda: {pure.mastership.master, two.mastership.master} == {one.name})
    found = await stores[0].get("/registry/schema_registry_master")
    assert found is not None
    assert found.value == one.name.encode()

    await one.mastership.close()

    await until(lambda: two.mastership.is_master)
    await until(lambda: pure.mastership.master == two.name)
    for server, store in zip((pure, two, one), stores, strict=True):
        await server.mastership.close()
        await store.close()


MEMBERS = st.dictionaries(
    st.text("abc", min_size=1, max_size=2),
    st.builds(
        Seen,
        st.builds(Announcement, st.just("http://x:1"), st.booleans()),
        st.text("0123456789abcdef", min_size=2, max_size=2),
        st.integers(0, 100),
    ),
)


@given(MEMBERS, st.integers(0, 200), st.integers(1, 50))
def test_the_first_that_lives_and_is_eligible_is_master(
    members: dict[str, Seen], now_ms: int, session_ms: int
) -> None:
    told = first_of(members, now_ms, session_ms)
    could = {
        name: seen.joined
        for name, seen in members.items()
        if seen.announcement.eligible and seen.at_ms >= now_ms - session_ms
    }
    assert (told is None) == (not could)
    if told is not None:
        assert could[told] == min(could.values())


async def test_members_elect_the_one_that_joined_first(registries: Registries) -> None:
    clocks = [ManualClock(1), ManualClock(10**9)]  # no two clocks need to agree
    told: dict[int, Elected] = {}
    elections = []
    for number, clock in enumerate(clocks):
        way: Any = WayToLog(registries.services.messaging)
        announcement = Announcement(f"http://{number}:1")
        election = MembersElection(way, announcement, clock, session_s=0.3)
        elections.append(election)
        election.start(partial(told.__setitem__, number))
        await until(lambda: all(each in told and told[each].address for each in range(len(told))))
        await until(lambda: len(told) == len(elections))
    assert told[0] == Elected("http://0:1", is_self=True)
    assert told[1] == Elected("http://0:1", is_self=False)

    clocks[0].advance(1_000)  # it was paused: by its own clock it was silent for too long
    await until(lambda: told[0].address == "http://1:1")
    await until(lambda: told[1] == Elected("http://1:1", is_self=True))

    await elections[1].close()
    await until(lambda: told[0] == Elected("http://0:1", is_self=True))
    await elections[0].close()
