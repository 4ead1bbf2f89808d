"""Servers that are not ours, such as proxies, in front of a test's."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.waiting import WAIT_S_MAX, wait_until


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    """Run a program until the block ends; it serves at the port when the block begins."""
    process = subprocess.Popen(command)
    try:

        def serves() -> bool:
            assert process.poll() is None, "it ended"
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except ConnectionRefusedError:
                return False
            return True

        wait_until(serves)
        yield
    finally:
        process.terminate()
        process.wait(WAIT_S_MAX)
