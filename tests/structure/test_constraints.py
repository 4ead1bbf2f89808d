"""constraints.txt pins all requirements of the project, at versions that the project allows."""

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.structure.sources import ROOT

LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINS = [line for line in LINES if line and not line.startswith("#")]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
EXTRAS = (
    *("server", "arrow", "auth", "backup", "etcd", "hbase", "otel", "postgresql"),
    *("registry", "schemas", "spark", "zookeeper", "dev"),
)
"""The extras that scripts/environment installs."""


def required() -> list[Requirement]:
    """Return the requirements of the package and of its extras, except those on itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"]]
    for extra in EXTRAS:
        texts += project["optional-dependencies"][extra]
    return [wanted for text in texts if (wanted := Requirement(text)).name != project["name"]]


def test_every_line_pins_one_version_and_names_no_host() -> None:
    assert [pin for pin in PINS if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*", pin)] == []


def test_every_requirement_is_pinned_at_a_version_it_allows() -> None:
    versions = {canonicalize_name(name): version for name, version in (p.split("==") for p in PINS)}
    not_met = [
        str(wanted)
        for wanted in required()
        if (version := versions.get(canonicalize_name(wanted.name))) is None
        or not wanted.specifier.contains(version)
    ]

    assert not_met == [], "the top of constraints.txt says how it is renewed"


def test_the_lock_has_the_same_versions_each_with_hashes_and_names_no_host() -> None:
    def by_name(pins: list[str]) -> dict[str, str]:
        pairs = (re.split("==", re.split(r"[ ;]", pin)[0]) for pin in pins)
        return {canonicalize_name(re.sub(r"\[.*", "", name)): version for name, version in pairs}

    blocks = re.findall(r"^\S+==(?:.*\\\n)*.*$", LOCK, re.MULTILINE)
    assert by_name(blocks) == by_name(PINS)
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", block) for block in blocks)
    assert "://" not in LOCK
