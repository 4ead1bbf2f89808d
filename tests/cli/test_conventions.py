"""Conventions of every command line: `--version`, `-h`, `python -m`."""

import subprocess
import sys

import pytest

import tms
from tests.cli.all_commands import ALL
from tests.cli.conftest import run_command
from tests.servers.server_process import ROOT, environment


def test_the_version() -> None:
    assert run_command("--version") == (0, f"{tms.__version__}\n", "")
    assert run_command("version") == (0, f"{tms.__version__}\n", "")


@pytest.mark.parametrize("command", ALL, ids=" ".join)
def test_every_command_has_help_by_its_short_name_too(command: tuple[str, ...]) -> None:
    code, out, err = run_command(*command, "-h")

    assert (code, err) == (0, "")
    assert (code, out, err) == run_command(*command, "--help")
    assert out.startswith("Usage: tms " + " ".join(command))


def test_all_commands_were_found() -> None:
    assert {("serve",), ("config",), ("tx", "list"), ("spark", "archive")} <= set(ALL)


def test_the_package_runs_as_a_program() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "tms", "--version"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        cwd=ROOT,
    )

    assert (told.returncode, told.stdout, told.stderr) == (0, f"{tms.__version__}\n", "")
