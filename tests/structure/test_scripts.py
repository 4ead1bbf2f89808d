"""scripts/environment does nothing when nothing changed, and says what is missing in one line.

CI starts with a fresh clone, and so tests that the script sets one up.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.structure.sources import ROOT

COMMANDS = ("bash", "cat", "cut", "dirname", "find", "sha256sum")
"""The commands that the script needs before it installs anything."""
SCRIPT_S_MAX = 120.0
INPUTS = ("pyproject.toml", "constraints.txt", "requirements.lock")
"""The files from which .venv is made."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A minimal clone for the script, and a folder of commands for PATH."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "commands").mkdir()
    for name in ("scripts/environment", *INPUTS):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in COMMANDS:
        found = shutil.which(name)
        assert found is not None
        (tmp_path / "commands" / name).symlink_to(found)
    return tmp_path


def python(clone: Path, does: str) -> str:
    """Return a fake Python that answers as the given shell script."""
    fake = clone / "commands/python-of-a-test"
    fake.write_text(f"#!{clone}/commands/bash\n{does}\n")
    fake.chmod(0o755)
    return fake.name


def environment(clone: Path, *extras: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script with nothing on PATH but `COMMANDS`."""
    return subprocess.run(
        [str(clone / "scripts/environment"), *extras],
        env={"PATH": str(clone / "commands"), **variables},
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SCRIPT_S_MAX,
    )


def made(clone: Path, extra: str) -> None:
    """Make `clone` look as the script leaves a clone."""
    inputs = [(clone / name).read_bytes() for name in INPUTS]
    (clone / ".venv/bin").mkdir(parents=True)
    (clone / ".venv/bin/python").symlink_to(sys.executable)
    digest = hashlib.sha256(b"".join(inputs)).hexdigest()
    (clone / ".venv/installed").write_text(f"{digest} {extra}\n")


@pytest.mark.parametrize(
    ("has", "needs"),
    [
        ("server", "server"),
        ("dev", "dev"),
        ("dev", "server"),
        ("server arrow", "server arrow"),
        ("server arrow spark", "spark"),
        ("dev", "server arrow"),
    ],
)
def test_it_does_nothing_if_everything_is_installed(clone: Path, has: str, needs: str) -> None:
    made(clone, has)
    done = environment(clone, *needs.split())

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("has", "needs", "installs"),
    [
        ("server", "server arrow", "[server,arrow]"),
        ("server arrow", "spark", "[server,arrow,spark]"),
        ("server arrow", "dev", "[dev]"),
    ],
)
def test_it_adds_what_is_missing_to_what_is_there(
    clone: Path, has: str, needs: str, installs: str
) -> None:
    made(clone, has)
    for name in ("awk", "tee"):
        (clone / "commands" / name).symlink_to(shutil.which(name) or name)
    asked = clone / "asked"
    (clone / ".venv/bin/python").unlink()
    fake = clone / ".venv/bin/python"
    has_wheel = '[[ "$*" != *"(3, 12)"* ]] || exit 1'
    fake.write_text(f'#!{clone}/commands/bash\n{has_wheel}\nprintf "%s\\n" "$*" >>{asked}\n')
    fake.chmod(0o755)
    done = environment(clone, *needs.split())

    assert done.returncode == 0, done.stderr
    assert f"--editable {clone}{installs}" in asked.read_text()
    assert environment(clone, *needs.split()).stderr == ""


@pytest.mark.parametrize(
    ("extra", "before", "after"),
    [("dev", "", "scripts/hooks"), ("dev", "own", "own"), ("server", "", "")],
)
def test_developers_get_the_hooks_unless_they_have_others(
    clone: Path, extra: str, before: str, after: str
) -> None:
    git = shutil.which("git") or "git"
    (clone / "commands/git").symlink_to(git)
    subprocess.run([git, "init", "--quiet", clone], check=True)
    config = [git, "-C", str(clone), "config", "--local", "core.hooksPath"]
    if before:
        subprocess.run([*config, before], check=True)
    made(clone, extra)
    for _ in range(2):
        done = environment(clone, extra)
        path = subprocess.run(config, check=False, capture_output=True, text=True)

        assert (done.returncode, done.stderr, path.stdout.strip()) == (0, "", after)


def test_what_scripts_run_starts_can_serve_spark() -> None:
    runs = (ROOT / "scripts/run").read_text()

    assert 'scripts/environment" server arrow' in runs


def test_it_says_how_it_is_used() -> None:
    done = subprocess.run(
        [ROOT / "scripts/environment"], check=False, capture_output=True, text=True
    )

    assert done.returncode == 2
    assert done.stderr.startswith("Usage: scripts/environment EXTRA")


def test_it_does_something_if_the_requirements_changed(clone: Path) -> None:
    made(clone, "dev")
    with (clone / "constraints.txt").open("a") as out:
        out.write("another==1.0\n")
    (clone / ".venv/bin/python").unlink()
    done = environment(clone, "dev", PYTHON=python(clone, "exit 1"))

    assert done.returncode == 1


def test_it_says_that_python_is_too_old(clone: Path) -> None:
    done = environment(clone, "server", PYTHON=python(clone, "exit 1"))

    assert done.returncode == 1
    assert "TMS needs a Python from 3.11 to 3.14" in done.stderr
    assert "apt-get install python3 python3-pip" in done.stderr
    assert not (clone / ".venv").exists()


def test_it_says_what_is_missing_to_build_if_there_is_no_wheel(clone: Path) -> None:
    done = environment(
        clone, "server", PYTHON=python(clone, '[ "$1" != --version ] || echo Python 3.11.99')
    )

    assert done.returncode == 1
    assert "Python 3.11.99 has no ready-made LevelDB binding" in done.stderr
    assert "Or name Python 3.12 to 3.14, which have one" in done.stderr
    assert "apt-get install g++" in done.stderr
    assert not (clone / ".venv").exists()


def test_every_script_is_executable_and_stops_at_errors() -> None:
    scripts = [*(ROOT / "scripts").rglob("*"), ROOT / ".ci/run"]
    scripts = [path for path in scripts if path.is_file()]

    assert [path.name for path in scripts if not os.access(path, os.X_OK)] == []
    assert [path.name for path in scripts if "set -euo pipefail" not in path.read_text()] == []


STATUS_OF = {"ruff": 0, "mypy": 0, "python": 0}
"""The exit status of each tool of the gate if nothing is wrong."""


@pytest.mark.parametrize(
    ("fails", "status"),
    [({}, 0), ({"ruff": 1}, 1), ({"mypy": 1}, 1), ({"python": 1}, 1), ({"python": 2}, 2)],
    ids=["nothing wrong", "lint", "types", "a test", "interrupted"],
)
def test_the_gate_ends_as_its_tools_do(tmp_path: Path, fails: dict[str, int], status: int) -> None:
    """The gate once passed all its tests and still exited with 1, because of a trap at its end."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/test", tmp_path / "scripts/test")
    for name, code in {"../../scripts/environment": 0, **STATUS_OF, **fails}.items():
        tool = tmp_path / ".venv/bin" / name
        tool.write_text(f"#!/usr/bin/env bash\nexit {code}\n")
        tool.chmod(0o755)
    done = subprocess.run(
        [tmp_path / "scripts/test"], check=False, capture_output=True, timeout=SCRIPT_S_MAX
    )

    assert done.returncode == status, done.stdout + done.stderr


def test_the_files_that_requests_pass_are_printed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dev.trace_request"],
        check=True,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SCRIPT_S_MAX,
    )
    traces = dict(each.partition(":")[::2] for each in done.stdout.split("\n\n") if each.strip())

    assert done.stderr == ""
    assert list(traces) == [
        "publish",
        "poll",
        "take, start, commit",
        "registration of an Avro schema that is compared with a version",
    ]
    assert "tms/messaging/writer.py" in traces["publish"]
    assert "tms/messaging/writer.py" not in traces["poll"]
