"""Which process runs which tests, also after one of them crashed (tests/scheduling.py)."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scheduling import IN_TURN, ON_METADATA_SERVERS
from tests.structure.sources import ROOT, imports, nodes, sources
from tests.waiting import WAIT_S_MAX

FIXTURES = {"zookeeper", "etcd", "remote", "hbase"}
STARTED_BY = ("dev.zookeeper", "dev.etcd", "dev.hbase")


def starts_servers(tree: ast.Module) -> bool:
    """Whether tests of a file ask for the servers' fixtures, or start servers themselves."""
    asked = {node.arg for node in nodes(tree) if isinstance(node, ast.arg)}
    named = {
        argument.value
        for node in nodes(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("getfixturevalue")
        for part in node.args
        for argument in ast.walk(part)
        if isinstance(argument, ast.Constant)
    }
    return bool(FIXTURES & (asked | named)) or any(
        each.module.startswith(STARTED_BY) for each in imports(tree)
    )


def test_files_that_start_servers_run_in_turn() -> None:
    places = [
        source.place
        for source in sources("tests")
        if source.path.name.startswith("test_") and starts_servers(source.tree)
    ]

    assert set(ON_METADATA_SERVERS) <= {*places}
    assert [place for place in places if not place.startswith(IN_TURN)] == []


def test_what_runs_in_turn_exists() -> None:
    assert [place for place in IN_TURN if not (ROOT / place).exists()] == []


@pytest.mark.parametrize(
    ("code", "starts"),
    [
        ("def test_a(etcd: Servers): pass", True),
        ("request.getfixturevalue('zookeeper' if kind == 'zk' else 'etcd')", True),
        ("from dev.hbase.servers import start", True),
        ("def test_a(server): etcd = 1", False),
    ],
)
def test_the_check_of_servers_sees_them(code: str, *, starts: bool) -> None:
    assert starts_servers(ast.parse(code)) is starts


CONFTEST = """
from tests.scheduling import InTurn

def pytest_xdist_make_scheduler(config, log):
    return InTurn(config, log)
"""
CRASH = """
import os

def test_crashes():
    os._exit(1)
"""


def passing(count: int) -> str:
    return "".join(f"def test_{number}(): pass\n" for number in range(count))


@pytest.mark.parametrize(
    ("processes", "last"), [(1, CRASH), (2, passing(1) + CRASH), (2, CRASH + passing(1))]
)
def test_after_a_crash_all_others_run_and_the_run_ends(
    tmp_path: Path, processes: int, last: str
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text(passing(3))
    (tmp_path / "test_last.py").write_text(last)
    command = (sys.executable, "-m", "pytest", "-q", "-n", str(processes), str(tmp_path))

    run = subprocess.run(
        (*command, "-p", "xdist", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)),
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )

    passed = 12 + last.count("pass")
    assert f"1 failed, {passed} passed" in run.stdout.splitlines()[-1], run.stdout + run.stderr
