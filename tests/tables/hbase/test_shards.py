"""A store with three shards on HBase: with one server, and with two of which one dies.

Metadata is in the ZooKeeper that HBase has.
"""

import asyncio
import json
import re
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

import tms
from dev.hbase.regions import change
from dev.hbase.servers import HBaseServers
from dev.processes import HOST, free_ports
from tests.cli.conftest import run_command
from tests.servers.server_process import ServerProcess
from tests.tables.copies import copy
from tests.waiting import WAIT_S_MAX, wait_until
from tms.core.services.transactions import StartRequest
from tms.core.values.shards import ShardBy, Sharding
from tms.core.values.topic import TopicId
from tms.security.tokens import new_token
from tms.server.jobs import prune_region, regions
from tms.server.node import open_services
from tms.settings import Settings

pytestmark = pytest.mark.slow

SHARDING = Sharding(3, ShardBy.TOPIC)
NAMES = ("a", "b", "c", "d", "e", "f")
WHERE = {name: SHARDING.shard_of(TopicId("default", name)) for name in NAMES}
SHARDED = "The store has several shards, so only `tms serve` opens it"
FLAGS = ("--hbase-timeout-s", "6", "--hbase-retry-s", "1", "--cleanup-period-s", "3600")
TOPICS = "/v1/namespaces/default/topics"
SCHEMA = {"schema": '{"type": "string"}'}


@pytest.fixture(scope="module")
def url(servers: HBaseServers) -> str:
    return created(servers)


def created(servers: HBaseServers) -> str:
    """Create a store with three shards, and return its URL."""
    url = f"hbase://{servers.gateway}/t{uuid.uuid4().hex[:8]}"
    code, out, err = run_command(
        *("init", "--store", url, "--shards", "3", "--shard-by", "topic"),
        *("--admin", servers.admin, "--json"),
    )
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert [told[name] for name in ("shards", "by", "buckets")] == [3, "topic", 1]
    assert len(told["created"]) == 18
    return url


def command(server: ServerProcess, *arguments: str) -> Any:
    code, out, err = run_command(*arguments, "--url", server.url, "--json")
    assert (code, err) == (0, ""), out
    return json.loads(out)


def refused(*arguments: str, exit_code: int = 1) -> str:
    code, out, err = run_command(*arguments)
    assert (code, out) == (exit_code, "")
    return err


def publish_to_all(client: tms.Client, text: str) -> None:
    """Publish to each topic, first in a transaction that is committed, then in one that is not."""
    for name in NAMES:
        topic = client.topic(name)
        for payload, end in (
            (text.encode(), client.transactions.commit),
            (b"never", client.transactions.abort),
        ):
            begun = client.transactions.start(StartRequest(namespace="default", topic=name))
            assert begun.transaction_id % 3 == WHERE[name]
            topic.publish(payload, begun.write_pointer)
            end(begun.transaction_id)


def check_all(client: tms.Client, *texts: str) -> None:
    assert sorted(client.topics()) == sorted(NAMES)
    for name in NAMES:
        found = [each.payload.decode() for each in client.topic(name).poll(committed=True)]
        assert found == list(texts)


def test_a_server_alone_serves_all_shards_over_its_death(url: str) -> None:
    assert set(WHERE.values()) == {0, 1, 2}
    with ServerProcess(url, *FLAGS) as server:
        with tms.connect(server.url) as client:
            for name in NAMES:
                client.topic(name).create()
            publish_to_all(client, "one")
            elsewhere = next(name for name in NAMES if WHERE[name] != SHARDING.home("default"))
            with pytest.raises(tms.OtherShard), client.transaction() as tx:
                client.topic(elsewhere).publish(b"x", tx)
        subjects = f"{server.url}/v1/registry/subjects"
        registered = httpx.post(f"{subjects}/s/versions", json=SCHEMA).raise_for_status().json()
        server.kill()
    with ServerProcess(url, *FLAGS) as server:
        with tms.connect(server.url) as client:
            publish_to_all(client, "two")
            check_all(client, "one", "two")
        subjects = f"{server.url}/v1/registry/subjects"
        assert httpx.get(f"{subjects}/s/versions/1").json()["id"] == registered["id"]
        _look_into_each_shard(server, url)
        with tms.connect(server.url) as client:
            for name in NAMES:
                gone = client.topic(f"{name}--gone")
                gone.create()
                gone.publish([b"x"] * 5)
                gone.delete()
        assert server.stop() == 0
    _prune_each_region(url)


def _look_into_each_shard(server: ServerProcess, url: str) -> None:
    for shard in range(3):
        of_shard = ("--shard", str(shard))
        assert command(server, "cleanup", "run", *of_shard)["passes"] == 1
        assert command(server, "debug", "verify", *of_shard)["problems"] == []
        code, out, _ = run_command("debug", "rows", "--table", "metadata", *of_shard)
        code, out, _ = run_command(
            "debug", "rows", "--store", url, "--table", "metadata", *of_shard
        )
        topics = {json.loads(line)["topic"] for line in out.splitlines()}
        assert code == 0
        own = {f"default:{name}" for name in NAMES if WHERE[name] == shard}
        assert {each for each in topics if each.startswith("default:")} == own
        code, out, err = run_command("prune", "--store", f"{url}.{shard}", "--json")
        assert (code, err, json.loads(out)["failure"]) == (0, "", None)
    assert "say which one" in refused("cleanup", "show", "--url", server.url, exit_code=4)
    told = command(server, "cluster", "where", "default:b")
    assert (told["shard"], told["shards"], told["by"]) == (WHERE["b"], 3, "topic")


def _prune_each_region(url: str) -> None:
    """Prune each region like Spark's job; the greatest row of each deleted topic stays."""
    found = regions(url, Settings())
    assert {region.url for region in found} == {f"{url}.{shard}" for shard in range(3)}
    pruned = Counter[str]()
    for region in found:
        pruned[region.url] += prune_region(Settings(), region)["generation", "rows"]
    for shard in range(3):
        assert pruned[f"{url}.{shard}"] == 4 * [*WHERE.values()].count(shard)


def test_tools_take_the_whole_store(url: str, tmp_path: Path) -> None:
    code, out, err = run_command("prune", "--store", url, "--json")
    facts = json.loads(out)
    assert (code, err) == (0, "")
    assert facts["regions_done"] == facts["regions"] >= 6
    into = f"leveldb:{tmp_path}/copy"
    first, again = copy(url, into), copy(url, into)
    assert first["target_transactions"] == "the source's"
    assert first["copied_rows"] == again["compared_rows"] > 0 == again["copied_rows"]
    code, out, _ = run_command("topic", "list", "--url", into)
    assert (code, out.split()) == (0, sorted(NAMES))


def test_nothing_else_opens_it(url: str, tmp_path: Path) -> None:
    run_command("topic", "create", "a", "--url", f"leveldb:{tmp_path}/own")
    for arguments in (
        ("copy", f"{url}.1", f"leveldb:{tmp_path}/copy"),
        ("copy", f"leveldb:{tmp_path}/own", f"{url}.1"),
        ("init", "--store", f"{url}.1"),
    ):
        assert SHARDED in refused(*arguments)
    for store in (url, f"{url}.1"):
        with pytest.raises(tms.StoreSharded):
            asyncio.run(open_services(store))
    with ServerProcess(f"{url}.1", *FLAGS) as server:
        assert server.wait() == 1
        assert SHARDED in server.log
    assert "created with 3 shards by topic" in refused("init", "--store", url, "--shards", "4")


@contextmanager
def two_servers(url: str, servers: HBaseServers, *flags: str) -> Iterator[list[ServerProcess]]:
    """Start two servers that share the shards."""
    site = Path(servers.folder, "conf", "gateway", "hbase-site.xml").read_text(encoding="utf-8")
    found = re.search(r"clientPort</name><value>(\d+)", site)
    assert found is not None
    metadata = f"zk://{HOST}:{found[1]}/{uuid.uuid4().hex[:8]}?session_timeout_s=4"
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                ServerProcess(
                    *(url, "--advertise", f"http://{HOST}:{port}", "--metadata", metadata),
                    *(*FLAGS, *flags, "--lease-s", "2", "--move-delay-s", "1"),
                    port=port,
                )
            )
            for port in free_ports(2)
        ]


def test_servers_share_the_shards_and_take_over_from_each_other(
    url: str, servers: HBaseServers
) -> None:
    with two_servers(url, servers) as started:
        first, second = started
        wait_until(lambda: _is_ready(first) and _is_ready(second))
        wait_until(lambda: len(set(_leaders(first))) == 2 and None not in _leaders(first))
        serving = 'tms_cluster_shards{state="serving"} 3.0'
        wait_until(lambda: serving in httpx.get(f"{first.url}/metrics").text)
        assert "tms_held_requests 0.0" in httpx.get(f"{first.url}/metrics").text
        ids = sorted(each["id"] for each in command(first, "cluster")["instances"])
        with tms.connect(first.url) as client, tms.connect(second.url) as other:
            topics = client.topics() or _created(client)
            assert sorted(other.topics()) == sorted(topics)
            for each in (client, other):
                publish_to_all(each, "shared")
            before = {name: len([*client.topic(name).poll(committed=True)]) for name in topics}
            assert before == {
                name: len([*other.topic(name).poll(committed=True)]) for name in topics
            }
            begun = [each.transactions.start(StartRequest(topic="a")) for each in (client, other)]
            listed = [each.transaction_id for each in client.transactions.in_progress()]
            assert {snapshot.transaction_id for snapshot in begun} <= set(listed)
            for snapshot in begun:
                client.transactions.abort(snapshot.transaction_id)
        subjects = [f"{each.url}/v1/registry/subjects" for each in started]
        registered = httpx.post(f"{subjects[0]}/two/versions", json=SCHEMA).raise_for_status()
        assert httpx.get(f"{subjects[1]}/two/versions/1").json()["id"] == registered.json()["id"]
        wait_until(lambda: sorted(Counter(_leaders(second))[each] for each in ids) == [1, 2])

        lost = _leaders(second).count(command(first, "cluster")["id"])
        first.kill()
        with tms.connect(second.url) as client:
            publish_to_all(client, "four")
            after = {name: len([*client.topic(name).poll(committed=True)]) for name in topics}
        assert after == {name: count + 1 for name, count in before.items()}
        assert len(set(_leaders(second))) == 1
        metrics = httpx.get(f"{second.url}/metrics").text
        assert metrics.count("\ntms_cluster_lease_left_seconds{shard=") == 3
        assert f'tms_cluster_shard_moves_total{{why="ran_out"}} {lost}.0' in metrics
        assert command(second, "cluster", "where", "default:c")["address"] == second.url
        assert command(second, "cleanup", "show", "--shard", "2")["failed_passes"] == 0
        assert second.stop() == 0


def test_rules_and_the_audit_are_the_same_through_each_server(
    url: str, servers: HBaseServers
) -> None:
    (root, root_kept), (ann, ann_kept) = new_token("root"), new_token("ann")
    tokens = ",".join(
        f"{each.id}:{each.sha256.hex()}:{each.principal}" for each in (root_kept, ann_kept)
    )
    security = ("--auth", "required", "--superusers", "root", "--auth-tokens", tokens)
    with two_servers(url, servers, *security, "--audit-topic") as started:
        for server in started:
            wait_until(partial(_is_ready, server))
        clients = [httpx.Client(base_url=each.url, timeout=WAIT_S_MAX) for each in started]
        as_root, as_ann = ({"authorization": f"Bearer {each}"} for each in (root, ann))
        wait_until(lambda: _led_by(clients[0], as_root) == 2)
        for name in NAMES:
            clients[0].put(f"{TOPICS}/{name}", headers=as_root)
        rule = {
            "who": "ann",
            "actions": ["consume", "describe"],
            "namespace": "default",
            "name": "a",
        }
        granted = clients[0].post("/v1/auth/rules", json=rule, headers=as_root)
        assert granted.status_code == 200, granted.text
        subjects = "/v1/registry/subjects"
        registered = clients[0].post(f"{subjects}/s3/versions", json=SCHEMA, headers=as_root)
        assert registered.status_code == 200, registered.text
        for client in clients:
            wait_until(partial(_may, client, f"{TOPICS}/a", as_ann))
            assert sorted(client.get(TOPICS, headers=as_root).json()) == sorted(NAMES)
            assert client.get(TOPICS, headers=as_ann).json() == ["a"]
            for name in NAMES[1:]:
                assert client.get(f"{TOPICS}/{name}", headers=as_ann).status_code == 404
            listing = "/v1/transactions?status=in_progress"
            assert client.get(listing, headers=as_root).status_code == 200
            assert client.get(listing, headers=as_ann).status_code == 403
            assert client.get(listing).status_code == 401
            found = client.get(f"{subjects}/s3/versions/1", headers=as_root)
            assert found.json()["id"] == registered.json()["id"]
            wait_until(partial(_is_told, client, as_root, "ann"))
            client.close()


def test_a_cut_of_all_shards_is_restored_as_docs_backup_says(servers: HBaseServers) -> None:
    url = created(servers)

    def contents(client: tms.Client) -> dict[str, list[bytes | None]]:
        return {name: [each.payload for each in client.topic(name).poll()] for name in NAMES}

    def last_ids(client: tms.Client) -> list[bytes]:
        return [[*client.topic(name).poll()][-1].id for name in NAMES]

    prefix = url.rpartition("/")[2].encode()
    with ServerProcess(url, *FLAGS) as server:
        with tms.connect(server.url) as client:
            for name in NAMES:
                client.topic(name).create()
            publish_to_all(client, "before the cut")
            before = contents(client)
            owner = client.publish_all({NAMES[0]: [b"once"]}, owner="o", sequence=1)
            before[NAMES[0]].append(b"once")
        assert server.stop() == 0
    change(servers, "snapshot", prefix, b"cut")
    with ServerProcess(url, *FLAGS) as server:
        with tms.connect(server.url) as client:
            assert contents(client) == before
            publish_to_all(client, "after the cut")
            client.topic("new").create()
            lost = last_ids(client)
        assert server.stop() == 0
    change(servers, "restore", prefix, b"cut")
    with ServerProcess(url, *FLAGS) as server:
        with tms.connect(server.url) as client:
            assert (sorted(client.topics()), contents(client)) == (sorted(NAMES), before)
            again = client.publish_all({NAMES[0]: [b"once"]}, owner="o", sequence=1)
            assert (again.is_duplicate, again.write_pointer) == (True, owner.write_pointer)
            publish_to_all(client, "restored")
            assert all(now > then for now, then in zip(last_ids(client), lost, strict=True))
        for shard in range(3):
            problems = command(server, "debug", "verify", "--shard", str(shard))["problems"]
            assert problems == []


def _led_by(client: httpx.Client, headers: dict[str, str]) -> int:
    """Return how many servers lead shards."""
    shards = client.get("/v1/cluster", headers=headers).json()["shards"]
    return len({each["leader"] for each in shards if each["state"] == "serving"})


def _may(client: httpx.Client, path: str, headers: dict[str, str]) -> bool:
    return client.get(path, headers=headers).status_code == 200


def _is_told(client: httpx.Client, headers: dict[str, str], who: str) -> bool:
    """Whether the audit topic records a refusal for this principal."""
    path = "/v1/namespaces/system/topics/_audit/poll"
    answer = client.post(path, json={"limit": 10_000}, headers=headers)
    if answer.status_code != 200:
        return False
    told = [json.loads(each["payload"]) for each in answer.json()]
    return any(each["principal"] == who and each["effect"] == "deny" for each in told)


def _leaders(server: ServerProcess) -> list[int | None]:
    return [each["leader"] for each in command(server, "cluster")["shards"]]


def _created(client: tms.Client) -> list[str]:
    for name in NAMES:
        client.topic(name).create()
    return list(NAMES)


def _is_ready(server: ServerProcess) -> bool:
    return httpx.get(f"{server.url}/ready").status_code == 200
