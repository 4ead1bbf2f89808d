"""A server in its own process, which tests can stop, kill and start again.

It is ended by its pid, however the test ends. Its output goes through a pipe, so that a limit on
the size of its files does not limit its log, and from there to pytest, which shows it with a
failure.
"""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self

from tests.servers.forked_programs import Programs
from tests.servers.forking import ForkedProcess, Template
from tests.servers.stepping_clock import SteppingClock
from tests.waiting import WAIT_S_MAX
from tms.core.values.shards import ShardBy

ROOT = Path(__file__).parents[2]
MAIN = "from tms.cli.main import main; main()"
PYTHON = (sys.executable, "-c")
COMMAND = (*PYTHON, MAIN)
SHARDS = 3
PATIENT = {"TMS_REGISTRY_CHECK_S_MAX": str(WAIT_S_MAX), "TMS_DISK_RESERVE_BYTES": "0"}
"""A schema check takes long on a busy machine, especially if it starts a process.

Folders of tests are kept for a while, so they have no reserve.
"""

_GREETING = re.compile(r"TMS serves .* at (https?://\S+:(\d+)) ")
_STDERR = 2
_DEFAULTS = "Limits.__init__.__kwdefaults__"
_IN_SHARDS = """
import sys
import tms.core.text.store_url, tms.server.stores
from tms.core.values.shards import ShardBy, Sharding
for name, of_memory in {{
    "url_of_shard": lambda url, _: url,
    "sharding_of": lambda *_: Sharding({}, ShardBy("{}")),
}}.items():
    for module in [module for module in sys.modules.values() if name in vars(module)]:
        setattr(module, name, of_memory)
"""
"""A store in memory has no record of its shards."""


def environment() -> dict[str, str]:
    """Return this process's environment without any setting of TMS."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TMS_")}
    return {**clean, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}


def template_of_tests(of_clock: Mapping[str, str] | None = None) -> Template:
    """Return the template from which this process forks servers with this clock, and programs."""
    return _template(os.getpid(), frozenset((of_clock or {}).items()))


def programs_of_tests() -> Programs:
    """Return the programs that this process of tests forks."""
    return _programs(os.getpid())


def tms_command() -> tuple[str, ...]:
    """Return `COMMAND` as a fork, which starts quickly; its streams must be open."""
    return programs_of_tests().command(MAIN)


@functools.cache
def _programs(pid: int) -> Programs:
    return Programs(template_of_tests())


@functools.cache
def _template(pid: int, of_clock: frozenset[tuple[str, str]]) -> Template:
    return Template({**environment(), **dict(of_clock)}, ROOT)


class ServerProcess:
    """`tms serve` on a store; a context manager that leaves no process behind.

    It kills the server at its end: a test that needs an orderly end stops the server itself.
    """

    def __init__(
        self,
        store: str | None,
        *flags: str,
        port: int = 0,
        without: tuple[str, ...] = (),
        clock: SteppingClock | None = None,
        limits: Mapping[str, int] | None = None,
        shard_by: ShardBy | None = None,
        forked: bool = True,
    ) -> None:
        """Start the server without waiting. Port 0 is any free port; `store` is optional.

        The modules in `without` cannot be imported, as if their packages were not installed. A test
        may set the clock. `limits` are those that users cannot set. With a rule `shard_by`, the
        store, `memory:`, has `SHARDS` shards. If the server may be `forked` and lacks no modules,
        it is forked from a process that has loaded it with this clock.
        """
        before = ""
        if without:
            before += f"import sys; sys.modules.update(dict.fromkeys({without}))\n"
        if limits:
            before += f"from tms.core.limits import Limits\n{_DEFAULTS}.update({dict(limits)})\n"
        if shard_by is not None:
            before += _IN_SHARDS.format(SHARDS, shard_by)
        self._lines: list[str] = []
        self._greeting: re.Match[str] | None = None
        self._told = Event()
        of_store = () if store is None else ("--store", store)
        where = (*of_store, "--listen", f"127.0.0.1:{port}")
        arguments = ["serve", *where, *flags]
        self._process: subprocess.Popen[str] | ForkedProcess
        of_clock = {} if clock is None else clock.environment
        if forked and not without:
            self._process = ForkedProcess(
                template_of_tests(of_clock),
                before + MAIN,
                arguments,
                environment() | PATIENT | of_clock,
            )
        else:
            self._process = subprocess.Popen(
                [*PYTHON, before + MAIN, *arguments],
                cwd=ROOT,
                env=environment() | PATIENT | of_clock,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        # Duplicate the descriptor, as a process would: pytest replaces the original between tests.
        with self._process.stdout as output, os.fdopen(os.dup(_STDERR), "w", 1) as shown:
            for line in output:
                self._lines.append(line)
                shown.write(line)
                if self._greeting is None:
                    self._greeting = _GREETING.match(line)
                    if self._greeting is not None:
                        self._told.set()
        self._told.set()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        """Its output so far, on both streams."""
        return "".join(self._lines)

    @property
    def url(self) -> str:
        """The URL that it serves; waits until it does."""
        return self._greeted()[1]

    @property
    def port(self) -> int:
        """The port of `url`."""
        return int(self._greeted()[2])

    def _greeted(self) -> re.Match[str]:
        if not self._told.wait(WAIT_S_MAX):
            self.kill()
            raise AssertionError(f"time was up: the server did not serve within {WAIT_S_MAX:g} s")
        assert self._greeting is not None, "the server ended before it served; its log says why"
        return self._greeting

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until_told(self, seconds: float) -> bool:
        """Wait up to `seconds` until it serves or has ended; return whether it did either."""
        return self._told.wait(seconds)

    def wait(self) -> int:
        """Return the exit code once it has ended by itself; -9 if it was killed."""
        try:
            exit_code = self._process.wait(WAIT_S_MAX)
        finally:
            self._process.kill()
        self._reader.join()
        return exit_code

    def kill(self) -> None:
        """End it as a crash does. Ending it twice is not an error."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def terminate(self) -> None:
        """Ask it to stop, and do not wait for its end."""
        self._process.terminate()

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        self.terminate()
        return self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
