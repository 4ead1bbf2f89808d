"""The instructions for installing in pages, programs and errors work in a clone, or with a wheel.

No package registry has this project, so `pip install tms-messaging` finds nothing, or another one.
"""

import re
import tomllib
from pathlib import Path

from tests.docs.markdown import ROOT
from tests.structure.sources import PRODUCT, sources

EXTRAS = frozenset(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
)
TOLD = [
    ROOT / "README.md",
    *(ROOT / "docs").glob("*.md"),
    *(ROOT / "examples").rglob("*.*"),
    *(ROOT / "scripts").iterdir(),
    *(source.path for source in sources(*PRODUCT)),
]
FROM_HERE = re.compile(r"-e |'\.\[|'FILE\.whl\[|'\$wheel\[|'pyspark>=")
"""Installs a clone, a wheel, or another project."""


def told(pattern: str) -> list[tuple[Path, str]]:
    """Return all matches in the texts, each with its file."""
    return [
        (path, found)
        for path in TOLD
        if path.is_file()
        for found in re.findall(pattern, path.read_text(encoding="utf-8"))
    ]


def test_nobody_is_sent_to_a_registry() -> None:
    commands = told(r"pip install ([^`\n]*)")

    assert commands
    assert [one for one in commands if not FROM_HERE.match(one[1])] == []


def test_extras_that_are_named_are_there() -> None:
    listed = told(r"pip install [^\[\n]*\[([a-z,]+)\]") + told(
        r"scripts/environment ([a-z ]+[a-z])"
    )
    named = {extra for _, extras in listed for extra in re.split("[, ]+", extras)}

    assert {"server", "arrow", "spark", "hbase"} <= named
    assert named <= EXTRAS
