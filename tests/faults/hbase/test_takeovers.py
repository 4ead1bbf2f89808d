"""Some rounds of `takeovers`, which can run for as long as you like."""

from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from dev.hbase.servers import HBaseServers
from dev.processes import Servers
from tests.faults.hbase.takeovers import Cluster, Rounds

FAULTS = {
    "zk": ("gateway held", "pause 8 s", "leader's gateway silent", "gateway held", "stop"),
    "etcd": ("kill twice", "standby's gateway silent", "metadata away 4 s", "gateway held"),
}
OF_GATE = ("leader's gateway silent", "standby's gateway silent")
"""A server that does not reach HBase neither keeps nor takes the lead."""


def go_through(faults: Sequence[str], hbase: HBaseServers, metadata: str) -> None:
    with ExitStack() as stack:
        rounds = Rounds(Cluster(hbase, metadata, stack))
        for fault in faults:
            rounds.round(fault)
        rounds.finish()


def test_one_that_does_not_reach_hbase_does_not_lead(hbase: HBaseServers, etcd: Servers) -> None:
    go_through(OF_GATE, hbase, f"etcd://{etcd.addresses}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULTS)
def test_leaders_that_are_lost_lose_nothing(
    kind: str, cluster: HBaseServers, request: pytest.FixtureRequest
) -> None:
    servers: Servers = request.getfixturevalue("zookeeper" if kind == "zk" else "etcd")
    go_through(FAULTS[kind], cluster, f"{kind}://{servers.addresses}")
