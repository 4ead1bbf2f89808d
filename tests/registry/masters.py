"""Several servers of one registry, of which one is master: processes on one TMS."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

from dev.processes import free_ports
from tests.servers.proxy import Proxy
from tests.servers.server_process import ServerProcess

SERVERS = 3
ELECTED_S_MAX = 40.0


class Masters:
    """A TMS and servers of its registry, each with an address that it keeps."""

    def __init__(self, folder: Path, stack: ExitStack, *flags: str) -> None:
        """Start them. `flags` say how the master is elected."""
        self._folder = folder
        self._stack = stack
        self._flags = flags
        self._port, *self._ports = free_ports(1 + SERVERS)
        self.store = self.start_store()
        self.proxies = [stack.enter_context(Proxy(self._port)) for _ in self._ports]
        """Each server reaches the log through its own."""
        self.servers = [self.start(number) for number in range(SERVERS)]

    def start_store(self) -> ServerProcess:
        """Start the TMS that has the log."""
        server = ServerProcess(f"leveldb:{self._folder}", port=self._port)
        return self._stack.enter_context(server)

    def start(self, number: int) -> ServerProcess:
        """Start a server, again at its address."""
        log = f"http://{self.proxies[number].address}"
        flags = ("--registry-mode", "master", "--registry-log", log, *self._flags)
        return self._stack.enter_context(ServerProcess(None, *flags, port=self._ports[number]))

    @property
    def urls(self) -> list[str]:
        """Of the servers' registries."""
        return [f"http://127.0.0.1:{port}/v1/registry" for port in self._ports]

    def status(self, number: int) -> dict[str, Any]:
        """Return what a server says of itself."""
        answer = httpx.get(f"{self.urls[number]}/status", timeout=10.0)
        told: dict[str, Any] = answer.json()
        return told

    def master(self) -> int:
        """Return the number of the master, once there is one; only one may say that it is."""
        found: list[int] = []

        def look() -> bool:
            found[:] = [each for each in self.alive() if self.status(each)["role"] == "master"]
            return len(found) == 1

        until(look)
        return found[0]

    def alive(self) -> list[int]:
        """Return the numbers of the servers that run."""
        return [number for number, each in enumerate(self.servers) if each.is_running]

    def agreed(self) -> None:
        """Return once all name one master in one epoch."""

        def look() -> bool:
            told = [self.status(number) for number in self.alive()]
            masters = {(each.get("master"), each["epoch"]) for each in told}
            roles = [each["role"] for each in told].count("master")
            return len(masters) == 1 and roles == 1 and None not in masters

        until(look)


def until(condition: Callable[[], bool], seconds: float = ELECTED_S_MAX) -> float:
    """Return how long it took until something was so."""
    begun = time.monotonic()
    while True:
        try:
            if condition():
                return time.monotonic() - begun
        except httpx.HTTPError:
            pass
        assert time.monotonic() < begun + seconds, "it took too long"
        time.sleep(0.05)
