"""The client in `clients/typescript` passes its own tests, run by Node on a real server."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.servers.server_process import ServerProcess
from tests.waiting import WAIT_S_MAX

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"


def test_its_tests_pass() -> None:
    if shutil.which("node") is None:
        pytest.skip("node is missing: scripts/test installs it")
    with ServerProcess("memory:") as server:
        done = subprocess.run(
            ["node", "--test"],
            cwd=CLIENT,
            env={**os.environ, "TMS_URL": server.url},
            capture_output=True,
            text=True,
            timeout=WAIT_S_MAX,
            check=False,
        )

    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert "# fail 0" in done.stdout
