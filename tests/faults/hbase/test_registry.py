"""The registry of a cluster on HBase: every server serves it, and leaders are lost."""

from contextlib import ExitStack

import httpx
import pytest

from dev.hbase.servers import HBaseServers
from dev.processes import Servers
from tests.faults.hbase.takeovers import Cluster
from tests.registry.registries import fixed
from tests.registry.storm import Storm
from tests.waiting import WAIT_S_MAX, wait_until

pytestmark = pytest.mark.slow

BEFORE, AFTER = 40, 60
"""Requests answered before a leader is lost, and after that."""


@pytest.mark.parametrize("mode", ["active", "master"])
def test_leaders_are_lost_and_no_schema_is(
    cluster: HBaseServers, zookeeper: Servers, mode: str
) -> None:
    with ExitStack() as stack:
        flags = ("--registry-mode", mode)
        servers = Cluster(cluster, f"zk://{zookeeper.addresses}", stack, *flags)
        urls = [f"{server.url}/v1/registry" for server in servers.servers]
        body = {"schema": fixed(1)}
        for url in urls:  # the master need not be the leader of the store
            until_written(url)
        told = httpx.post(f"{urls[0]}/subjects/first/versions", json=body, timeout=WAIT_S_MAX)
        assert told.json()["id"] == 1
        for url in urls:
            until_read(url)
        with Storm(urls, seed=2) as storm:
            for _ in range(2):
                storm.until_more(BEFORE)
                leader = servers.leader()
                leader.process.kill()
                others = [url for url in urls if not url.startswith(leader.url)]
                from_memory(others)
                storm.until_more(AFTER)
                leader.start()
                until_read(f"{leader.url}/v1/registry")
        servers.leader()
        storm.check()


def until_written(url: str) -> None:
    """Return once a write at the server is done, by whichever server writes."""
    wait_until(lambda: is_done("PUT", f"{url}/config/x", {"normalize": True}), "somebody writes")


def until_read(url: str) -> None:
    """Return once the started server has read the log."""
    wait_until(lambda: is_done("GET", f"{url}/schemas/ids/1"), f"{url} serves the registry")


def is_done(method: str, url: str, body: object = None) -> bool:
    try:
        return httpx.request(method, url, json=body, timeout=WAIT_S_MAX).is_success
    except httpx.HTTPError:
        return False


def from_memory(urls: list[str]) -> None:
    """Request data that servers have in memory: they answer without a leader."""
    for url in urls:
        schema = httpx.get(f"{url}/schemas/ids/1")
        assert schema.json()["schema"] == fixed(1)
        assert "tms-forwarded-by" not in schema.headers
        assert httpx.get(f"{url}/subjects/first/versions/1").json()["id"] == 1
