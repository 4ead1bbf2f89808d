"""A store is created whole, whichever step of its creation is the last one before a crash."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tables.leveldb import LevelDBStore
from tables.store import MESSAGE
from tests.scale import scaled
from tms.core.errors import FolderUnusable, StoreNotFound
from tms.core.values.store_access import StoreAccess

_MARK = "tms.creating"
_CREATE = """
import os, shutil, sys
from pathlib import Path
from tables.leveldb import LevelDBStore
from tms.core.values.store_access import StoreAccess

STEPS = {"open", "os.mkdir", "os.remove", "os.rename", "os.listdir"}
left = -1

def end_at_a_step(event, arguments):
    global left
    if event in STEPS and str(arguments[0]).startswith(sys.argv[1]) and left > 0:
        left -= 1
        if not left:
            os._exit(9)

def ends_before(step, folder):
    global left
    pid = os.fork()
    if not pid:
        left = step
        LevelDBStore(folder, sync=False)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0

sys.addaudithook(end_at_a_step)
first, going_on, seen = 0, True, set()
while going_on:
    first, second = first + 1, 0
    once = Path(sys.argv[1], "once", str(first))
    going_on = ends_before(first, once)
    names = frozenset(os.listdir(once)) if once.exists() else None
    is_left = going_on and names not in seen
    seen.add(names)
    while is_left and names:
        second += 1
        twice = Path(sys.argv[1], "twice", f"{first}-{second}")
        shutil.copytree(once, twice)
        is_left = ends_before(second, twice)
"""


class Crashed(NamedTuple):
    """Folders left by processes that each ended before a different step of a creation."""

    once: list[Path]
    twice: list[Path]
    """Folders in which a second process continued the creation and also ended early."""


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Crashed:
    place = tmp_path_factory.mktemp("crashed")
    subprocess.run([sys.executable, "-c", _CREATE, str(place)], check=True)
    once = sorted((place / "once").iterdir(), key=lambda path: int(path.name))
    return Crashed(once, list((place / "twice").iterdir()))


def use(folder: Path) -> None:
    """Check that a folder is created or opened, and keeps data."""
    for access in StoreAccess.CREATE, StoreAccess.WRITE:
        store = LevelDBStore(folder, access)
        if access is StoreAccess.CREATE:
            assert store.get(MESSAGE, b"k") is None
            batch = store.batch()
            batch.put(MESSAGE, b"k", b"v")
            store.write(batch)
        assert store.get(MESSAGE, b"k") == b"v"
        store.close()
    assert not (folder / _MARK).exists()
    assert json.loads((folder / "format.json").read_bytes()) == {"format": 3, "layout": 2}


def names_in(folder: Path) -> frozenset[str]:
    return frozenset(path.name for path in folder.iterdir())


def test_a_crash_at_any_step_leaves_a_folder_that_is_created_again_or_whole(
    crashed: Crashed,
) -> None:
    names = [names_in(folder) for folder in crashed.once]
    assert len(names) > 10
    assert {frozenset({"tms.lock"}), frozenset({"tms.lock", "leveldb", _MARK})} <= set(names)
    assert {"format.json", "leveldb", _MARK} <= names[-3]
    is_created = [_MARK not in each and "format.json" in each for each in names]
    assert is_created == sorted(is_created), "the mark goes last"

    for folder, is_whole in zip(crashed.once, is_created, strict=True):
        if not is_whole:
            with pytest.raises(StoreNotFound):
                LevelDBStore(folder, StoreAccess.WRITE)
        use(folder)


def test_so_does_a_crash_of_the_second_creation(crashed: Crashed) -> None:
    assert len(crashed.twice) > 3 * len(crashed.once)

    by_names = {names_in(folder): folder for folder in crashed.twice}
    for names, folder in by_names.items():
        is_whole = {"format.json", "leveldb"} <= names
        assert _MARK in names or is_whole or not names & {"format.json", "leveldb"}, names
        use(folder)


@settings(max_examples=scaled(12))
@given(data=st.data())
def test_what_a_crash_leaves_beside_the_mark_is_taken_away(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """LevelDB's own files may be cut anywhere, because its steps are not visible to us."""
    folder = tmp_path_factory.mktemp("creating") / "data"
    LevelDBStore(folder).close()
    (folder / _MARK).touch()
    for path in (folder / "format.json", *(folder / "leveldb").iterdir()):
        match data.draw(st.sampled_from(("whole", "cut", "gone")), path.name):
            case "cut":
                path.write_bytes(path.read_bytes()[: data.draw(st.integers(0, 40), "bytes")])
            case "gone":
                path.unlink()
    if data.draw(st.booleans(), "without leveldb/"):
        shutil.rmtree(folder / "leveldb")

    use(folder)


def test_a_mark_beside_rows_deletes_nothing(tmp_path: Path) -> None:
    """This happens if a copy's files were put into a folder that a crash had left."""
    store = LevelDBStore(tmp_path)
    batch = store.batch()
    batch.put(MESSAGE, b"k", b"v")
    store.write(batch)
    store.close()
    (tmp_path / _MARK).touch()
    with pytest.raises(FolderUnusable, match=rf"rows although {_MARK}"):
        LevelDBStore(tmp_path)

    (tmp_path / _MARK).unlink()
    store = LevelDBStore(tmp_path)
    assert store.get(MESSAGE, b"k") == b"v"
    store.close()


@pytest.mark.parametrize("access", [StoreAccess.READ, StoreAccess.WRITE])
def test_if_there_is_no_store_none_is_made_unless_asked_for(
    tmp_path: Path, access: StoreAccess
) -> None:
    (tmp_path / "there").mkdir()
    for folder in (tmp_path / "not" / "there", tmp_path / "there"):
        with pytest.raises(StoreNotFound, match="create a store there"):
            LevelDBStore(folder, access)

    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]
