"""A folder can move from this Python's LevelDB to that of plyvel's fork, and back.

pip fetches the fork's wheel, by the hashes of the lock. If there is a Python that the fork
supports, the fork itself is tested with it; in any case its LevelDB is tested with this Python.
"""

import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tables.leveldb import LevelDBStore
from tables.leveldb_layout import PREFIXES
from tables.store import MESSAGE
from tests.structure.sources import ROOT
from tests.waiting import WAIT_S_MAX

pytestmark = pytest.mark.slow

PROGRAM = ROOT / "tests/tables/leveldb_of_fork.py"
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
TRIED_WITH = (3, 13)


def run(*command: object) -> str:
    done = subprocess.run(
        [*map(str, command)], check=False, capture_output=True, text=True, timeout=WAIT_S_MAX
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python_for_fork() -> str:
    """Return a Python that the wheel supports; if there is none, this one."""
    version = ".".join(map(str, TRIED_WITH))
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for python in (f"python{version}", *map(str, of_pyenv)):
        try:
            run(python, "-c", f"import sys; assert sys.version_info[:2] == {TRIED_WITH}")
        except (OSError, AssertionError):  # it does not exist, or is a pyenv shim without a Python
            continue
        return python
    return sys.executable


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fork's wheel, unpacked."""
    folder = tmp_path_factory.mktemp("fork")
    found = re.search(r"^(plyvel-next==\S+) ;.*?( \\\n(?:.*\\\n)*.*)$", LOCK, re.MULTILINE)
    assert found is not None
    (folder / "lock").write_text("".join(found.groups()))
    where = ("--python-version", ".".join(map(str, TRIED_WITH)), "--dest", folder)
    how = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:")
    run(sys.executable, "-m", "pip", "download", *how, *where, "-r", folder / "lock")
    (packed,) = folder.glob("*.whl")
    with zipfile.ZipFile(packed) as files:
        files.extractall(folder / "unpacked")
    return folder / "unpacked"


def messages_in(told: str, prefix: bytes) -> dict[bytes, bytes]:
    pairs = (map(bytes.fromhex, line.split()) for line in told.splitlines())
    return {key[len(prefix) :]: value for key, value in pairs if key.startswith(prefix)}


@pytest.mark.parametrize("find_python", [lambda: sys.executable, python_for_fork])
def test_one_folder_is_opened_by_both(
    find_python: Callable[[], str], wheel: Path, tmp_path: Path
) -> None:
    python = find_python()
    # Enough similar rows to make tables with compressed blocks.
    rows = {b"%05d" % number: b"written by this Python's" * 40 for number in range(3_000)}
    prefix = PREFIXES[max(PREFIXES)][MESSAGE]
    folder = tmp_path / "data"
    for name in (b"first", b"second"):
        with closing(LevelDBStore(folder)) as store:
            batch = store.batch()
            for key, value in rows.items():
                batch.put(MESSAGE, key, value + name)
            store.write(batch)
            rows = {key: value + name for key, value in rows.items()}
        put = (prefix + name, b"written by the fork's" * 40)
        told = run(python, PROGRAM, wheel, folder / "leveldb", *(part.hex() for part in put))
        rows[name] = put[1]

        assert messages_in(told, prefix) == rows
        with closing(LevelDBStore(folder)) as store, store.scan(MESSAGE, b"", b"\xff") as found:
            assert dict(found) == rows
