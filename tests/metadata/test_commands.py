"""The commands that start real servers for a trial, and `tms metadata` on those servers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dev.processes import Servers, load
from tests.metadata.needed import needed
from tests.waiting import WAIT_S_MAX

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def tms(*arguments: str) -> str:
    return run("-c", "from tms.cli.main import main; main()", "metadata", *arguments)


def run(*arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "scheme"), [("zookeeper", "zk"), ("etcd", "etcd")])
def test_a_server_is_started_used_and_stopped(name: str, scheme: str, tmp_path: Path) -> None:
    if missing := needed(scheme):
        pytest.skip(f"{name} needs {', '.join(missing)}")
    folder = tmp_path / "servers"
    said = run("-m", f"dev.{name}.servers", "start", str(folder))
    try:
        url = next(word for word in said.split() if word.startswith(f"{scheme}://"))
        here = ("--store", url)
        tms("put", "/a/b", "text", *here, "--new")
        assert "text" in tms("get", "/a/b", *here)
        listed = tms("ls", "/a", *here, "--json")
        assert [(row["name"], row["version"]) for row in json.loads(listed)] == [("b", 0)]
    finally:
        servers = load(folder, Servers)
        run("-m", f"dev.{name}.servers", "stop", str(folder), "--remove")
    assert servers is not None
    assert not servers.running()
    assert not folder.exists()
