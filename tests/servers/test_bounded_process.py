"""A test that fails while its process runs ends the process instead of waiting for it."""

import subprocess
import sys

import pytest

from tests.servers.bounded_process import BoundedProcess

WAITS = [sys.executable, "-c", "input()"]


def test_it_is_killed_when_its_test_fails() -> None:
    with pytest.raises(AssertionError), BoundedProcess(WAITS, stdin=subprocess.PIPE) as process:
        raise AssertionError
    assert process.returncode == -9
