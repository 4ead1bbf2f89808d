"""Three servers on one HBase lose their leader again and again, while clients work.

    python -m tests.faults.hbase.takeovers --rounds 60 --results /tmp/takeovers.jsonl

starts HBase, ZooKeeper and etcd, and goes on with the rounds that the file does not have yet. A
line of it says which fault it was, and for how long nobody was acknowledged anything.

What is held to: what was acknowledged is there, once; ids ascend; what readers were shown stays as
it is; transactions are whole, and positions are where committed moves have put them.
"""

import argparse
import json
import os
import random
import signal
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory

import httpx

from dev.etcd import servers as etcd_servers
from dev.hbase.servers import HBaseServers, start
from dev.processes import HOST, free_ports
from dev.zookeeper import servers as zookeeper_servers
from tables.hbase.connections import Gateway
from tables.hbase.creation import create
from tables.hbase.layout import Place
from tests.faults.hbase.cluster_clients import BASE, S_MAX, TIMEOUT_S, TOPICS, Clients, Json
from tests.servers.proxy import Proxy
from tests.servers.server_process import ServerProcess

LEASE_S = 3.0
SERVERS = 3
FLAGS = (
    *("--lease-s", str(LEASE_S), "--hbase-timeout-s", "5", "--hbase-retry-s", "1"),
    *("--cleanup-period-s", "1"),
)
BEFORE, AFTER = 20, 40
"""Requests acknowledged before a fault, and once it has passed."""


class Server:
    """One of the servers, behind a gateway of its own."""

    def __init__(self, cluster: "Cluster", port: int) -> None:
        self.cluster = cluster
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self.start()

    def start(self) -> None:
        cluster = self.cluster
        self.gateway = cluster.stack.enter_context(Proxy(cluster.place.port))
        store = f"hbase://{HOST}:{self.gateway.port}/{cluster.place.prefix}"
        advertise = ("--advertise", self.url, "--metadata", cluster.metadata)
        self.process = ServerProcess(store, *advertise, *FLAGS, *cluster.flags, port=self.port)

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def role(self) -> str:
        with suppress(httpx.HTTPError):
            return str(httpx.get(f"{self.url}/v1/cluster", timeout=1.0).json().get("role", ""))
        return ""


class Cluster:
    """Three servers that share a store and a metadata store."""

    def __init__(self, hbase: HBaseServers, metadata: str, stack: ExitStack, *flags: str) -> None:
        """`metadata` is the URL of the metadata store's server, without a path."""
        self.stack = stack
        self.flags = flags
        self.place = Place(HOST, hbase.gateway_port, f"t{uuid.uuid4().hex[:8]}", 1)
        create(self.place, Gateway(HOST, hbase.gateway_port), (HOST, hbase.admin_port))
        scheme, _, address = metadata.partition("://")
        self.to_metadata = stack.enter_context(Proxy(int(address.rpartition(":")[2])))
        self.metadata = (
            f"{scheme}://{self.to_metadata.address}/{self.place.prefix}?session_timeout_s=4"
        )
        self.servers = [Server(self, port) for port in free_ports(SERVERS)]
        stack.callback(self.close)
        self.http = stack.enter_context(httpx.Client(timeout=S_MAX, trust_env=False))
        self.leader()
        for topic in TOPICS:
            self.ask("PUT", f"{BASE}/{topic}")
        self.ask("PUT", f"{BASE}/{TOPICS[0]}/subscriptions/s")

    def leader(self, but: Server | None = None) -> Server:
        """Return the server that leads, once one does; not `but`."""
        give_up = time.monotonic() + S_MAX
        while time.monotonic() < give_up:
            for server in self.servers:
                if server is not but and server.role() == "leader":
                    return server
            time.sleep(0.05)
        raise AssertionError("nobody leads")

    def ask(self, method: str, path: str, body: Json = None) -> Json:
        """Return the answer of a server that has one, once one has."""
        give_up = time.monotonic() + S_MAX
        while time.monotonic() < give_up:
            for server in self.servers:
                with suppress(httpx.HTTPError):
                    answer = self.http.request(method, server.url + path, json=body)
                    if answer.status_code == 200:
                        return answer.json() if answer.content else None
            time.sleep(0.1)
        raise AssertionError(f"no answer to {method} {path}")

    def payloads(self, topic: str, *, committed: bool) -> list[tuple[str, str]]:
        query = "?isolation=committed" if committed else ""
        told = self.ask("POST", f"{BASE}/{topic}/poll{query}", {"limit": 1_000_000})
        return [(each["id"], each["payload"]) for each in told]

    def close(self) -> None:
        for server in self.servers:
            server.process.kill()


class Rounds:
    """Faults, one after another, and what readers were shown between them."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.clients = Clients([server.url for server in cluster.servers])
        cluster.stack.callback(self.clients.stop)
        self.chance = random.Random(seed)
        self.held: list[Proxy] = []
        self.shown: dict[tuple[str, bool], list[tuple[str, str]]] = defaultdict(list)
        self.faults: dict[str, Callable[[Server], None]] = {
            "kill": self.kill,
            "stop": self.stop,
            "pause 1 s": lambda leader: self.pause(leader, 1),
            "pause 8 s": lambda leader: self.pause(leader, 8),
            "kill twice": self.kill_twice,
            "gateway held": self.hold_gateway,
            "standby's gateway silent": self.silence_standby,
            "leader's gateway silent": self.silence_leader,
            "metadata away 4 s": lambda _: self.metadata_away(4),
            "metadata away 12 s": lambda _: self.metadata_away(12),
            "pause 60 s": lambda leader: self.pause(leader, 60),
        }

    def round(self, fault: str) -> float:
        """Let a fault happen; return for how long nobody was acknowledged anything, in seconds."""
        self.clients.until_more(BEFORE)
        self.clients.watch()
        self.faults[fault](self.cluster.leader())
        self.clients.until_more(AFTER)
        longest_s = self.clients.longest_s
        self.check()
        return longest_s

    def kill(self, leader: Server) -> None:
        leader.process.kill()
        self.cluster.leader(but=leader)
        leader.start()

    def stop(self, leader: Server) -> None:
        assert leader.process.stop() == 0
        self.cluster.leader(but=leader)
        leader.start()

    def pause(self, leader: Server, seconds: float) -> None:
        leader.signal(signal.SIGSTOP)
        time.sleep(seconds)
        leader.signal(signal.SIGCONT)
        self.cluster.leader()

    def kill_twice(self, leader: Server) -> None:
        leader.process.kill()
        second = self.cluster.leader(but=leader)
        second.process.kill()
        leader.start()
        self.cluster.leader(but=second)
        second.start()

    def hold_gateway(self, leader: Server) -> None:
        """Have what the leader has in hand come two such rounds later, or at the end."""
        leader.gateway.hold()
        time.sleep(0.3)
        self.kill(leader)
        self.held.append(leader.gateway)
        if len(self.held) > 2:
            self.held.pop(0).release()

    def silence_standby(self, leader: Server) -> None:
        """Kill the leader while one of the others does not reach HBase: the third one leads."""
        blind, good = [each for each in self.cluster.servers if each is not leader]
        blind.gateway.hold()
        self.until_told(blind, reaches=False)
        time.sleep(LEASE_S)  # for so long it may claim, because it did reach it
        leader.process.kill()
        assert self.cluster.leader(but=leader) is good
        blind.gateway.release()
        leader.start()
        self.until_told(blind, reaches=True)

    def silence_leader(self, leader: Server) -> None:
        """Let the leader's gateway carry nothing: one of the others leads before it is back."""
        leader.gateway.hold()
        other = self.cluster.leader(but=leader)
        self.clients.until_more(AFTER)
        leader.gateway.release()
        self.until_told(leader, reaches=True)
        assert self.cluster.leader() is other

    def until_told(self, server: Server, *, reaches: bool) -> None:
        """Wait until the others are told whether a server reaches HBase."""
        give_up = time.monotonic() + S_MAX
        while time.monotonic() < give_up:
            found = self.cluster.ask("GET", "/v1/cluster")["instances"]
            told = [
                each["reaches_store_since_ms"] for each in found if each["address"] == server.url
            ]
            if told and all((each is not None) == reaches for each in told):
                return
            time.sleep(0.1)
        raise AssertionError(f"nobody tells whether {server.url} reaches HBase")

    def metadata_away(self, seconds: float) -> None:
        self.cluster.to_metadata.hold()
        time.sleep(seconds)
        self.cluster.to_metadata.release()
        self.cluster.leader()

    def check(self) -> None:
        """Compare what readers are given with what they were shown."""
        for topic in TOPICS:
            for committed in (False, True):
                seen = self.cluster.payloads(topic, committed=committed)
                shown = self.shown[topic, committed]
                assert seen[: len(shown)] == shown, "what was shown is not as it was"
                self.shown[topic, committed] = seen
                ids = [each for each, _ in seen]
                assert ids == sorted(set(ids))

    def finish(self) -> None:
        """Stop the clients, let come what was held, and check all that was acknowledged."""
        self.clients.stop()
        self.check()
        for proxy in self.held:
            proxy.release()
        time.sleep(TIMEOUT_S + 2)  # a committed reader stops at what a dead client has begun
        self.check()
        clients = self.clients
        given = {topic: [p for _, p in self.shown[topic, True]] for topic in TOPICS}
        for topic in TOPICS:
            all_of_it = [p for _, p in self.shown[topic, False]]
            assert len(all_of_it) == len(set(all_of_it))
            assert set(clients.acknowledged[topic]) <= set(all_of_it)
            assert set(clients.committed) <= set(given[topic])
        in_transactions = [{p for p in given[t] if p.startswith("3.")} for t in TOPICS]
        assert in_transactions[0] == in_transactions[1], "a transaction is not whole"
        position = self.cluster.ask("GET", f"{BASE}/{TOPICS[0]}/subscriptions/s")
        first = min(clients.moved, default=position["version"] + 1) - 1
        moves = position["version"] - first
        assert len(clients.moved) <= moves == len(in_transactions[0])


@contextmanager
def metadata_servers(kind: str, folder: Path) -> Iterator[str]:
    """Give the URL of a metadata store, `zk` or `etcd`, without a path."""
    module = zookeeper_servers if kind == "zk" else etcd_servers
    folder.mkdir()
    servers = module.start(folder)
    try:
        yield f"{kind}://{servers.addresses}"
    finally:
        servers.stop()


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Do the rounds that are not in the file yet, and show all that are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--fault", help="Only this one.")
    asked = parser.parse_args()
    results = asked.results
    done = (
        [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    )
    for kind in ("zk", "etcd"):
        left = asked.rounds // 2 - sum(each["metadata"] == kind for each in done)
        if left > 0:
            done += _rounds(kind, left, results, asked.fault)
    by_fault: dict[str, list[float]] = defaultdict(list)
    for each in done:
        by_fault[each["fault"]].append(each["longest_s"])
    for fault, seconds in by_fault.items():
        cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
        show(f"{fault}: {len(seconds)} rounds, p50 {cuts[49]:.1f} s, p99 {cuts[98]:.1f} s")


def _rounds(kind: str, left: int, results: Path, only: str | None) -> list[Json]:
    found = []
    with TemporaryDirectory(prefix="tms-takeovers-") as name, ExitStack() as stack:
        folder = Path(name)
        hbase = start(folder / "hbase")
        stack.callback(hbase.stop)
        metadata = stack.enter_context(metadata_servers(kind, folder / "metadata"))
        rounds = Rounds(Cluster(hbase, metadata, stack), seed=left)
        faults = [only] if only else list(rounds.faults)
        for number in range(left):
            fault = faults[number % len(faults)]
            told = {"metadata": kind, "fault": fault, "longest_s": rounds.round(fault)}
            found.append(told)
            show(json.dumps(told))
            with results.open("a") as file:
                file.write(json.dumps(told) + "\n")
        rounds.finish()
    return found


if __name__ == "__main__":
    main()
