"""Starts servers by forking a process that has loaded them: a new interpreter takes a second more.

Each process of tests has one template. It imports what `tms serve` does, has one thread, and ends
with the process of tests. A forked process has its own arguments, environment and output, but `ps`
shows those of the template. Only the template can wait for the processes that it forked, so it is
asked to.
"""

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import IO

_TEMPLATE = "from tests.servers.forking import serve; exec(serve({}))"
ORDER_BYTES_MAX = 1 << 20


class Template:
    """The process that is forked."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        """Start the template, and do not wait for it."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _TEMPLATE.format(theirs.fileno())],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

        atexit.register(self._close)

    def _close(self) -> None:
        """End the template, which exits once nobody can send it an order any more."""
        self._control.close()
        self._process.wait()

    def ask(self, order: Mapping[str, object], *descriptors: int) -> int:
        """Return the answer to an order: `code` to run, or a process to `wait` for.

        The code that it runs gets three descriptors as its standard streams, or one for both
        outputs.
        """
        with self._lock:
            socket.send_fds(self._control, [json.dumps(order).encode()], descriptors)
            answer = self._control.recv(64)
        assert answer, "the template ended; its error is above"
        return int(answer)


class ForkedProcess:
    """A process that runs `code` with `arguments`; has the part of `Popen` that tests use."""

    def __init__(
        self, template: Template, code: str, arguments: list[str], environment: Mapping[str, str]
    ) -> None:
        """Fork it. Both its outputs go to `stdout`; its input is empty."""
        output, theirs = os.pipe()
        self._template = template
        self._exit_code: int | None = None
        order = {"code": code, "arguments": ["-c", *arguments], "environment": dict(environment)}
        try:
            self.pid = template.ask(order, theirs)
        finally:
            os.close(theirs)
        self.stdout: IO[str] = os.fdopen(output, encoding="utf-8")
        self._ended = os.pidfd_open(self.pid)
        self._lock = Lock()

    def poll(self) -> int | None:
        """Return the exit code once it has ended; -9 if it was killed."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended.

        Raises:
            subprocess.TimeoutExpired: It continues after `timeout` seconds.
        """
        if self._exit_code is None:
            waiting = select.poll()
            waiting.register(self._ended, select.POLLIN)
            if not waiting.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired("a forked process", timeout or 0)
            with self._lock:
                if self._exit_code is None:
                    self._exit_code = self._template.ask({"wait": self.pid})
                    os.close(self._ended)
        return self._exit_code

    def kill(self) -> None:
        """End it as a crash does. Ending it twice is not an error."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it was waited for: after that, its id may be reused."""
        if self._exit_code is None:
            os.kill(self.pid, number)


def serve(control_fd: int) -> str:
    """Carry out orders of the process of tests; in a forked process, return the code to run."""
    for module in ("api.app", "tms.cli.main", "tms.server.serving.process"):
        importlib.import_module(module)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, (
        "a fork of a process with threads may wait for a lock for ever"
    )
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    control = socket.socket(fileno=control_fd)
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, ORDER_BYTES_MAX, 3)
        if not data:
            control.close()
            sys.exit()
        order = json.loads(data)
        if "wait" in order:
            _, status = os.waitpid(order["wait"], 0)
            control.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        if pid := os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
            control.send(str(pid).encode())
            continue
        control.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        streams = (0, 1, 2) if len(descriptors) > 1 else (1, 2)
        for stream, descriptor in zip(streams, descriptors * 2, strict=False):
            os.dup2(descriptor, stream)
        for descriptor in descriptors:
            os.close(descriptor)
        os.chdir(order.get("folder", "."))
        os.environ.clear()
        os.environ.update(order["environment"])
        sys.argv[:] = order["arguments"]
        return str(order["code"])
