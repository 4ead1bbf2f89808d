"""The wheel works in an environment that has only the packages that its metadata requires.

`scripts/release` does the same with pip and the index, for each Python; this needs no network.
"""

import os
import subprocess
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.structure.sources import ROOT
from tests.waiting import WAIT_S_MAX

TRIED = """
import sys, tms
with tms.connect(sys.argv[1]) as client:
    topic = client.topic("tried")
    topic.create()
    topic.publish(b"a message")
    assert [each.payload for each in topic.poll()] == [b"a message"]
print(tms.__file__)
"""


def run(*command: object, cwd: Path) -> str:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command)],
        check=False,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def needed(texts: list[str], extra: str, found: dict[str, Distribution]) -> None:
    """Add to `found` what requirements lead to, directly or not."""
    for wanted in map(Requirement, texts):
        name = canonicalize_name(wanted.name)
        if wanted.marker and not wanted.marker.evaluate({"extra": extra}):
            continue
        if name in found and not wanted.extras:
            continue
        found[name] = distribution(name)
        for more in ("", *wanted.extras):
            needed(found[name].requires or [], more, found)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel directly, without a source distribution in between."""
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_serves_a_store_beside_what_its_metadata_asks_for(
    wheel: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    python = environment / "bin/python"
    quietly = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
    run(sys.executable, "-m", "pip", "--python", python, "install", *quietly, wheel, cwd=tmp_path)
    (packages,) = environment.glob("lib/python*/site-packages")
    (metadata,) = packages.glob("tms_messaging-*.dist-info")
    found: dict[str, Distribution] = {}
    needed(Distribution.at(metadata).requires or [], "server", found)
    for each in found.values():
        for top in {path.parts[0] for path in each.files or () if path.parts[0] != ".."}:
            if not (packages / top).exists():
                (packages / top).symlink_to(str(each.locate_file(top)))

    where = run(python, "-c", TRIED, f"leveldb:{tmp_path / 'store'}", cwd=tmp_path)

    assert Path(where.strip()).is_relative_to(packages)
    assert run(environment / "bin/tms", "serve", "--help", cwd=tmp_path)
