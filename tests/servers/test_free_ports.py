"""A port that a test reserves for its server stays reserved."""

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dev import processes
from dev.processes import HOST, CannotStart, free_ports
from tests.servers.server_process import ROOT
from tests.waiting import WAIT_S_MAX

FEW = range(31_990, 32_000)
ASK = f"""
from dev import processes
processes._PORTS = {FEW!r}
print(*processes.free_ports(1))
"""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The free ones of a few ports, which this process holds except for one."""
    monkeypatch.setattr(processes, "_PORTS", FEW)
    held: list[socket.socket] = []
    monkeypatch.setattr(processes, "_held", held)
    ports: list[int] = []
    while True:
        try:
            ports += free_ports(1)
        except CannotStart:
            break
    held.pop().close()
    yield ports
    for each in held:
        each.close()


def test_no_port_is_given_twice_in_this_process_or_another(few: list[int]) -> None:
    asked = subprocess.run(
        [sys.executable, "-W", "error", "-c", ASK],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=WAIT_S_MAX,
        check=True,
    )

    assert len(set(few)) == len(few) > 1
    assert asked.stdout.split() == [str(few[-1])]
    assert asked.stderr == ""  # all sockets are closed when the process ends
    with socket.socket() as server:  # and servers can listen on the ports that it got
        server.bind((HOST, few[0]))
        server.listen()


def test_if_all_are_taken_that_is_said(few: list[int]) -> None:
    assert free_ports(1) == few[-1:]
    with pytest.raises(CannotStart, match="No port of 31990 to 31999 is free"):
        free_ports(1)
