"""Three servers share six shards on one HBase and lose each other, while clients work in each.

    python -m tests.faults.hbase.shard_rounds --rounds 60 --results /tmp/shards.jsonl

starts HBase, ZooKeeper and etcd, and continues with the rounds that the file does not have yet.
Each line of the file names the fault, and the longest time without an acknowledgement in the
namespaces whose leader was hit, and in the others. It also counts the failed requests, by status,
or by the kind of error if there was no answer.

Each namespace must keep all the promises that `takeovers` checks for a cluster with one leader, and
every server must give the same answers. In the first one, a group with dead letters and scheduled
messages must keep theirs, too (`queue_clients`).
"""

import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import count

import happybase
import httpx

from dev.hbase.regions import change
from dev.hbase.servers import HBaseServers
from dev.processes import HOST
from tables.hbase.fence import FENCE_KEY
from tables.hbase.layout import COLUMN, Salt, parse
from tables.store import MESSAGE, TRANSACTION
from tests.faults.hbase.cluster_clients import TIMEOUT_S, TOPICS, Clients, answer_of, base_of
from tests.faults.hbase.conftest import running
from tests.faults.hbase.long_rounds import lasts, main
from tests.faults.hbase.queue_clients import QUEUE_TOPICS, QueueClients
from tests.faults.hbase.shard_cluster import NAMESPACES, SERVERS, SHARDS, Server, ShardCluster
from tests.servers.proxy import Proxy
from tests.servers.server_process import ServerProcess

ALL = 1_000_000
READ_AGAIN = 100
"""Messages of a topic. Reading more takes long, because each reference costs a scan."""
BURST = 4
"""The number of publishes to each shard that wait for a machine to wake up."""
BEFORE, AFTER = 5, 8
"""How many requests are acknowledged in each namespace before a fault, and after it."""
_FENCED = "tms_cluster_fenced_writes_total"


class ShardRounds:
    """Successive faults, and the messages that readers got between them."""

    def __init__(self, cluster: ShardCluster) -> None:
        self.cluster = cluster
        urls = [server.url for server in cluster.servers]
        self.clients = [
            Clients(
                [*urls[at % SERVERS :], *urls[: at % SERVERS]],
                namespace,
                publishers=1,
                pause_s=0.05,
            )
            for at, namespace in enumerate(NAMESPACES)
        ]
        for clients in self.clients:
            cluster.stack.callback(clients.stop)
        self.queues = QueueClients(urls, NAMESPACES[0], cluster.ask)
        cluster.stack.callback(self.queues.stop)
        self.held: list[Proxy] = []
        self.fenced = 0
        """How many writes the fence stopped of machines that woke up."""
        self.shown: dict[tuple[str, str, bool], list[tuple[str, str]]] = defaultdict(list)
        self._numbers = count()
        self.faults: dict[str, Callable[[], Sequence[Server | int]]] = {
            "machine paused": self.pause_machine,
            "address unreachable": self.hide_address,
            "shard damaged": self.damage,
            "all stopped": self.stop_all,
            "region server killed": self.kill_region_server,
            "regions changed": self.change_regions,
            "gateway held 60 s": self.hold_gateway_60_s,
            "kill": self.kill,
            "move": self.move,
            "stop": self.stop,
            "kill two": self.kill_two,
            "pause 1 s": lambda: self.pause(1),
            "pause 8 s": lambda: self.pause(8),
            "join": self.join,
            "gateway held": self.hold_gateway,
            "link cut": self.cut_link,
            "rolling restart": self.roll,
            "metadata away 4 s": lambda: self.metadata_away(4),
            "metadata away 12 s": lambda: self.metadata_away(12),
            "pause 60 s": lambda: self.pause(60),
        }

    def round(self, fault: str) -> dict[str, float | dict[str, int]]:
        """Cause a fault; return the longest pauses in s, of the namespaces hit and of the others.

        A fault returns the servers or shards that it hit.
        """
        cluster = self.cluster
        cluster.until_even(cluster.servers)
        led = cluster.led()
        assert led is not None
        for clients in (*self.clients, self.queues):
            clients.until_more(BEFORE)
            clients.watch()
        before = sum(clients.count for clients in self.clients)
        hit = self.faults[fault]()
        for clients in (*self.clients, self.queues):
            clients.until_more(AFTER)
        pauses = [clients.longest_s for clients in self.clients]
        is_hit = [led[shard] in hit or shard in hit for shard in range(SHARDS)]
        of_hit = [pause for pause, was in zip(pauses, is_hit, strict=True) if was]
        others = [pause for pause, was in zip(pauses, is_hit, strict=True) if not was]
        errors = sum((clients.errors for clients in self.clients), Counter[str]())
        done = sum(clients.count for clients in self.clients) - before
        self.check(limit=2 * READ_AGAIN)  # while they continue
        for clients in self.clients:
            clients.working.clear()
        self.check()
        queues = self.queues.check_queues()
        for clients in self.clients:
            clients.working.set()
        return {
            **queues,
            "hit_s": max(of_hit, default=0.0),
            "others_s": max(others, default=0.0),
            "acknowledged": done,
            "errors": dict(errors),
        }

    @property
    def victim(self) -> Server:
        """The server that leads the first shard."""
        led = self.cluster.led()
        assert led is not None
        return led[0]

    def _restarted(self, *victims: Server) -> Sequence[Server]:
        cluster = self.cluster
        cluster.until_even([each for each in cluster.servers if each not in victims])
        for each in victims:
            each.start()
        return victims

    def kill(self) -> Sequence[Server]:
        victim = self.victim
        victim.process.kill()
        return self._restarted(victim)

    def kill_two(self) -> Sequence[Server]:
        first = self.victim
        second = next(each for each in self.cluster.servers if each is not first)
        first.process.kill()
        second.process.kill()
        return self._restarted(first, second)

    def stop(self) -> Sequence[Server]:
        victim = self.victim
        assert victim.process.stop() == 0
        return self._restarted(victim)

    def roll(self) -> Sequence[Server]:
        for server in self.cluster.servers:
            assert server.process.stop() == 0
            self._restarted(server)
            self.cluster.until_even(self.cluster.servers)
        return self.cluster.servers

    def join(self) -> Sequence[Server]:
        """Restart a server that was away for long: the others give it its share."""
        victim = self.victim
        assert victim.process.stop() == 0
        self.cluster.until_even([each for each in self.cluster.servers if each is not victim])
        for clients in self.clients:
            clients.until_more(BEFORE)
            clients.watch()
        victim.start()
        self.cluster.until_even(self.cluster.servers)
        return self.cluster.servers

    def move(self) -> Sequence[Server]:
        victim = self.victim
        other = next(each for each in self.cluster.servers if each is not victim)
        self.cluster.wish(0, other)
        return [victim]

    def pause(self, seconds: float) -> Sequence[Server]:
        victim = self.victim
        victim.signal(signal.SIGSTOP)
        lasts(seconds)
        victim.signal(signal.SIGCONT)
        self.cluster.until(lambda _: True, "all served")
        return [victim]

    def pause_machine(self) -> Sequence[Server]:
        """Pause a server and all its clocks until others lead, and wake it up with work to do.

        For the server no time has passed, and the metadata store is silent for a second, so it
        believes that it still leads. Its clocks are set right at the end.
        """
        cluster, victim = self.cluster, self.victim
        led = cluster.led()
        assert led is not None
        number = next(self._numbers)
        hers = [clients for shard, clients in enumerate(self.clients) if led[shard] is victim]
        victim.signal(signal.SIGSTOP)
        since_s = time.monotonic()
        cluster.until_even([each for each in cluster.servers if each is not victim])
        for clients in hers:
            clients.until_more(AFTER)
        victim.to_metadata.hold()
        with ThreadPoolExecutor(BURST * len(hers)) as pool:
            for clients in hers:
                for each in range(BURST):
                    pool.submit(clients.publish_to, victim.url, f"woken.{number}.{each}")
            lasts(0.3)  # the requests are in its backlog
            victim.clock.stand_still(round(1000 * (time.monotonic() - since_s)))
            victim.signal(signal.SIGCONT)
            lasts(1)
            victim.to_metadata.release()
        self.fenced += _fenced_writes(victim)
        cluster.until_even(cluster.servers)
        for clients in self.clients:
            clients.until_more(AFTER)
        assert victim.process.stop() == 0
        return self._restarted(victim)

    def hide_address(self) -> Sequence[Server]:
        """Hide a server from the others until it has no shards."""
        victim = self.victim
        victim.link.hold()
        self.cluster.until_even([each for each in self.cluster.servers if each is not victim])
        for clients in self.clients:
            clients.until_more(AFTER)
        victim.link.release()
        self.cluster.until_even(self.cluster.servers)
        return [victim]

    def damage(self) -> Sequence[int]:
        """Make a shard impossible to open, and restart a server that does not lead it."""
        cluster, victim = self.cluster, self.victim
        place = parse(cluster.store).of_shard(0)
        with closing(happybase.Connection(HOST, cluster.gateway_port)) as connection:
            table = connection.table(place.name_of(TRANSACTION))
            row = table.row(FENCE_KEY)
            table.put(FENCE_KEY, {COLUMN: b"damaged"})
            cluster.until_even(cluster.servers, but=0)
            other = next(each for each in cluster.servers if each is not victim)
            assert other.process.stop() == 0
            cluster.until_even([each for each in cluster.servers if each is not other], but=0)
            other.start()
            cluster.until_even(cluster.servers, but=0)
            for server in cluster.servers:
                ready = httpx.get(f"{server.url}/ready", timeout=TIMEOUT_S)
                assert ready.status_code == httpx.codes.OK, ready.text
                assert any("shard 0" in each for each in ready.json()["warnings"]), ready.text
            table.put(FENCE_KEY, row)
        cluster.wish(0, victim)
        return [0]

    def stop_all(self) -> Sequence[Server]:
        """Stop all servers at the same moment: the store is then free for another one."""
        servers = self.cluster.servers
        for each in servers:
            each.process.terminate()
        assert [each.process.wait() for each in servers] == [0] * SERVERS
        with ServerProcess(self.cluster.store, "--hbase-timeout-s", "5") as alone:
            assert alone.url
            assert alone.stop() == 0
        for each in servers:
            each.start()
        self.cluster.until_even(servers)
        return servers

    def kill_region_server(self) -> Sequence[Server]:
        """Kill one of HBase's region servers, and restart it after the other one took over."""
        hbase = self.cluster.hbase
        name = f"region-{1 + next(self._numbers) % 2}"
        hbase.kill(name)
        for clients in self.clients:
            clients.until_more(AFTER)
        running(hbase)
        self.cluster.until(lambda _: True, "all served")
        return self.cluster.servers

    def change_regions(self) -> Sequence[int]:
        """Split and move the region of a shard's newest messages, and move its fence's region."""
        hbase, place = self.cluster.hbase, parse(self.cluster.store).of_shard(0)
        running(hbase)
        self.check(limit=2 * READ_AGAIN)
        namespace, topic = NAMESPACES[0], TOPICS[0]
        newest = bytes.fromhex(self.shown[namespace, topic, False][-1][0])
        key = f"{namespace}:{topic}:".encode() + (1).to_bytes(4) + newest[:10]
        row = Salt(MESSAGE, 1).of(key) + key
        change(hbase, "split", place.name_of(MESSAGE), row)
        change(hbase, "move", place.name_of(MESSAGE), row)
        change(hbase, "move", place.name_of(TRANSACTION), FENCE_KEY)
        self.cluster.until(lambda _: True, "all served")
        return [0]

    def hold_gateway_60_s(self) -> Sequence[Server]:
        """Delay a live leader's requests at its gateway by a minute."""
        victim = self.victim
        victim.gateway.hold()
        lasts(60)
        victim.gateway.release()
        self.cluster.until_even(self.cluster.servers)
        return [victim]

    def hold_gateway(self) -> Sequence[Server]:
        """Delay a leader's requests in flight by two such rounds, or until the end."""
        victim = self.victim
        victim.gateway.hold()
        lasts(0.3)
        victim.process.kill()
        self.held.append(victim.gateway)
        if len(self.held) > 2:
            self.held.pop(0).release()
        return self._restarted(victim)

    def cut_link(self) -> Sequence[Server]:
        """Cut a server off from the others; its own clients still reach it."""
        victim = self.victim
        victim.link.hold()
        lasts(3)
        victim.link.release()
        return [victim]

    def metadata_away(self, seconds: float) -> Sequence[Server]:
        for each in self.cluster.servers:
            each.to_metadata.hold()
        lasts(seconds)
        for each in self.cluster.servers:
            each.to_metadata.release()
        self.cluster.until(lambda _: True, "all served")
        return self.cluster.servers

    def payloads(
        self,
        server: Server,
        namespace: str,
        topic: str,
        *,
        committed: bool,
        start: str | None = None,
        limit: int = ALL,
    ) -> list[tuple[str, str]]:
        """Return the messages that a server returns from one on, even if another server leads."""
        query = "?isolation=committed" if committed else ""
        path = f"{base_of(namespace)}/{topic}/poll{query}"
        body = {"startFrom": start, "limit": limit}
        told = answer_of(self.cluster.http, [server.url], "POST", path, body)
        return [(each["id"], each["payload"]) for each in told]

    def check(self, again: int = READ_AGAIN, limit: int = ALL) -> None:
        """Compare the messages that readers get with earlier ones, each time by another server.

        The last `again` messages of each topic are read once more, then the new ones, `limit`
        messages in all.
        """
        for at, namespace in enumerate(NAMESPACES):
            server = self.cluster.servers[(at + len(self.shown)) % SERVERS]
            for topic in TOPICS:
                for committed in (False, True):
                    shown = self.shown[namespace, topic, committed]
                    before = shown[-again:]
                    start = before[0][0] if before else None
                    seen = self.payloads(
                        server, namespace, topic, committed=committed, start=start, limit=limit
                    )
                    assert seen[: len(before)] == before, "what was shown is not as it was"
                    shown += seen[len(before) :]
                    ids = [each for each, _ in shown]
                    assert ids == sorted(set(ids))

    def finish(self) -> None:
        """Stop the clients, release held requests, and check everything that was acknowledged."""
        for clients in (*self.clients, self.queues):
            clients.stop()
        self.check(again=ALL)
        for proxy in self.held:
            proxy.release()
        lasts(TIMEOUT_S + 2)  # a committed reader stops at transactions of dead clients
        self.check(again=ALL)
        self.queues.check_queues()
        for shard, (namespace, clients) in enumerate(zip(NAMESPACES, self.clients, strict=True)):
            path = f"{base_of(namespace)}/{TOPICS[0]}/subscriptions/s"
            shown = {key[1:]: seen for key, seen in self.shown.items() if key[0] == namespace}
            clients.check(shown, self.cluster.ask("GET", path))
            told = self.cluster.ask("GET", f"/v1/namespaces/{namespace}/topics?shard={shard}")
            topics = [*TOPICS, *(QUEUE_TOPICS if shard == 0 else ())]
            assert sorted(told) == sorted(topics)
        for server in self.cluster.servers:
            for namespace in NAMESPACES:
                for topic in TOPICS:
                    seen = self.payloads(server, namespace, topic, committed=True)
                    assert seen == self.shown[namespace, topic, True]


def _fenced_writes(server: Server) -> int:
    metrics = httpx.get(f"{server.url}/metrics", timeout=TIMEOUT_S).text
    lines = [line for line in metrics.splitlines() if line.startswith(_FENCED)]
    return sum(int(float(line.split()[-1])) for line in lines)


def _new(hbase: HBaseServers, metadata: str, stack: ExitStack) -> ShardRounds:
    return ShardRounds(ShardCluster(hbase, metadata, stack))


if __name__ == "__main__":
    main(__doc__, _new)
