"""Tests wait for events, and the gate runs the tests that docs/promises.md names."""

import ast
import re

import httpx
import pytest

from tests.structure.sources import ROOT, nodes, read, sources
from tests.waiting import WAIT_S_MAX

WAITING = "tests/waiting.py"
ASKS_AGAIN = {"tests/faults/hbase/shard_cluster.py", "tests/faults/hbase/takeovers.py"}
"""Files that ask a server again that does not answer in time."""


def sleeps(tree: ast.AST, within: str = "") -> list[str]:
    """Return the innermost function of each call of a `sleep`; an empty string at module level."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name == "sleep":
                found.append(within)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found += sleeps(node, node.name)
        else:
            found += sleeps(node, within)
    return found


def test_no_test_sleeps() -> None:
    places = {source.place for source in sources("tests") if sleeps(source.tree)}

    assert places == {WAITING}, "wait by tests/waiting.py"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("async def f():\n    await asyncio.sleep(0)", ["f"]),
        ("def f():\n    def g(): time.sleep(1)", ["g"]),
        ("from time import sleep\nsleep(1)", [""]),
        ("def f():\n    asleep(1); sleeping()", []),
    ],
)
def test_the_check_sees_them(code: str, found: list[str]) -> None:
    assert sleeps(ast.parse(code)) == found


def runs_in_the_gate(tree: ast.Module) -> bool:
    """Whether a file has a test without the mark `slow`."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tests = [
        node
        for node in nodes(tree)
        if isinstance(node, functions) and node.name.startswith("test_")
    ]
    machines = [
        node for node in tree.body if isinstance(node, ast.Assign) and _assigns(node, "Test")
    ]
    marked = [
        node for node in tree.body if isinstance(node, ast.Assign) and _assigns(node, "pytestmark")
    ]
    if any("mark.slow" in ast.unparse(node) for node in marked):
        return False
    return bool(machines) or any(
        "mark.slow" not in "".join(map(ast.unparse, node.decorator_list)) for node in tests
    )


def _assigns(node: ast.Assign, start: str) -> bool:
    return any(ast.unparse(target).startswith(start) for target in node.targets)


def promised() -> list[str]:
    """Return the test files that docs/promises.md names."""
    page = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"`(tests/[\w/]+\.py)`", page)))


def test_every_promise_has_a_test_in_the_gate() -> None:
    files = promised()

    assert len(files) > 20
    assert {file for file in files if not runs_in_the_gate(read(ROOT / file).tree)} == set()


@pytest.mark.parametrize(
    ("code", "runs"),
    [
        ("def test_a(): pass", True),
        ("@pytest.mark.slow\ndef test_a(): pass", False),
        ("@pytest.mark.slow\ndef test_a(): pass\ndef test_b(): pass", True),
        ("pytestmark = [pytest.mark.anyio, pytest.mark.slow]\nasync def test_a(): pass", False),
        ("TestStore = Machine.TestCase", True),
        ("def helper(): pass", False),
    ],
)
def test_the_check_of_marks_sees_them(code: str, *, runs: bool) -> None:
    assert runs_in_the_gate(ast.parse(code)) is runs


def test_no_test_has_a_ceiling_of_its_own() -> None:
    places = {
        source.place
        for source in sources("tests")
        for node in nodes(source.tree)
        if isinstance(node, ast.keyword) and node.arg == "timeout"
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, int | float)
        if node.value.value >= 1  # shorter ones are meant to pass
    }

    assert places == ASKS_AGAIN, "give WAIT_S_MAX of tests/waiting.py"


def test_a_client_of_tests_gives_up_as_late_as_every_wait() -> None:
    with httpx.Client() as http:
        assert http.timeout == httpx.Timeout(WAIT_S_MAX)
