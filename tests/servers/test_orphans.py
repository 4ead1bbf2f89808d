"""The programs that a process of tests has started end with it, however it ends."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.server_process import ROOT
from tests.waiting import wait_until

WAITS = "import threading; threading.Event().wait()"
STARTS_ONE = f"""
import subprocess, sys, threading
from tests.servers import orphans
orphans.keep()
waits = subprocess.Popen([sys.executable, "-c", {WAITS!r}], start_new_session=True)
print(waits.pid, flush=True)
threading.Event().wait()
"""


def has_ended(pid: int) -> bool:
    """Whether a process has ended; a zombie counts as ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except OSError:
        return True
    return state.split()[0] == "Z"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_process_in_a_session_of_its_own_ends_with_its_starter(how: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as starter:
        assert starter.stdout is not None
        try:
            pid = int(starter.stdout.readline())
            assert not has_ended(pid)

            starter.send_signal(how)

            wait_until(lambda: has_ended(pid))
        finally:
            starter.kill()
