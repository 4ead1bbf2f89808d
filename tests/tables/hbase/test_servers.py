"""Errors of HBase's servers that cannot start; needs no HBase."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dev.hbase import servers
from dev.hbase.servers import HBaseServers, start
from dev.processes import CannotStart, load


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    with pytest.raises(CannotStart, match="needs java and mvn: apt-get install"):
        start(tmp_path)


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotStart, match=f"Port {port} is taken"):
            start(tmp_path, port=port)


def sleeper(folder: Path, name: str, *, fails: bool = False) -> HBaseServers:
    """A server that only sleeps, or fails at once."""
    (folder / "logs").mkdir()
    end = "sys.exit(3)" if fails else "signal.pause()"
    code = f"import signal, sys; print('{name} says why'); {end}  # {folder}"
    command = [sys.executable, "-c", code]
    return HBaseServers(str(folder), {"gateway": 1, "admin-gateway": 1}, {name: command})


def test_servers_that_run_are_not_started_twice_and_are_stopped_by_their_id(
    tmp_path: Path,
) -> None:
    running = sleeper(tmp_path, "hbase")
    running.start("hbase")
    pid = running.pids["hbase"]
    with pytest.raises(CannotStart, match=r"run already.*\(hbase\): stop them first"):
        start(tmp_path)
    found = load(tmp_path, HBaseServers)
    assert found == running
    found.stop()

    with pytest.raises(OSError, match="No such process"):
        os.kill(pid, 0)
    assert load(tmp_path, HBaseServers) is None


def test_another_process_that_got_the_id_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        HBaseServers(str(tmp_path), {}, {}, {"hbase": other.pid}).stop()
        assert other.poll() is None
        other.communicate(b"\n")
    assert other.returncode == 0


def test_one_that_ends_while_starting_shows_its_log_and_takes_the_others_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    planned = sleeper(tmp_path, "gateway", fails=True)
    monkeypatch.setattr(servers, "class_path", lambda: "")
    monkeypatch.setattr(servers, "_planned", lambda *_, **__: planned)
    with pytest.raises(CannotStart, match=r"(?s)gateway says why.*gateway ended"):
        start(tmp_path)

    assert load(tmp_path, HBaseServers) is None
