"""Each task that must live continues after an error of any part that it depends on.

The tasks are real, except that one of their calls raises an error. A task that is not in the table
fails the last test.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from tests.faults.breaking import Breaking, Parts
from tests.faults.cluster_tasks import (
    asks_the_other_servers,
    looks_at_the_store,
    registers_again,
    renews_its_lease,
    shares_the_shards,
    takes_part_in_a_cluster,
)
from tests.manual_clock import ManualClock
from tests.registry.registries import fixed, opened
from tests.virtual_loop import VIRTUAL
from tests.waiting import in_time, until
from tms.cluster import formats
from tms.coordination import CoordinationService
from tms.coordination.election import LeaderElection
from tms.core.limits import Limits
from tms.core.runtime import supervision
from tms.core.runtime.clock import SystemClock
from tms.core.services.cluster import Instance
from tms.core.values.namespaces import NamespaceSettings
from tms.metadata.address import parse
from tms.metadata.cache import JsonCodec
from tms.metadata.live_values import LiveValues
from tms.metadata.remote import Link, RemoteStore
from tms.namespaces.store import NamespaceStore
from tms.registry.log.mastership import Elected
from tms.registry.log.members import Announcement, MembersElection
from tms.registry.log.schema_log import WayToLog
from tms.registry.log.store_election import StoreElection
from tms.security.audit import Drops
from tms.security.audit_destinations import Publisher
from tms.security.forward_keys import OLD_MS, ForwardKeys
from tms.security.json_web_keys import WebKeys
from tms.server.registry_part import RegistryPart, open_registry
from tms.settings import Settings
from tms.watch.watch import Watch

pytestmark = pytest.mark.anyio

FAULTS = [
    AttributeError("'NoneType' object has no attribute 'getpeername'"),
    RuntimeError("unable to perform operation on <TCPTransport closed=True>"),
    asyncio.CancelledError(),
]


@pytest.fixture
def anyio_backend() -> object:
    """Leases of half a second do not run out while the machine is busy."""
    return VIRTUAL


@pytest.fixture(params=FAULTS, ids=lambda fault: type(fault).__name__)
async def parts(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Parts]:
    monkeypatch.setattr(supervision, "PAUSE_S", 0.001)
    monkeypatch.setattr(supervision, "PAUSE_S_MAX", 0.002)
    monkeypatch.setattr("tms.transactions.service._TICK_S", 0.01)
    monkeypatch.setattr("tms.transactions.journal._RECOVER_EVERY_S", 0.01)
    monkeypatch.setattr("tms.registry.log.store_election._GIVEN_WAY_S", 0.01)
    async with opened() as registries:
        made = Parts(registries, request.param)
        yield made
        await made.host.close()


async def begins_as_master(parts: Parts) -> None:
    server = parts.server("one")
    server.take_part()
    parts.messaging.faults["publish"] = parts.fault
    await server.become()
    await server.mastership.close()


async def reads_the_log(parts: Parts) -> None:
    server = parts.server("one")
    server.take_part()
    await until(lambda: server.called.registry.log.readings > 0)
    parts.messaging.faults["poll"] = parts.fault
    await parts.registries.make().id_of("s", fixed(1))
    await until(lambda: server.called.registry.state.versions_count == 1)
    await server.mastership.close()


async def announces_itself(parts: Parts) -> None:
    told: list[Elected] = []
    way, clock = WayToLog(parts.messaging), SystemClock()
    election = MembersElection(way, Announcement("http://a:1"), clock, session_s=0.3)
    parts.messaging.faults["publish"] = parts.fault
    election.start(told.append)
    await until(lambda: bool(told) and told[-1].is_self)
    await election.close()


async def watches_who_is_master(parts: Parts) -> None:
    told: list[Elected] = []
    await parts.other.put("/r/schema_registry_master", b"http://b:1", ephemeral=True)
    election = StoreElection(parts.store, "/r", "http://a:1", is_eligible=False)
    parts.store.faults["get"] = parts.fault
    election.start(told.append)
    await until(lambda: bool(told) and told[-1].address == "http://b:1")
    assert Elected(None) in told
    await election.close()


async def stands_for_master_again(parts: Parts) -> None:
    told: list[Elected] = []
    election = StoreElection(parts.store, "/r", "http://a:1", is_eligible=True)
    election.start(told.append)
    await until(lambda: bool(told) and told[-1].is_self)
    parts.store.faults["delete"] = parts.fault
    election.give_way()
    await until(lambda: parts.store.raised == 1)
    await parts.other.delete("/r/schema_registry_master")
    await until(lambda: not told[-1].is_self)
    await until(lambda: told[-1].is_self)
    await election.close()


async def stands_for_leader(parts: Parts) -> None:
    election = LeaderElection(parts.store, "/leader")
    parts.store.faults["put"] = parts.fault
    assert (await election.elect(b"me")).name == "LEADING"
    await election.close()


async def checks_a_lock(parts: Parts) -> None:
    service = CoordinationService(parts.store)
    await service.acquire_lock("/lock", b"mine")
    parts.store.faults["put"] = parts.fault
    await parts.other.delete("/lock")
    await until(lambda: parts.store.raised == 1)
    await until(lambda: parts.other.get("/lock"))
    await service.close()


async def follows_values(parts: Parts) -> None:
    changed: list[object] = []
    codec = JsonCodec(Announcement)
    values = LiveValues(parts.store, "/v", codec, changed.append)
    await values.open()
    parts.store.faults["get"] = parts.fault
    await parts.other.put("/v/one", codec.encode(Announcement("http://a:1")))
    await until(lambda: "one" in values.values)
    await values.close()
    await _follows_namespaces(parts)


async def _follows_namespaces(parts: Parts) -> None:
    namespaces = NamespaceStore(parts.store, Limits())
    others = NamespaceStore(parts.other, Limits())
    await namespaces.open()
    await others.open()
    parts.store.faults["get"] = parts.fault
    await others.declare("one", NamespaceSettings())
    await until(lambda: "one" in namespaces.rules)
    await namespaces.close()
    await others.close()


async def renews_keys(parts: Parts) -> None:
    clock = ManualClock(1)
    keys = ForwardKeys(parts.store, clock)
    await keys.open()
    parts.store.faults["put"] = parts.fault
    clock.advance(OLD_MS)
    keys.sealing()
    await until(lambda: len(keys._keys) == 2)
    await keys.close()


async def keeps_its_session(parts: Parts) -> None:
    touched: list[int] = []

    class Server:
        async def touch(self) -> None:
            touched.append(1)

        async def close(self) -> None:
            pass

    broken = Breaking(Link(30.0))
    broken.faults["look"] = parts.fault
    store = RemoteStore(cast("Any", Server()), cast("Any", broken))
    await until(lambda: len(touched) > 1)
    assert broken.raised == 1
    await store.close()


async def connects_to_etcd(parts: Parts) -> None:
    from tms.metadata.etcd.connection import EtcdConnection  # noqa: PLC0415  an extra
    from tms.metadata.etcd.writes import Keys  # noqa: PLC0415  an extra

    address = parse("etcd://127.0.0.1:1/x?session_timeout_s=1")
    connection: Any = EtcdConnection(address, Link(1000.0), Keys(address.base))
    connects: list[object] = []

    async def connect(host: str) -> None:
        connects.append(host)
        if len(connects) == 1:
            raise parts.fault
        connection._ready.set()
        await asyncio.Event().wait()

    connection._connect = connect
    await connection.open()
    assert len(connects) == 2
    connection._running.cancel()


async def prepares_zookeeper(parts: Parts) -> None:
    from tms.metadata.zookeeper.connection import CONNECTED  # noqa: PLC0415  an extra
    from tms.metadata.zookeeper.session import ZooKeeper  # noqa: PLC0415  an extra

    session: Any = ZooKeeper(parse("zk://127.0.0.1:1/x"), Link(1000.0))
    asked: list[object] = []

    async def answer(request: object) -> None:
        asked.append(request)
        if len(asked) == 1:
            raise parts.fault

    session._answer = answer
    session.on_state(CONNECTED, 1)
    await session._ready


async def times_transactions_out(parts: Parts) -> None:
    service: Any = parts.registries.services.transactions
    snapshots = service._snapshots = Breaking(service._snapshots)
    snapshots.faults["write_if_due"] = parts.fault
    await until(lambda: snapshots.raised == 1)
    calls: list[int] = []

    async def write() -> None:
        calls.append(1)

    service._snapshots.write_if_due = write
    await until(lambda: bool(calls))
    service._snapshots = snapshots._inner


async def recovers_transactions(parts: Parts) -> None:
    service: Any = parts.registries.services.transactions
    journal = service._journal
    journal._is_ahead = True
    journal._threads = Breaking(journal._threads)
    journal._threads.faults["read"] = parts.fault
    journal.flush_failed()
    await until(lambda: not journal._is_stale)
    assert journal._threads.raised == 1


async def publishes_the_audit(parts: Parts) -> None:
    published: list[bytes] = []

    async def publish(lines: list[bytes]) -> None:
        published.extend(lines)
        if len(published) == 1:
            raise parts.fault

    publisher = Publisher(publish, Drops(SystemClock()))
    publisher.put(b"one")
    await until(lambda: bool(published))
    publisher.put(b"two")
    await until(lambda: published[-1] == b"two")
    await publisher.close()


async def fetches_keys(parts: Parts) -> None:
    clock = Breaking(SystemClock())
    keys: Any = WebKeys("https://127.0.0.1:1/keys", cast("Any", clock), every_s=0.001)
    await keys.open()
    clock.faults["steady_ms"] = parts.fault
    await until(lambda: clock.raised == 1)
    asked = keys._asked_ms
    await until(lambda: keys._asked_ms > asked)
    await keys.close()


async def raises_the_format(parts: Parts) -> None:
    raised = asyncio.Event()
    looks: list[int] = []

    async def instances() -> list[Instance]:
        looks.append(1)
        if len(looks) == 1:
            raise parts.fault
        return []

    async def raise_format() -> None:
        raised.set()

    await formats.raising_when_all_know(instances, raise_format)
    assert raised.is_set()


async def reads_schemas_first(parts: Parts) -> None:
    opened = await open_registry(Settings(), SystemClock(), AsyncExitStack())
    assert opened is not None
    part = RegistryPart(opened, Settings())
    parts.messaging.faults["topic"] = parts.fault
    part.attach(parts.messaging)
    await until(lambda: part.registry.log.readings > 0)
    part.check_ready()
    await part.close()


async def publishes_schedules(parts: Parts) -> None:
    timer: Any = parts.registries.services.schedules._timer
    due = timer._due = Breaking(timer._due)
    due.faults["take"] = parts.fault
    timer._wake.set()
    await until(lambda: due.raised == 1)
    due.faults["take"] = parts.fault
    timer._wake.set()
    await until(lambda: due.raised == 2)


async def counts_schedules(parts: Parts) -> None:
    timer: Any = parts.registries.services.schedules._timer
    schedules = timer._schedules = Breaking(timer._schedules)
    schedules.faults["count"] = parts.fault
    timer._uncounted[object()] = None
    timer._count_more.set()
    await until(lambda: schedules.raised == 1)
    schedules.faults["count"] = parts.fault
    timer._uncounted[object()] = None
    timer._count_more.set()
    await until(lambda: schedules.raised == 2)


async def watches_the_figures(parts: Parts) -> None:
    clock = Breaking(SystemClock())
    clock.faults["now_ms"] = parts.fault
    services: Any = parts.registries.services
    watch = Watch(services, CollectorRegistry(), cast("Any", clock), list)
    async with watch.at_work():
        await until(lambda: watch.history._count > 0)
    assert clock.raised == 1


CASES: dict[str, Callable[[Parts], Awaitable[None]]] = {
    "beginning as the registry's master": begins_as_master,
    "reading the log of schemas": reads_the_log,
    "announcing itself to the registry's servers": announces_itself,
    "watching who is the registry's master": watches_who_is_master,
    "taking part in the election of a master": stands_for_master_again,
    "taking part in the election at": stands_for_leader,
    "checking the lock": checks_a_lock,
    "following {root} in the metadata store": follows_values,
    "renewing the keys of forwards": renews_keys,
    "registering in the cluster": registers_again,
    "keeping the session with the metadata store": keeps_its_session,
    "connecting to etcd": connects_to_etcd,
    "preparing the session with ZooKeeper": prepares_zookeeper,
    "the timer of transactions": times_transactions_out,
    "recovering the state of transactions": recovers_transactions,
    "publishing the audit": publishes_the_audit,
    "fetching the keys of": fetches_keys,
    "raising the store's format": raises_the_format,
    "reading the schemas first": reads_schemas_first,
    "taking part in the cluster": takes_part_in_a_cluster,
    "renewing the lease": renews_its_lease,
    "looking at the store": looks_at_the_store,
    "asking the other servers": asks_the_other_servers,
    "sharing the shards": shares_the_shards,
    "the watch of the server's figures": watches_the_figures,
    "publishing of scheduled messages": publishes_schedules,
    "counting of scheduled messages": counts_schedules,
}


@pytest.mark.parametrize("task", CASES)
async def test_it_continues(parts: Parts, task: str) -> None:
    async with in_time():
        await CASES[task](parts)


def calls_of_supervised() -> Iterator[str]:
    for path in Path("tms").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for found in re.finditer(r"(?<!def )\b(supervised|Following)\((?!self._name)", text):
            yield text[max(0, found.start() - 200) : found.end() + 200]


def test_every_supervised_task_is_in_the_table() -> None:
    calls = list(calls_of_supervised())
    assert len(calls) == len(CASES)
    for task in CASES:
        assert any(task in call for call in calls), task
