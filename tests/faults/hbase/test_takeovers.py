"""A share of `takeovers`, whose rounds can go on for as long as wanted."""

from contextlib import ExitStack

import pytest

from dev.hbase.servers import HBaseServers
from dev.processes import Servers
from tests.faults.hbase.takeovers import Cluster, Rounds

pytestmark = pytest.mark.slow

FAULTS = {
    "zk": ("gateway held", "pause 8 s", "leader's gateway silent", "gateway held", "stop"),
    "etcd": ("kill twice", "standby's gateway silent", "metadata away 4 s", "gateway held"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_leaders_that_are_lost_lose_nothing(
    kind: str, cluster: HBaseServers, request: pytest.FixtureRequest
) -> None:
    servers: Servers = request.getfixturevalue("zookeeper" if kind == "zk" else "etcd")
    with ExitStack() as stack:
        rounds = Rounds(Cluster(cluster, f"{kind}://{servers.addresses}", stack))
        for fault in FAULTS[kind]:
            rounds.round(fault)
        rounds.finish()
