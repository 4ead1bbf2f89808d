"""Maintenance commands for a store on HBase while a server has it open."""

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

import tms
from cleanup.hbase.lease import CleanupLease
from cleanup.ranges import first_key
from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tables.keys import prefix
from tables.metadata_table import StoreMetadataTable
from tables.store import MESSAGE
from tests.cli.conftest import run_command
from tests.servers.server_process import COMMAND, ROOT, ServerProcess
from tests.tables.hbase.conftest import put_old
from tests.waiting import WAIT_S_MAX, wait_until
from tms.core.runtime.clock import SystemClock
from tms.core.values.message import KEY
from tms.core.values.topic import TopicId, TopicMetadata

pytestmark = pytest.mark.slow

ROWS = 50_000


@pytest.fixture
def url(place: Place, hbase_store: HBaseStore) -> str:
    return f"hbase://{place.host}:{place.port}/{place.prefix}"


@pytest.fixture(params=["2", "0"], ids=["in-server", "apart"])
def workers(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(url: str, workers: str) -> Iterator[ServerProcess]:
    flags = ("--cleanup-workers", workers, "--cleanup-period-s", "3600")
    with ServerProcess(url, *flags) as server:
        yield server
        server.stop()  # a killed server keeps the next one waiting


def answer(*arguments: str) -> Any:
    code, out, err = run_command(*arguments, "--json")
    assert (code, err) == (0, ""), out
    return json.loads(out)


def fill(server: ServerProcess, store: HBaseStore) -> None:
    """Publish ten messages that expire, three that do not, and two of an invalid transaction."""
    with tms.connect(server.url) as client:
        client.topic("old").create(ttl=1)
        put_old(store, TopicId("default", "old"), 10)
        orders = client.topic("orders")
        orders.create()
        orders.publish([b"1", b"2", b"3"])
    code, out, _ = run_command("tx", "start", "--url", server.url)
    pointer = out.strip()
    assert code == 0
    for arguments in (
        ("publish", "orders", "dead", "dead", "--tx", pointer),
        ("tx", "invalidate", pointer),
    ):
        assert run_command(*arguments, "--url", server.url)[0] == 0


def test_cleanup_beside_a_server(
    server: ServerProcess, url: str, workers: str, hbase_store: HBaseStore
) -> None:
    fill(server, hbase_store)
    inverted = dropped = 0
    if workers == "0":
        facts = answer("prune", "--store", url)
        assert facts["regions_done"] == facts["regions"] > 0
        assert facts["failure"] is facts["held_by"] is None
        dropped, inverted = facts["dropped_rows"]["message"], facts["inverted_rows"]
    state = answer("cleanup", "run", "--wait-s", "60", "--url", server.url)
    assert state["passes"] == 1
    assert dropped + state["dropped_rows"] == 9, "the greatest stays"
    assert inverted + state["inverted_rows"] == 2

    assert answer("cleanup", "show", "--url", server.url)["invalid"]["not_inverted"] == 0
    found = answer("debug", "bounds", "--store", url)
    assert len(found["bounds"]) > 1, "one a region"
    assert found["invalid"]["not_inverted"] == 0
    tables = {each["table"]: each["rows"] for each in answer("debug", "tables", "--store", url)}
    assert tables["message"] == 1 + 3 + 2
    rows = run_command("debug", "rows", "--topic", "orders", "--store", url)[1].splitlines()
    dead = json.loads(rows[-1])
    assert dead["write_pointer"].startswith("-")
    assert "rolled back" in str(answer("debug", "explain", "orders", dead["id"], "--store", url))
    verified = answer("debug", "verify", "--cleaned", "--store", url)
    assert verified == {"problems": [], "sealed": 0, "without_payloads": 0, "failure": None}
    with tms.connect(server.url) as client, client.transaction() as tx:
        assert [m.payload for m in client.topic("orders").poll(tx=tx)] == [b"1", b"2", b"3"]


def test_two_do_not_prune_at_once(url: str, hbase_store: HBaseStore) -> None:
    lease = CleanupLease(hbase_store, SystemClock())
    assert lease.take()
    code, out, _ = run_command("prune", "--store", url)
    assert code == 1
    assert re.search(r"another process cleans up \(.+ process \d+ .+, for \d+ s", out)
    lease.release()

    assert run_command("prune", "--store", url)[0] == 0


def test_one_that_is_told_to_stop_lets_others(url: str, hbase_store: HBaseStore) -> None:
    topic = TopicMetadata(TopicId("default", "old"), 1, 1, {})
    start = prefix(topic.id, 1)
    for first in range(0, ROWS, 10_000):
        batch = hbase_store.batch()
        numbers = range(first, first + 10_000)
        batch.put_rows(MESSAGE, [(start + KEY.pack(n, 0), b"\0x") for n in numbers])
        hbase_store.write(batch)
    StoreMetadataTable(hbase_store).replace(None, topic)
    pruning = subprocess.Popen(
        [*COMMAND, "prune", "--store", url], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    wait_until(lambda: first_key(hbase_store, MESSAGE, start, start + b"\xff") != start + bytes(10))
    pruning.terminate()
    assert pruning.wait(WAIT_S_MAX) == 143, "in the middle"
    facts = answer("prune", "--store", url)

    assert facts["held_by"] is None
    assert 0 < facts["dropped_rows"]["message"] < ROWS


def test_wrong_usage_is_reported() -> None:
    assert run_command("prune", "--store", "memory:")[0] == 2
    assert run_command("prune", "--store", "hbase://nowhere:1/x", "--workers", "0")[0] == 2
    assert run_command("prune", "--store", "hbase://127.0.0.1:1/-")[0] == 2
    code, _, err = run_command("prune", "--store", "leveldb:x")
    assert (code, "tms cleanup run" in err) == (2, True)
