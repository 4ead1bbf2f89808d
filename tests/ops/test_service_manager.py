"""A server notifies systemd that it is ready, and that its loop runs."""

import socket
from pathlib import Path

import pytest

from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX


@pytest.mark.parametrize("is_abstract", [False, True])
def test_it_notifies_when_it_serves_and_feeds_the_watchdog(
    *, is_abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        path = str(tmp_path / "notify")
        manager.bind(f"\0{path}" if is_abstract else path)
        manager.settimeout(WAIT_S_MAX)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{path}" if is_abstract else path)
        monkeypatch.setenv("WATCHDOG_USEC", "20000")
        with ServerProcess("memory:") as server:
            assert manager.recv(100) == b"READY=1"
            assert server.url
            for _ in range(3):
                assert manager.recv(100) == b"WATCHDOG=1"
            assert server.stop() == 0


def test_without_a_manager_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/socket")
    with ServerProcess("memory:") as server:
        assert server.url
        assert server.stop() == 0
        assert "cannot notify the service manager" in server.log
