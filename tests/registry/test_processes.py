"""Three processes serve one registry on one TMS; all are killed while clients write."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dev.processes import free_ports
from tests.registry.masters import http
from tests.registry.storm import Storm
from tests.scale import scaled
from tests.servers.server_process import ServerProcess

BEFORE, AFTER = scaled(60), scaled(120)
"""Requests answered before a kill, and after it."""


class World:
    """A TMS and three registries on it, each with an address that it keeps."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._port, *self.ports = free_ports(4)
        self.store = self.start_store()
        self.registries = [self.start_registry(port) for port in self.ports]

    def start_store(self) -> ServerProcess:
        server = ServerProcess(f"leveldb:{self._folder}", port=self._port)
        return self._stack.enter_context(server)

    def start_registry(self, port: int) -> ServerProcess:
        flags = ("--registry-log", f"http://127.0.0.1:{self._port}")
        return self._stack.enter_context(ServerProcess(None, *flags, port=port))

    @property
    def urls(self) -> list[str]:
        ports = (self._port, *self.ports)
        return [f"http://127.0.0.1:{port}/v1/registry" for port in ports]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path_factory.mktemp("registry") / "store", stack)


def test_a_server_without_a_store_serves_the_registry_alone(world: World) -> None:
    url = world.registries[0].url
    assert http.get(f"{url}/health").json() == {"status": "up"}
    assert "tms_registry_versions" in http.get(f"{url}/metrics").text
    assert http.get(f"{url}/v1/registry/subjects").json() == []
    assert http.get(f"{url}/ready").status_code == 200
    for path in ("/v1/namespaces/default/topics", "/v1/cluster", "/openapi.json"):
        assert http.get(f"{url}{path}").status_code == 404


def test_processes_are_killed_and_nothing_is_lost(world: World) -> None:
    assert all(server.url for server in (world.store, *world.registries))
    with Storm(world.urls, seed=1) as storm:
        storm.until_more(BEFORE)
        for number, port in enumerate(world.ports[: scaled(len(world.ports))]):
            world.registries[number].kill()
            storm.until_more(AFTER // 2)
            world.registries[number] = world.start_registry(port)
        storm.until_more(AFTER)
        world.store.kill()
        world.store = world.start_store()
        storm.until_more(AFTER // 2)
        assert world.store.stop() == 0
        world.store = world.start_store()
        storm.until_more(AFTER // 2)
    assert all(server.url for server in (world.store, *world.registries))
    storm.check()
    for server in world.registries:
        assert server.stop() == 0
    assert world.store.stop() == 0


@pytest.mark.slow
def test_a_server_that_does_not_reach_the_log_is_not_ready() -> None:
    [port] = free_ports(1)
    with ServerProcess(None, "--registry-log", f"http://127.0.0.1:{port}") as server:
        assert http.get(f"{server.url}/health").status_code == 200
        told = http.get(f"{server.url}/ready")
        assert (told.status_code, told.json()["error"]["code"]) == (503, "no_leader")
        assert server.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ("--store", "memory:"),
        ("--advertise", "http://127.0.0.1:1"),
        ("--registry-log", "nonsense"),
    ],
)
def test_what_does_not_go_together_is_refused(flags: tuple[str, ...]) -> None:
    given = ("--registry-log", "http://127.0.0.1:1", *flags)
    with ServerProcess(None, *given) as server:
        assert server.wait() == 2
    assert flags[0].strip("-") in server.log
