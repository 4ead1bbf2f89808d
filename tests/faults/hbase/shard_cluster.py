"""Three servers that share a store with six shards on one HBase, over links that can be cut."""

import os
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import httpx

from dev.hbase.servers import HBaseServers
from dev.processes import HOST, free_ports
from tests.faults.hbase.cluster_clients import TOPICS, Json, answer_of, base_of
from tests.faults.hbase.takeovers import LEASE_S
from tests.servers.proxy import Proxy
from tests.servers.server_process import ServerProcess
from tests.servers.stepping_clock import SteppingClock
from tests.waiting import WAIT_S_MAX, wait_until
from tms.core.values.shards import ShardBy, Sharding
from tms.server.stores import create_tables
from tms.settings import Settings

SHARDS = 6
SERVERS = 3
FLAGS = (
    *("--lease-s", str(LEASE_S), "--hbase-timeout-s", "5", "--hbase-retry-s", "1"),
    *("--cleanup-period-s", "5"),
)
NAMESPACES = [
    next(name for name in map("n{}".format, range(99)) if crc32(name.encode()) % SHARDS == shard)
    for shard in range(SHARDS)
]
"""One for each shard, in order."""


class Server:
    """One of the servers. It has its own clock, gateway, and links to others and the metadata."""

    def __init__(self, cluster: "ShardCluster", port: int) -> None:
        self.cluster = cluster
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self.link = cluster.stack.enter_context(Proxy(port))
        self.advertised = f"http://{self.link.address}"
        self.to_metadata = cluster.stack.enter_context(Proxy(cluster.metadata_port))
        folder = Path(cluster.stack.enter_context(TemporaryDirectory(prefix="tms-clock-")))
        self.clock = cluster.stack.enter_context(closing(SteppingClock(folder)))
        self.start()

    def start(self) -> None:
        cluster = self.cluster
        self.clock.set_right()
        self.gateway = cluster.stack.enter_context(Proxy(cluster.gateway_port))
        store = f"hbase://{HOST}:{self.gateway.port}/{cluster.prefix}"
        metadata = f"{cluster.scheme}://{self.to_metadata.address}/{cluster.prefix}"
        advertise = ("--advertise", self.advertised)
        known = ("--metadata", f"{metadata}?session_timeout_s=4")
        own = ("--allowed-hosts", HOST)
        self.process = ServerProcess(
            store,
            *(*advertise, *known, *own, *FLAGS, *cluster.flags),
            port=self.port,
            clock=self.clock,
        )

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def state(self) -> Json:
        with suppress(httpx.HTTPError):
            answer = httpx.get(f"{self.url}/v1/cluster", timeout=2.0)
            if answer.status_code == 200:
                return answer.json()
        return None


class ShardCluster:
    """Three servers that share a store with six shards, by namespace."""

    def __init__(self, hbase: HBaseServers, metadata: str, stack: ExitStack, *flags: str) -> None:
        """`metadata` is the URL of the metadata store's server, without a path."""
        self.stack = stack
        self.flags = flags
        self.gateway_port = hbase.gateway_port
        self.prefix = f"t{uuid.uuid4().hex[:8]}"
        self.hbase = hbase
        self.store = f"hbase://{HOST}:{self.gateway_port}/{self.prefix}"
        sharding = Sharding(SHARDS, ShardBy.NAMESPACE)
        settings = Settings(store=self.store)
        create_tables(self.store, settings, (HOST, hbase.admin_port), sharding)
        self.scheme, _, address = metadata.partition("://")
        self.metadata_port = int(address.rpartition(":")[2])
        self.servers = [Server(self, port) for port in free_ports(SERVERS)]
        stack.callback(self.close)
        self.http = stack.enter_context(httpx.Client(timeout=WAIT_S_MAX, trust_env=False))
        self.until_even(self.servers)
        for namespace in NAMESPACES:
            for topic in TOPICS:
                self.ask("PUT", f"{base_of(namespace)}/{topic}")
            self.ask("PUT", f"{base_of(namespace)}/{TOPICS[0]}/subscriptions/s")

    def led(self, but: int | None = None) -> dict[int, Server] | None:
        """Return the server of each shard; None if any shard, except `but`, is not served."""
        for server in self.servers:
            state = server.state()
            if state is None:
                continue
            by_id = {
                each["id"]: one
                for each in state["instances"]
                for one in self.servers
                if one.advertised == each["address"]
            }
            shards = [each for each in state["shards"] if each["shard"] != but]
            if all(each["state"] == "serving" and each["leader"] in by_id for each in shards):
                return {each["shard"]: by_id[each["leader"]] for each in shards}
        return None

    def until(self, condition: Callable[[dict[int, Server]], bool], what: str) -> None:
        wait_until(lambda: (led := self.led()) is not None and condition(led), what)

    def until_even(self, servers: Sequence[Server], but: int | None = None) -> None:
        """Wait until these servers lead all shards but one, and none two more than another."""

        def is_even() -> bool:
            counts = Counter((self.led(but) or {}).values())
            numbers = [counts[each] for each in servers]
            is_whole = sum(numbers) == SHARDS - (but is not None)
            return is_whole and max(numbers) - min(numbers) <= 1

        wait_until(is_even, "an even share")

    def number_of(self, server: Server) -> int:
        """Return the cluster's number of a server."""
        instances = self.ask("GET", "/v1/cluster")["instances"]
        return next(int(each["id"]) for each in instances if each["address"] == server.advertised)

    def wish(self, shard: int, server: Server) -> None:
        """Make a server lead a shard; after that the shard is free to move again."""
        self.ask("PUT", "/v1/cluster/wishes", {str(shard): self.number_of(server)})
        self.until(lambda led: led[shard] is server, "a moved shard")
        self.ask("PUT", "/v1/cluster/wishes", {str(shard): None})

    def ask(self, method: str, path: str, body: Json = None) -> Json:
        """Return the first successful answer of any server."""
        return answer_of(self.http, [each.url for each in self.servers], method, path, body)

    def close(self) -> None:
        for server in self.servers:
            server.process.kill()
