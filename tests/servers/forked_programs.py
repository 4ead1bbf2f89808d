"""Runs `tms` and Python programs in forks, as `forking` does with servers.

`Programs` gives their commands and executables. Each sends its arguments, environment, folder and
standard streams to the process of tests, which makes the template fork the program. It passes
signals on, and ends as the program does; if it is killed itself, so is the program.
"""

import json
import os
import secrets
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from tests.servers.forking import ORDER_BYTES_MAX, Template

_ASK = """
import json, os, signal, socket, sys
address, code = {address!r}, {code!r}
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as tests:
    tests.connect(address)
    order = {{"code": code, "arguments": sys.argv, "environment": dict(os.environ)}}
    order["folder"] = os.getcwd()
    socket.send_fds(tests, [json.dumps(order).encode()], [0, 1, 2])
    program = int(tests.recv(64))
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: os.kill(program, number))
    code = int(tests.recv(64))
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


class Programs:
    """Forks the programs of its commands and executables, as long as the process of tests lives."""

    def __init__(self, template: Template) -> None:
        """Listen for them."""
        self._template = template
        self._address = f"\0tests-{os.getpid()}-{secrets.token_hex(8)}"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self._address)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def command(self, code: str) -> tuple[str, ...]:
        """Return the command that runs `code`, a program in Python; its arguments may follow."""
        return (sys.executable, "-SEIc", _ASK.format(address=self._address, code=code))

    def make(self, executable: Path, code: str) -> None:
        """Make an executable of `code`."""
        *_, text = self.command(code)
        executable.write_text(f"#!{sys.executable} -SEI\n{text}")
        executable.chmod(0o755)

    def _accept(self) -> None:
        while True:
            asking, _ = self._listener.accept()
            threading.Thread(target=self._run, args=(asking,), daemon=True).start()

    def _run(self, asking: socket.socket) -> None:
        """Run one program to its end."""
        with asking:
            order, streams, _, _ = socket.recv_fds(asking, ORDER_BYTES_MAX, 3)
            if not order:  # its command was killed before it asked
                return
            try:
                program = self._template.ask(json.loads(order), *streams)
            finally:
                for stream in streams:
                    os.close(stream)
            ended = os.pidfd_open(program)
            try:
                with suppress(OSError):  # its command was killed since
                    asking.send(str(program).encode())
                select.select([ended, asking.fileno()], [], [])
                signal.pidfd_send_signal(ended, signal.SIGKILL)  # it ended, or its command is gone
                code = self._template.ask({"wait": program})
            finally:
                os.close(ended)
            with suppress(OSError):
                asking.send(str(code).encode())
