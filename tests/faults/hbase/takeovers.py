"""Three servers on one HBase lose their leader again and again, while clients work.

    python -m tests.faults.hbase.takeovers --rounds 60 --results /tmp/takeovers.jsonl

starts HBase, ZooKeeper and etcd, and continues with the rounds that the file does not have yet.
Each line of the file names the fault, and the longest time without an acknowledgement. The promises
checked are: every acknowledged message is there once; ids ascend; messages that readers got never
change; transactions are whole, and positions are where committed moves have put them.
"""

import os
import signal
import uuid
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress

import httpx

from dev.hbase.servers import HBaseServers
from dev.processes import HOST, free_ports
from tables.hbase.connections import Gateway
from tables.hbase.creation import create
from tables.hbase.layout import Place
from tables.hbase.store import HBaseStore
from tables.sealing.runs import is_seal
from tables.store import PAYLOAD
from tests.contracts.store_contract import rows_of
from tests.faults.hbase.cluster_clients import (
    BASE,
    TIMEOUT_S,
    TOPICS,
    Clients,
    Json,
    answer_of,
)
from tests.faults.hbase.long_rounds import lasts, main, show
from tests.servers.proxy import Proxy
from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX, wait_until

LEASE_S = 3.0
SERVERS = 3
FLAGS = (
    *("--lease-s", str(LEASE_S), "--hbase-timeout-s", "5", "--hbase-retry-s", "1"),
    *("--cleanup-period-s", "1"),
)
BEFORE, AFTER = 20, 40
"""How many requests are acknowledged before a fault, and after it."""


class Server:
    """One of the servers, with its own gateway."""

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
            return str(httpx.get(f"{self.url}/v1/cluster", timeout=2.0).json().get("role", ""))
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
        self.http = stack.enter_context(httpx.Client(timeout=WAIT_S_MAX, trust_env=False))
        self.leader()
        for topic in TOPICS:
            self.ask("PUT", f"{BASE}/{topic}")
        self.ask("PUT", f"{BASE}/{TOPICS[0]}/subscriptions/s")

    def leader(self, but: Server | None = None) -> Server:
        """Return the server that leads, once one other than `but` does."""
        others = [server for server in self.servers if server is not but]
        found = wait_until(
            lambda: next((each for each in others if each.role() == "leader"), None),
            "one of the servers leads",
        )
        assert found is not None
        return found

    def ask(self, method: str, path: str, body: Json = None) -> Json:
        """Return the first successful answer of any server."""
        return answer_of(self.http, [each.url for each in self.servers], method, path, body)

    def payloads(self, topic: str, *, committed: bool) -> list[tuple[str, str]]:
        query = "?isolation=committed" if committed else ""
        told = self.ask("POST", f"{BASE}/{topic}/poll{query}", {"limit": 1_000_000})
        return [(each["id"], each["payload"]) for each in told]

    def close(self) -> None:
        for server in self.servers:
            server.process.kill()


class Rounds:
    """Successive faults, and the messages that readers got between them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.clients = Clients([server.url for server in cluster.servers])
        cluster.stack.callback(self.clients.stop)
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

    def round(self, fault: str) -> dict[str, float]:
        """Cause a fault; return the longest time without an acknowledgement, in seconds."""
        self.clients.until_more(BEFORE)
        self.clients.watch()
        self.faults[fault](self.cluster.leader())
        self.clients.until_more(AFTER)
        longest_s = self.clients.longest_s
        self.check()
        return {"longest_s": longest_s}

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
        lasts(seconds)
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
        """Delay the leader's requests in flight by two such rounds, or until the end."""
        leader.gateway.hold()
        lasts(0.3)
        self.kill(leader)
        self.held.append(leader.gateway)
        if len(self.held) > 2:
            self.held.pop(0).release()

    def silence_standby(self, leader: Server) -> None:
        """Kill the leader while one of the others does not reach HBase: the third one leads."""
        blind, good = [each for each in self.cluster.servers if each is not leader]
        blind.gateway.hold()
        self.until_told(blind, reaches=False)
        lasts(LEASE_S)  # until then it may claim, because it reached HBase recently
        leader.process.kill()
        assert self.cluster.leader(but=leader) is good
        blind.gateway.release()
        leader.start()
        self.until_told(blind, reaches=True)

    def silence_leader(self, leader: Server) -> None:
        """Silence the leader's gateway: another server leads before the gateway is back."""
        leader.gateway.hold()
        other = self.cluster.leader(but=leader)
        self.clients.until_more(AFTER)
        leader.gateway.release()
        self.until_told(leader, reaches=True)
        assert self.cluster.leader() is other

    def until_told(self, server: Server, *, reaches: bool) -> None:
        """Wait until the others know whether a server reaches HBase."""

        def is_told() -> bool:
            found = self.cluster.ask("GET", "/v1/cluster")["instances"]
            told = [
                each["reaches_store_since_ms"] for each in found if each["address"] == server.url
            ]
            return bool(told) and all((each is not None) == reaches for each in told)

        wait_until(is_told, f"the others are told whether {server.url} reaches HBase")

    def metadata_away(self, seconds: float) -> None:
        self.cluster.to_metadata.hold()
        lasts(seconds)
        self.cluster.to_metadata.release()
        self.cluster.leader()

    def check(self) -> None:
        """Compare the messages that readers get with those that they got before."""
        for topic in TOPICS:
            for committed in (False, True):
                seen = self.cluster.payloads(topic, committed=committed)
                shown = self.shown[topic, committed]
                assert seen[: len(shown)] == shown, "what was shown is not as it was"
                self.shown[topic, committed] = seen
                ids = [each for each, _ in seen]
                assert ids == sorted(set(ids))

    def finish(self) -> None:
        """Stop the clients, release held requests, and check everything that was acknowledged."""
        self.clients.stop()
        self.check()
        for proxy in self.held:
            proxy.release()
        lasts(TIMEOUT_S + 2)  # a committed reader stops at transactions of dead clients
        self.check()
        position = self.cluster.ask("GET", f"{BASE}/{TOPICS[0]}/subscriptions/s")
        self.clients.check(self.shown, position)
        self.check_seals()

    def check_seals(self) -> None:
        """Check that seals were written only for transactions that continued over a takeover.

        The client has at most one at a time, and gives up most of those.
        """
        place = self.cluster.place
        with closing(HBaseStore(place, Gateway(HOST, place.port))) as store:
            seals = sum(is_seal(key) for key, _ in rows_of(store, PAYLOAD))
        takeovers = self.cluster.ask("GET", "/v1/cluster")["token"]
        given_up = self.clients.started - len(self.clients.committed)
        show(f"{seals} seals, {takeovers} leaders, {self.clients.started} transactions")
        assert seals <= given_up + takeovers


def _new(hbase: HBaseServers, metadata: str, stack: ExitStack) -> Rounds:
    return Rounds(Cluster(hbase, metadata, stack))


if __name__ == "__main__":
    main(__doc__, _new)
