"""Servers of which one is master, elected by ZooKeeper, by etcd, or among themselves: the master is
killed, paused, cut off and stopped while clients write.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from dev.processes import Servers
from tests.metadata.servers import fresh_url
from tests.registry.masters import SERVERS, ElectedBy, Masters, http, until
from tests.registry.registries import fixed
from tests.registry.storm import Storm
from tests.scale import scaled
from tests.servers.proxy import Proxy
from tests.servers.server_process import ROOT, ServerProcess, environment, tms_command

SESSION_S = 4
BY_THEMSELVES = ("--registry-session-s", "3")
BEFORE, AFTER = scaled(60), scaled(60)
RESTARTS = scaled(2)


@dataclass(frozen=True)
class ByMetadata:
    """Servers that elect by a metadata store, which each reaches through a proxy of its own."""

    url: str
    proxies: list[Proxy]

    def __call__(self, number: int) -> tuple[str, ...]:
        kind, _, rest = self.url.partition("://")
        path = rest.partition("/")[2]
        address = self.proxies[number].address
        return "--metadata", f"{kind}://{address}/{path}?session_timeout_s={SESSION_S}"


@pytest.fixture(
    scope="module",
    params=[*(pytest.param(kind, marks=pytest.mark.slow) for kind in ("zk", "etcd")), "members"],
)
def elected_by(request: pytest.FixtureRequest) -> Iterator[ElectedBy]:
    """How the master is elected."""
    if request.param == "members":
        yield lambda _: BY_THEMSELVES
        return
    servers: Servers = request.getfixturevalue("zookeeper" if request.param == "zk" else "etcd")
    url = fresh_url(request.param, servers)
    port = int(url.partition("://")[2].partition("/")[0].rpartition(":")[2])
    with ExitStack() as stack:
        yield ByMetadata(url, [stack.enter_context(Proxy(port)) for _ in range(SERVERS)])


@pytest.fixture(scope="module")
def masters(tmp_path_factory: pytest.TempPathFactory, elected_by: ElectedBy) -> Iterator[Masters]:
    """Servers for all tests of one way to elect; each test leaves them running."""
    with ExitStack() as stack:
        made = Masters(tmp_path_factory.mktemp("masters") / "store", stack, elected_by)
        assert all(server.url for server in (made.store, *made.servers))
        yield made
        for server in made.servers:
            server.kill()


def test_what_was_written_is_seen_at_once(masters: Masters) -> None:
    masters.agreed()
    follower = next(each for each in range(3) if each != masters.master())
    url, others = masters.urls[follower], masters.urls
    for number in range(1, 6):
        kept = http.post(f"{url}/subjects/s/versions", json={"schema": fixed(1)}).json()
        http.put(f"{url}/config/c{number}", json={"compatibility": "FULL"}).raise_for_status()
        assert http.get(f"{url}/schemas/ids/{kept['id']}").json()["schema"] == fixed(1)
        for other in others:
            answer = http.get(f"{other}/config/c{number}")
            assert answer.json() == {"compatibilityLevel": "FULL"}
    refused = http.post(f"{url}/subjects/s/versions", json={"schema": fixed(2)})
    assert (refused.status_code, refused.json()["error_code"]) == (409, 409)
    assert refused.headers["content-type"] == "application/vnd.schemaregistry.v1+json"
    assert "tms-forwarded-by" in refused.headers
    http.delete(f"{url}/subjects/s").raise_for_status()
    assert http.delete(f"{url}/subjects/s?permanent=true").json() == [1]
    asked = [*tms_command(), "registry", "status", "--url", url.removesuffix("/v1/registry")]
    told = subprocess.run(asked, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, check=True)
    master = others[masters.master()]
    assert told.stdout.decode().startswith(f"master: follower; the master is {master}, in epoch ")
    metrics = http.get(url.replace("/v1/registry", "/metrics")).text
    assert "tms_registry_is_master 0.0" in metrics


@pytest.mark.slow
@pytest.mark.parametrize("elected_by", ["zk", "etcd"], indirect=True)
def test_another_one_writes_soon_after_the_master_is_killed(masters: Masters) -> None:
    masters.agreed()
    killed = masters.master()
    other = masters.urls[(killed + 1) % 3]
    masters.servers[killed].kill()
    try:
        until(lambda: written(other, "x").is_success)
    finally:
        masters.servers[killed] = masters.start(killed)


def pause(masters: Masters, storm: Storm) -> None:
    paused = masters.master()
    masters.proxies[paused].hold()  # its current write arrives late
    os.kill(masters.servers[paused].pid, signal.SIGSTOP)
    until(lambda: any_other_is_master(masters, paused))
    masters.proxies[paused].release()
    os.kill(masters.servers[paused].pid, signal.SIGCONT)
    storm.until_more(AFTER)


def kill(masters: Masters, storm: Storm) -> None:
    killed = masters.master()
    masters.servers[killed].kill()
    storm.until_more(AFTER)
    masters.servers[killed] = masters.start(killed)


def cut_off_the_log(masters: Masters, storm: Storm) -> None:
    cut = masters.master()
    masters.proxies[cut].close()
    storm.until_more(AFTER // 2)
    masters.proxies[cut].open()


def cut_off_the_election(masters: Masters, storm: Storm) -> None:
    if isinstance(masters.elected_by, ByMetadata):
        unelected = masters.master()
        masters.elected_by.proxies[unelected].close()
        until(lambda: any_other_is_master(masters, unelected))
        storm.until_more(AFTER // 2)
        masters.elected_by.proxies[unelected].open()


def stop(masters: Masters, storm: Storm) -> None:
    stopped = masters.master()
    pure = (stopped + 1) % SERVERS
    masters.servers[pure].stop()
    masters.servers[pure] = masters.start(pure, "--no-registry-master-eligible")
    assert masters.servers[pure].url
    assert masters.servers[stopped].stop() == 0
    until(lambda: any_other_is_master(masters, stopped))
    assert masters.status(pure)["role"] == "follower"
    masters.servers[stopped] = masters.start(stopped)
    storm.until_more(AFTER)


BEFALLING = (pause, kill, cut_off_the_log, cut_off_the_election, stop)


def test_nothing_is_lost_whatever_befalls_the_master(masters: Masters) -> None:
    assert all(server.url for server in masters.servers)
    masters.agreed()
    begun_in = masters.status(masters.master())["epoch"]
    some = BEFALLING[: scaled(len(BEFALLING), 2)]
    with Storm(masters.urls, seed=2) as storm:
        storm.until_more(BEFORE)
        for befall in some:
            befall(masters, storm)
    assert all(server.url for server in masters.servers)
    masters.agreed()
    storm.check()
    masters.check_epochs()
    epochs = [masters.status(number)["epoch"] for number in range(3)]
    assert epochs[0] >= begun_in + min(len(some), 3)
    assert len(set(epochs)) == 1


def any_other_is_master(masters: Masters, paused: int) -> bool:
    others = [number for number in masters.alive() if number != paused]
    return any(masters.status(number)["role"] == "master" for number in others)


@pytest.mark.slow
def test_all_continue_while_the_log_is_restarted_and_masters_are_stopped(tmp_path: Path) -> None:
    """They stop in order, so connections end at any moment, including those no library expects."""
    with ExitStack() as stack:
        masters = Masters(tmp_path / "store", stack, lambda _: BY_THEMSELVES)
        assert all(server.url for server in (masters.store, *masters.servers))
        masters.agreed()
        with Storm(masters.urls, seed=3) as storm:
            for _ in range(RESTARTS):
                storm.until_more(BEFORE // 2)
                assert masters.store.stop() == 0
                masters.store = masters.start_store()
                assert masters.store.url
            storm.until_more(AFTER)
        masters.agreed()
        storm.check()
        masters.check_epochs()
        epoch = masters.status(0)["epoch"]
        for number, server in enumerate(masters.servers):
            for time in range(5):
                assert written(masters.urls[number], f"t{time}").status_code == 200
            assert http.get(f"{server.url}/ready").json() == {"status": "ready"}
        assert masters.status(0)["epoch"] == epoch

        lone = (masters.master() + 1) % SERVERS
        masters.servers[lone].stop()
        masters.servers[lone] = masters.start(lone, "--no-registry-master-eligible")
        assert masters.servers[lone].url
        masters.agreed()
        url, first = masters.urls[lone], masters.master()
        os.kill(masters.servers[first].pid, signal.SIGSTOP)
        answer = written(url, "t")
        assert (answer.status_code, answer.json()["error_code"]) == (500, 50003)
        until(lambda: written(url, "t").is_success)

        [second] = {0, 1, 2} - {lone, first}
        os.kill(masters.servers[second].pid, signal.SIGSTOP)
        assert written(url, "t").json()["error_code"] == 50003
        until(lambda: written(url, "t").json().get("error_code") == 50004)
        assert http.get(f"{url}/config/t0").json() == {"compatibilityLevel": "FULL"}
        for stopped in (first, second):
            os.kill(masters.servers[stopped].pid, signal.SIGCONT)
        until(lambda: written(url, "t").is_success)
        for server in masters.servers:
            server.kill()


def written(url: str, subject: str) -> httpx.Response:
    body = {"compatibility": "FULL"}
    return http.put(f"{url}/config/{subject}", json=body)


@pytest.mark.slow
def test_without_a_master_a_write_is_refused_and_reads_are_answered(tmp_path: Path) -> None:
    with ExitStack() as stack:
        flags = ("--registry-session-s", "1", "--no-registry-master-eligible")
        masters = Masters(tmp_path / "store", stack, lambda _: flags)
        url = masters.urls[0]
        assert masters.servers[0].url
        assert masters.status(0)["role"] == "follower"
        answer = http.post(f"{url}/subjects/s/versions", json={"schema": fixed(1)})
        assert (answer.status_code, answer.json()["error_code"]) == (500, 50004)
        assert http.get(f"{url}/subjects").json() == []


@pytest.mark.slow
def test_a_second_site_reads_forwards_and_is_promoted(tmp_path: Path) -> None:
    """The second registry's log is a copy, made by the example that mirrors the log."""
    with ExitStack() as stack:
        first = Masters(tmp_path / "first", stack, lambda _: BY_THEMSELVES)
        first.agreed()
        url = first.urls[first.master()]
        told = http.post(f"{url}/subjects/s/versions", json={"schema": fixed(1)}).json()
        copy = stack.enter_context(ServerProcess(f"leveldb:{tmp_path / 'copy'}"))
        mirror = [
            sys.executable,
            str(ROOT / "examples" / "mirror_schemas.py"),
            str(first.store.url),
            str(copy.url),
        ]
        mirroring = stack.enter_context(subprocess.Popen(mirror, cwd=tmp_path))
        stack.callback(mirroring.kill)
        flags = (
            *("--registry-log", copy.url, "--registry-mode", "master"),
            *("--registry-advertise", "http://127.0.0.1:1/v1/registry"),
        )
        pure = stack.enter_context(ServerProcess(None, *flags, "--no-registry-master-eligible"))
        there = f"{pure.url}/v1/registry"
        copied = f"{there}/schemas/ids/{told['id']}"
        until(lambda: http.get(copied).json().get("schema") == fixed(1))  # it is mirrored
        until(lambda: http.get(f"{there}/status").json()["master"] is not None)
        answer = http.put(f"{there}/config/t", json={"compatibility": "FULL"})
        assert answer.status_code == 200, answer.text
        assert http.get(f"{url}/config/t").json() == {"compatibilityLevel": "FULL"}
        assert pure.stop() == 0
        mirroring.kill()
        for server in (*first.servers, first.store):
            server.kill()

        promoted = stack.enter_context(ServerProcess(None, *flags))
        there = f"{promoted.url}/v1/registry"
        until(lambda: http.get(f"{there}/status").json()["role"] == "master")
        answer = http.post(f"{there}/subjects/u/versions", json={"schema": fixed(2)})
        assert (answer.status_code, answer.json()["id"]) == (200, told["id"] + 1)
        assert http.get(f"{there}/status").json()["epoch"] == 2
