"""Several servers of one registry, one of them the master: processes on one TMS."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx

import tms
from dev.processes import free_ports
from tests.servers.proxy import Proxy
from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX, wait_until
from tms.registry.state.records import Entry, EpochWritten, decode

SERVERS = 3
http = httpx.Client(
    timeout=WAIT_S_MAX, limits=httpx.Limits(max_keepalive_connections=0), trust_env=False
)
"""Opens a new connection for each request, because servers are killed in between."""
ElectedBy = Callable[[int], tuple[str, ...]]
"""Returns the flags by which the server of this number elects the master."""


class Masters:
    """A TMS and servers of its registry, each with an address that it keeps."""

    def __init__(self, folder: Path, stack: ExitStack, elected_by: ElectedBy) -> None:
        """Start them."""
        self._folder = folder
        self._stack = stack
        self.elected_by = elected_by
        self._port, *self._ports = free_ports(1 + SERVERS)
        self.store = self.start_store()
        self.proxies = [stack.enter_context(Proxy(self._port)) for _ in self._ports]
        """Each server reaches the log through a proxy of its own."""
        self.servers = [self.start(number) for number in range(SERVERS)]

    def start_store(self) -> ServerProcess:
        """Start the TMS that holds the log, without compaction, so that the log stays complete."""
        flags = "--cleanup-period-s", "3600"
        server = ServerProcess(f"leveldb:{self._folder}", *flags, port=self._port)
        return self._stack.enter_context(server)

    def start(self, number: int, *more: str) -> ServerProcess:
        """Start a server, or restart it at its address."""
        log = f"http://{self.proxies[number].address}"
        by = self.elected_by(number)
        flags = ("--registry-mode", "master", "--registry-log", log, *by, *more)
        return self._stack.enter_context(ServerProcess(None, *flags, port=self._ports[number]))

    @property
    def urls(self) -> list[str]:
        """The URLs of the servers' registries."""
        return [f"http://127.0.0.1:{port}/v1/registry" for port in self._ports]

    def status(self, number: int) -> dict[str, Any]:
        """Return what a server says of itself."""
        answer = http.get(f"{self.urls[number]}/status")
        told: dict[str, Any] = answer.json()
        assert "role" in told, f"server {number} at {self.urls[number]}: {answer.text}"
        return told

    def master(self) -> int:
        """Return the number of the master, once there is one; only one server may claim to be."""
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
        """Return once all servers name the same master in the same epoch."""

        def look() -> bool:
            told = [self.status(number) for number in self.alive()]
            masters = {(each.get("master"), each["epoch"]) for each in told}
            roles = [each["role"] for each in told].count("master")
            return len(masters) == 1 and roles == 1 and None not in masters

        until(look)

    def check_epochs(self) -> None:
        """Check by the log that a server wrote only in epochs that it began."""
        began: dict[str, set[int]] = {}
        wrote: dict[str, set[int]] = {}
        epoch = 0
        for entry in self.entries():
            if entry.origin is None:
                continue
            if isinstance(entry.record, EpochWritten):
                assert entry.record.epoch == epoch + 1
                epoch += 1
                began.setdefault(entry.origin.node, set()).add(epoch)
            else:
                wrote.setdefault(entry.origin.node, set()).add(epoch)
        assert began
        assert 0 not in set().union(*wrote.values())
        for node, epochs in began.items():
            assert wrote.get(node, set()) <= epochs

    def entries(self) -> Iterator[Entry]:
        """Yield all entries of the log."""
        with tms.connect(self.store.url, namespace="system") as client:
            for message in client.topic("_schemas").poll(limit=100_000):
                yield decode(message)


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds. A server that does not answer is asked again."""

    def holds() -> bool:
        try:
            return condition()
        except httpx.HTTPError:
            return False

    wait_until(holds, inspect.getsource(condition).strip())
