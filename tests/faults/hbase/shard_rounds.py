"""Three servers share six shards on one HBase and lose each other, while clients work in each.

    python -m tests.faults.hbase.shard_rounds --rounds 60 --results /tmp/shards.jsonl

starts HBase, ZooKeeper and etcd, and goes on with the rounds that the file does not have yet. A
line of it says which fault it was, and for how long nothing was acknowledged: the longest of the
namespaces whose leader was hit, and of the others.

Each namespace is held to all that `takeovers` holds a cluster with one leader to, and through
whichever server one asks, the answer is the same.
"""

import signal
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from dev.hbase.servers import HBaseServers
from tests.faults.hbase.cluster_clients import TIMEOUT_S, TOPICS, Clients, answer_of, base_of
from tests.faults.hbase.long_rounds import lasts, main
from tests.faults.hbase.shard_cluster import NAMESPACES, SERVERS, SHARDS, Server, ShardCluster
from tests.servers.proxy import Proxy

ALL = 1_000_000
READ_AGAIN = 100
"""Messages of a topic. To read more takes long, because each reference costs a scan."""
BEFORE, AFTER = 5, 8
"""Requests acknowledged in each namespace before a fault, and once it has passed."""


class ShardRounds:
    """Faults, one after another, and what readers were shown between them."""

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
        self.held: list[Proxy] = []
        self.shown: dict[tuple[str, str, bool], list[tuple[str, str]]] = defaultdict(list)
        self.faults: dict[str, Callable[[], Sequence[Server]]] = {
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

    def round(self, fault: str) -> dict[str, float]:
        """Let a fault happen; return the longest pauses in s, of whom it hit and of others."""
        cluster = self.cluster
        cluster.until_even(cluster.servers)
        led = cluster.led()
        assert led is not None
        for clients in self.clients:
            clients.until_more(BEFORE)
            clients.watch()
        hit = self.faults[fault]()
        for clients in self.clients:
            clients.until_more(AFTER)
        pauses = [clients.longest_s for clients in self.clients]
        of_hit = [pauses[shard] for shard in range(SHARDS) if led[shard] in hit]
        others = [pauses[shard] for shard in range(SHARDS) if led[shard] not in hit]
        self.check(limit=2 * READ_AGAIN)  # while they go on
        for clients in self.clients:
            clients.working.clear()
        self.check()
        for clients in self.clients:
            clients.working.set()
        return {"hit_s": max(of_hit, default=0.0), "others_s": max(others, default=0.0)}

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
        """Start one again that was away for long: others give it its share."""
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
        state = other.state()
        assert state is not None
        number = next(
            each["id"] for each in state["instances"] if each["address"] == other.advertised
        )
        self.cluster.ask("PUT", "/v1/cluster/wishes", {"0": number})
        self.cluster.until(lambda led: led[0] is other, "a moved shard")
        self.cluster.ask("PUT", "/v1/cluster/wishes", {"0": None})
        return [victim]

    def pause(self, seconds: float) -> Sequence[Server]:
        victim = self.victim
        victim.signal(signal.SIGSTOP)
        lasts(seconds)
        victim.signal(signal.SIGCONT)
        self.cluster.until(lambda _: True, "all served")
        return [victim]

    def hold_gateway(self) -> Sequence[Server]:
        """Have what a leader has in hand come two such rounds later, or at the end."""
        victim = self.victim
        victim.gateway.hold()
        lasts(0.3)
        victim.process.kill()
        self.held.append(victim.gateway)
        if len(self.held) > 2:
            self.held.pop(0).release()
        return self._restarted(victim)

    def cut_link(self) -> Sequence[Server]:
        """Let no other server reach one: who asks that one itself is answered."""
        victim = self.victim
        victim.link.hold()
        lasts(3)
        victim.link.release()
        return [victim]

    def metadata_away(self, seconds: float) -> Sequence[Server]:
        self.cluster.to_metadata.hold()
        lasts(seconds)
        self.cluster.to_metadata.release()
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
        """Return what one server gives from a message on, be it that another leads."""
        query = "?isolation=committed" if committed else ""
        path = f"{base_of(namespace)}/{topic}/poll{query}"
        body = {"startFrom": start, "limit": limit}
        told = answer_of(self.cluster.http, [server.url], "POST", path, body)
        return [(each["id"], each["payload"]) for each in told]

    def check(self, again: int = READ_AGAIN, limit: int = ALL) -> None:
        """Compare what readers are given with what they were shown, through another server each.

        Of each topic the last `again` messages are read once more, and then what is new, `limit`
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
        """Stop the clients, let come what was held, and check all that was acknowledged."""
        for clients in self.clients:
            clients.stop()
        self.check(again=ALL)
        for proxy in self.held:
            proxy.release()
        lasts(TIMEOUT_S + 2)  # a committed reader stops at what a dead client has begun
        self.check(again=ALL)
        for shard, (namespace, clients) in enumerate(zip(NAMESPACES, self.clients, strict=True)):
            path = f"{base_of(namespace)}/{TOPICS[0]}/subscriptions/s"
            shown = {key[1:]: seen for key, seen in self.shown.items() if key[0] == namespace}
            clients.check(shown, self.cluster.ask("GET", path))
            told = self.cluster.ask("GET", f"/v1/namespaces/{namespace}/topics?shard={shard}")
            assert sorted(told) == sorted(TOPICS)
        for server in self.cluster.servers:
            for namespace in NAMESPACES:
                for topic in TOPICS:
                    seen = self.payloads(server, namespace, topic, committed=True)
                    assert seen == self.shown[namespace, topic, True]


def _new(hbase: HBaseServers, metadata: str, stack: ExitStack) -> ShardRounds:
    return ShardRounds(ShardCluster(hbase, metadata, stack))


if __name__ == "__main__":
    main(__doc__, _new)
