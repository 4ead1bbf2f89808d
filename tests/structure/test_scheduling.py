"""What starts Java or a real metadata server runs in one process, in turn (tests/scheduling.py)."""

import ast

import pytest

from tests.scheduling import IN_TURN, ON_METADATA_SERVERS
from tests.structure.sources import ROOT, imports, sources

FIXTURES = {"zookeeper", "etcd", "remote"}
STARTED_BY = ("dev.zookeeper", "dev.etcd", "dev.hbase")


def starts_servers(tree: ast.Module) -> bool:
    """Whether tests of a file ask for the servers' fixtures, or start servers themselves."""
    asked = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    named = {
        argument.value
        for node in ast.walk(tree)
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
