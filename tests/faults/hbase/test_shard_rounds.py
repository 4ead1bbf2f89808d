"""Some rounds of `shard_rounds`, which can run for as long as you like."""

from contextlib import ExitStack

import pytest

from dev.hbase.servers import HBaseServers
from dev.processes import Servers
from tests.faults.hbase.shard_cluster import ShardCluster
from tests.faults.hbase.shard_rounds import ShardRounds

pytestmark = pytest.mark.slow

FAULTS = ("gateway held", "machine paused")


def test_servers_that_share_shards_lose_nothing_of_any(
    cluster: HBaseServers,
    zookeeper: Servers,
) -> None:
    with ExitStack() as stack:
        metadata, soon = f"zk://{zookeeper.addresses}", ("--move-delay-s", "1")
        rounds = ShardRounds(ShardCluster(cluster, metadata, stack, *soon))
        for fault in FAULTS:
            rounds.round(fault)
        assert rounds.fenced, "the machine that was paused did not lead in its own eyes"
        rounds.finish()
