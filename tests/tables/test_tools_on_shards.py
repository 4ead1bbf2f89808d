"""`tms copy` and `tms prune` on stores with shards, which are on the simulated HBase.

After a copy there and back, each topic is in its shard, and everything is unchanged.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import happybase  # noqa: F401  the store needs it imported first
import pytest
from prometheus_client import CollectorRegistry
from sortedcontainers import SortedDict

from tables.hbase import opening
from tables.keys import topic_of, topic_start
from tables.leveldb import LevelDBStore
from tables.store import BOUND, MESSAGE, METADATA, PAYLOAD, SUBSCRIPTION
from tests.cli.conftest import run_command
from tests.contracts.store_contract import rows_of
from tests.sharding.three_shards import home_of
from tests.simulation.gateway import Call, Rows, SimulatedGateway
from tests.tables.copies import GONE, ORDERS, OTHER, copy, fill, polled
from tms.core.errors import TransactionDuplicate
from tms.core.runtime.clock import SystemClock
from tms.core.runtime.trusted_clock import trusted
from tms.core.services.transactions import StartRequest
from tms.core.text.store_url import url_of_shard
from tms.core.values.shards import OneShard, ShardBy, Sharding
from tms.core.values.store_access import StoreAccess
from tms.core.values.topic import TopicId
from tms.server.jobs import open_copy
from tms.server.node import OpenServices, open_services
from tms.server.opening import open_served
from tms.server.sharded import ShardedServices
from tms.server.stores import create_tables, open_tables
from tms.settings import Settings

SHARDING = Sharding(5, ShardBy.TOPIC)
OTHERWISE = Sharding(2, ShardBy.TOPIC)
COPIED = (PAYLOAD, MESSAGE, SUBSCRIPTION, METADATA)

Work = Callable[[OpenServices | ShardedServices], Awaitable[Any]]


class RowsAway(Rows):
    """An HBase that may not answer for a shard."""

    away: int | None = None
    unread: int | None = None
    """A shard that cannot even be read."""

    def of(self, table: bytes) -> SortedDict:
        if self.unread is not None and table.startswith(b"n.%d_" % self.unread):
            raise TimeoutError("no answer")
        return super().of(table)

    def carry_out(self, call: Call, rows: int | None = None) -> Any:
        if self.away is not None and call.arguments[0].startswith(b"n.%d_" % self.away):
            raise TimeoutError("no answer")
        return super().carry_out(call, rows)


@pytest.fixture
def rows() -> RowsAway:
    return RowsAway()


@pytest.fixture
def sharded(rows: RowsAway, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty store of five shards; another store has two."""
    rows.tables.clear()
    monkeypatch.setattr(opening, "Gateway", lambda *_, **__: SimulatedGateway(rows, lambda: None))
    for name, sharding in (("n", SHARDING), ("m", OTHERWISE)):
        url = f"hbase://simulated:1/{name}"
        create_tables(url, Settings(store=url), None, sharding)
    return "hbase://simulated:1/n"


@pytest.fixture
def otherwise(sharded: str) -> str:
    return sharded.removesuffix("n") + "m"


@pytest.fixture
def source(tmp_path: Path) -> str:
    return f"leveldb:{tmp_path}/source"


@pytest.fixture
def back(tmp_path: Path) -> str:
    return f"leveldb:{tmp_path}/back"


def use(store: str, work: Work) -> Any:
    """Return the result of an operation on a store."""

    async def run() -> Any:
        services: OpenServices | ShardedServices
        if store.startswith("hbase:"):
            settings = Settings(store=store)
            clock = trusted(SystemClock(), settings.limits())
            services = await open_served(settings, clock, CollectorRegistry(), values=None)
        else:
            services = await open_services(store)
        try:
            return await work(services)
        finally:
            await services.close()

    return asyncio.run(run())


def rows_in(store: str) -> list[list[tuple[bytes, bytes]]]:
    opened = LevelDBStore(Path(store.partition(":")[2]))
    found = [rows_of(opened, table) for table in (*COPIED, BOUND)]
    opened.close()
    return found


def committing(owner: str, sequence: int, topic: TopicId, *, origin: str = "run 1") -> Work:
    async def commit(services: OpenServices | ShardedServices) -> None:
        request = StartRequest(
            owner=owner,
            sequence=sequence,
            origin=origin,
            namespace=topic.namespace,
            topic=topic.name,
        )
        home = home_of(services, topic)
        pointer = (await home.transactions.start(request)).transaction_id
        await home.messaging.publish(topic, [b"work"], pointer)
        await home.transactions.commit(pointer)

    return commit


def deleting(topic: TopicId) -> Work:
    return lambda services: home_of(services, topic).messaging.delete_topic(topic)


async def seen(services: OpenServices | ShardedServices) -> Any:
    """Everything that readers see, and the known transactions."""
    read = [await polled(services, committed=committed) for committed in (True, False)]
    positions = await home_of(services, ORDERS).subscriptions.subscriptions(ORDERS)
    invalid = await services.transactions.invalid()
    infos = []
    for each in invalid:
        shard = 0
        if services.sharding is not None:
            shard = services.sharding.shard_of_transaction(each.transaction_id)
        infos.append(await services.in_shard(shard).transactions.info(each.transaction_id))
    owners = {
        each.owner: (each.sequence, each.transaction_id, each.origin)
        for each in await services.transactions.owners()
    }
    return read, positions, [each.transaction_id for each in infos], owners


def test_there_and_back_all_is_as_in_one_copy(
    source: str, sharded: str, otherwise: str, back: str, tmp_path: Path
) -> None:
    assert [SHARDING.shard_of(topic) for topic in (ORDERS, OTHER, GONE)] == [1, 3, 3]
    asyncio.run(fill(source, many=3))
    use(source, committing("o", 7, OTHER))
    direct = f"leveldb:{tmp_path}/direct"
    facts = copy(source, direct)
    before = use(source, seen)
    assert (len(before[2]), before[3]["o"][0]) == (1, 7)

    for one, other in ((source, sharded), (sharded, otherwise), (otherwise, back)):
        there = copy(one, other)
        for same in ("topics", "copied_rows", "copied_bytes", "compared_rows", "invalid_pointers"):
            assert there[same] == facts[same]
        assert there["target_transactions"] == "the source's"
        assert copy(one, other)["copied_rows"] == 0
    assert rows_in(back) == rows_in(direct)
    for store in (sharded, otherwise, back):
        assert use(store, seen) == before
        use(store, committing("o", 8, OTHER))
    assert use(back, seen)[0][0][:-1] == before[0][0]


def test_each_topic_is_in_its_shard_alone(source: str, sharded: str) -> None:
    asyncio.run(fill(source, many=1))
    copy(source, sharded)
    for shard in range(SHARDING.shards):
        where = OneShard(shard, SHARDING)
        url = url_of_shard(sharded, shard)
        store = open_tables(url, Settings(store=url), StoreAccess.READ, shard=where).store
        topics = {
            topic_of(topic_start(key)) for table in COPIED for key, _ in rows_of(store, table)
        }
        assert topics == {t for t in (ORDERS, OTHER, GONE) if SHARDING.shard_of(t) == shard}
        store.close()


@pytest.mark.parametrize("steps", range(0, 24, 3))
def test_a_copy_that_was_interrupted_continues(
    source: str, sharded: str, back: str, tmp_path: Path, steps: int
) -> None:
    asyncio.run(fill(source, many=1))
    direct = f"leveldb:{tmp_path}/direct"
    facts = copy(source, direct)
    for one, other in ((source, sharded), (sharded, back)):
        begun = open_copy(one, other, Settings())
        with closing(begun), closing(begun.steps()) as parts:
            done = sum(step.copied_rows for step in islice(parts, steps))
        there = copy(one, other)
        assert (there["topics"], done + there["copied_rows"]) == (3, facts["copied_rows"])
    assert rows_in(back) == rows_in(direct)


def test_of_an_owner_the_greater_sequence_counts(source: str, sharded: str, back: str) -> None:
    asyncio.run(fill(source, many=1))
    use(source, committing("o", 7, ORDERS))
    copy(source, sharded)
    use(sharded, committing("o", 9, OTHER))
    copy(sharded, back)

    assert use(back, seen)[3]["o"][0] == 9
    with pytest.raises(TransactionDuplicate):
        use(back, committing("o", 8, ORDERS))


def test_an_owner_with_two_origins_is_named(source: str, sharded: str, back: str) -> None:
    asyncio.run(fill(source, many=1))
    copy(source, sharded)
    use(sharded, committing("o", 1, ORDERS))
    use(sharded, committing("o", 2, OTHER, origin="run 2"))
    code, _, err = run_command("copy", sharded, back)

    assert code == 1
    for told in ("owner=o", "run 1", "run 2", "tms tx owners forget"):
        assert told in err
    assert not any(rows_in(back))


def test_a_transaction_in_progress_in_any_shard_is_refused(
    source: str, sharded: str, back: str
) -> None:
    async def leave_one_open(services: OpenServices | ShardedServices) -> None:
        request = StartRequest(namespace="ns", topic=OTHER.name)
        await home_of(services, OTHER).transactions.start(request)

    asyncio.run(fill(source, many=1))
    copy(source, sharded)
    use(sharded, leave_one_open)
    code, _, err = run_command("copy", sharded, back)

    assert (code, "in progress" in err) == (1, True)
    assert not any(rows_in(back))


def test_a_pass_of_cleanup_goes_through_all_shards(source: str, sharded: str) -> None:
    asyncio.run(fill(source, many=1))
    copy(source, sharded)

    def pruned(store: str) -> dict[str, Any]:
        code, out, err = run_command("prune", "--store", store, "--json")
        assert (code, err) == (0, "")
        facts: dict[str, Any] = json.loads(out)
        return facts

    of_gone = pruned(url_of_shard(sharded, SHARDING.shard_of(GONE)))
    assert of_gone["dropped_rows"]["message"] > 0
    use(sharded, deleting(ORDERS))
    use(sharded, deleting(OTHER))
    facts = pruned(sharded)
    assert facts["regions"] == facts["regions_done"] == 5 * of_gone["regions"]
    assert facts["dropped_rows"]["message"] > 10
    assert pruned(sharded)["dropped_rows"] == {}


@pytest.mark.parametrize("shard", [0, 3])
def test_a_shard_that_is_away_keeps_none_of_the_others_from_cleanup(
    source: str, sharded: str, rows: RowsAway, shard: int
) -> None:
    asyncio.run(fill(source, many=1))
    copy(source, sharded)
    rows.away = shard
    code, out, _ = run_command("prune", "--store", sharded, "--json")
    facts = json.loads(out)
    assert (code, "no answer" in facts["failure"]) == (1, True)
    rows.away = None
    code, out, _ = run_command("prune", "--store", sharded, "--json")
    assert code == 0
    of_shard = shard == SHARDING.shard_of(GONE)
    assert bool(json.loads(out)["dropped_rows"]) == of_shard, "the others were done before"


def test_a_check_goes_through_all_shards(source: str, sharded: str, rows: RowsAway) -> None:
    def verified(*options: str) -> tuple[int, dict[str, Any]]:
        code, out, err = run_command("debug", "verify", "--store", sharded, "--json", *options)
        assert err == ""
        return code, json.loads(out)

    asyncio.run(fill(source, many=1))
    copy(source, sharded)
    gone = SHARDING.shard_of(GONE)
    code, facts = verified("--cleaned")
    assert (code, facts["failure"]) == (1, None)
    assert facts["problems"]
    assert all(problem.startswith(f"shard {gone}: ") for problem in facts["problems"])
    assert len(verified("--cleaned", "--shard", str(gone))[1]["problems"]) == len(facts["problems"])
    assert verified()[0] == 0

    rows.unread = (gone + 1) % SHARDING.shards
    code, away = verified("--cleaned")
    assert code == 1
    assert away["failure"].startswith(f"shard {rows.unread}: ")
    assert away["problems"] == facts["problems"], "the others are checked all the same"
