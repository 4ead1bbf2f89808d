"""Servers on this machine that outlive the program that starts them, for tests and experiments.

`FOLDER/servers.json` has the id of each process; stopping ends those and no others. Each has its
log in `FOLDER/logs`. Its command line names the folder, which distinguishes it from another process
with the same id.
"""

import atexit
import json
import os
import random
import signal
import socket
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

HOST = "127.0.0.1"
STATE = "servers.json"
STOP_S_MAX = 20
_PORTS = range(20_000, 32_000)
"""Below the ports that systems assign to requests for any port (from 32768 or 49152)."""
_held: list[socket.socket] = []
"""UDP sockets on the same ports. No server uses UDP, so they mark the ports that are taken."""
_LOG_LINES = 15
_LOOKS = 10


Kind = TypeVar("Kind", bound="Servers")


class CannotStart(Exception):
    """Raised if servers cannot be started; its text says what to do."""


@dataclass
class Servers:
    """The servers of one folder, as `servers.json` has them."""

    folder: str
    ports: dict[str, int] = field(default_factory=dict)
    """The ports for clients, by the process's name."""
    commands: dict[str, list[str]] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)

    @property
    def addresses(self) -> str:
        """HOST:PORT of each, in the form for clients."""
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())

    def start(self, name: str) -> None:
        """Start the process `name` of `commands`."""
        log = str(self._log(name))
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        # Not subprocess: these outlive the process that starts them.
        self.pids[name] = os.posix_spawnp(
            self.commands[name][0],
            self.commands[name],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        self._save()

    def start_all(self) -> None:
        """Start all processes. If that fails, none is left running."""
        try:
            for name in self.commands:
                self.start(name)
        except OSError as error:
            self.stop()
            raise CannotStart(str(error)) from error

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End one process, and wait until it has ended."""
        pid = self.pids.pop(name)
        if not self._is_ours(pid):
            return
        os.kill(pid, how)
        deadline = time.monotonic() + STOP_S_MAX
        while self._is_ours(pid):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def pause(self, name: str) -> None:
        """Suspend one process, like a machine that hangs."""
        os.kill(self.pids[name], signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Resume a suspended process."""
        os.kill(self.pids[name], signal.SIGCONT)

    def stop(self) -> None:
        """End all processes."""
        for name in list(self.pids):
            self.kill(name)
        Path(self.folder, STATE).unlink(missing_ok=True)

    def running(self) -> dict[str, int]:
        """Return the running processes."""
        return {name: pid for name, pid in self.pids.items() if self._is_ours(pid)}

    def check_running(self) -> None:
        """Raise `CannotStart`, with the end of its log, if a started process no longer runs."""
        for name in set(self.pids) - set(self.running()):
            raise CannotStart(f"{self.end_of_log(name)}\n{name} ended.")

    def end_of_log(self, name: str) -> str:
        """Return the last lines that a process wrote."""
        log = self._log(name)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([f"--- {log}", *lines[-_LOG_LINES:]])

    def _log(self, name: str) -> Path:
        return Path(self.folder, "logs", f"{name}.log")

    def _is_ours(self, pid: int) -> bool:
        """Whether `pid` runs, and is one of these and not another process with that id."""
        for _ in range(_LOOKS):
            with suppress(ChildProcessError):  # not our child, so it cannot be our zombie
                os.waitpid(pid, os.WNOHANG)  # each time: it may have ended since the last one
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                return False
            if command:
                return self.folder.encode() in command
            time.sleep(0.01)  # it was just started, or is a zombie of another parent
        return False

    def _save(self) -> None:
        Path(self.folder, STATE).write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")


def load(folder: Path, kind: type[Kind]) -> Kind | None:
    """Return the servers of `folder`, None if none were started."""
    try:
        return kind(**json.loads((folder / STATE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def check_none_run(folder: Path) -> None:
    """Raise `CannotStart` if servers of `folder` run."""
    before = load(folder, Servers)
    if before is not None and before.running():
        raise CannotStart(
            f"Servers run already in {folder} ({', '.join(before.running())}): stop them first."
        )


def free_ports(count: int) -> list[int]:
    """Return free ports, which stay reserved while this process runs.

    The system does not assign them to requests for any port, and this function returns them to no
    other process. Raises `CannotStart` if there are too few.
    """
    return [_held_port() for _ in range(count)]


@atexit.register
def _let_go() -> None:
    for each in _held:
        each.close()


def _held_port() -> int:
    for port in random.sample(_PORTS, len(_PORTS)):
        with ExitStack() as stack:
            holder = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            try:
                holder.bind((HOST, port))
                stack.enter_context(socket.socket()).bind((HOST, port))
            except OSError:
                continue
            _held.append(socket.socket(fileno=holder.detach()))
            return port
    raise CannotStart(f"No port of {_PORTS.start} to {_PORTS.stop - 1} is free.")
