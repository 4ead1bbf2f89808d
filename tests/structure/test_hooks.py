"""scripts/hooks/commit-msg accepts imperative subjects of 72 characters, and refuses others."""

import subprocess
from pathlib import Path

import pytest

from tests.structure.sources import ROOT


def commit(tmp_path: Path, message: str) -> subprocess.CompletedProcess[str]:
    """Run the hook on a message."""
    file = tmp_path / "message"
    file.write_text(message, encoding="utf-8")
    hook = ROOT / "scripts/hooks/commit-msg"
    return subprocess.run([hook, file], check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    "message",
    [
        "Suspect a server for a minute after its lease expires",
        "Process requests of one caller in order\n\nTwo steps are gone. " + 100 * "x",
        "Speed up polls\n# Please enter the commit message",
        "Pass " + 67 * "ü",
        "Merge the client's deadlines",
        'Revert "Two steps are gone"',
        "fixup! Suspect a server",
        "\n",
    ],
)
def test_imperative_subjects_pass(tmp_path: Path, message: str) -> None:
    done = commit(tmp_path, message)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("Two steps of one caller are gone", 'begins with "Two"'),
        ("Tests of polls take a right away", 'begins with "Tests"'),
        ("Who let a lease run out is suspected", 'begins with "Who"'),
        ("Fixed a race", 'begins with "Fixed"'),
        ("Fixing a race", 'begins with "Fixing"'),
        ("fix a race", "capital"),
        ("Fix a race.", "full stop"),
        ("Fix " + 69 * "x", "73 characters"),
        ("# a comment\n\nThe race", 'begins with "The"'),
    ],
)
def test_other_subjects_are_refused(tmp_path: Path, message: str, why: str) -> None:
    done = commit(tmp_path, message)

    assert done.returncode == 1
    assert why in done.stderr
