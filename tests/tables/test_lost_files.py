"""A folder without one of its files is refused with the file's name, or has all its rows."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tables.leveldb import LevelDBStore
from tables.leveldb_files import read_manifest
from tables.leveldb_log import BLOCK_BYTES
from tables.store import MESSAGE
from tests.contracts.store_contract import rows_of
from tests.faults.lost_files import is_told
from tests.scale import scaled
from tms.core.errors import StoreCorrupt, StoreFileLost, StoreFormatUnknown, StoreUnavailable
from tms.core.values.store_access import StoreAccess

_WRITE = """
import random, sys
from pathlib import Path
from tables.leveldb import LevelDBStore

store = LevelDBStore(Path(sys.argv[1]), sync=False, write_buffer_bytes=64 * 1024)
chance, number = random.Random(7), int(sys.argv[2])
while True:
    batch = store.batch()
    batch.put("message", b"%08d" % number, chance.randbytes(2_000))
    store.write(batch)
    print(number, flush=True)
    number += 1
"""
_RUNS = 4
_BATCHES = 200
"""400 kB a run: several tables, which LevelDB merges in the meantime."""
_NOT_NEEDED = {"LOCK", "LOG", "LOG.old", "tms.lock"}


class Killed(NamedTuple):
    """A folder whose process was killed, and the number of rows in it."""

    folder: Path
    rows: int


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[Killed]:
    """Copies of one store's folder, one after each of its processes."""
    place, found, rows = tmp_path_factory.mktemp("killed"), [], 0
    for run in range(_RUNS):
        command = [sys.executable, "-c", _WRITE, str(place / "data"), str(rows)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                rows = int(line) + 1
                if rows == (run + 1) * _BATCHES:
                    process.kill()
                    break
            rows = max([rows, *(int(line) + 1 for line in process.stdout if line.endswith("\n"))])
        shutil.copytree(place / "data", place / str(run))
        there = open_and_close(shutil.copytree(place / "data", place / f"opened{run}"))
        assert rows <= there <= rows + 1, "all that was acknowledged, and the write under way"
        found.append(Killed(place / str(run), there))
    return found


@pytest.fixture
def folder(killed: list[Killed], tmp_path: Path) -> Path:
    """A copy of the last killed folder."""
    return shutil.copytree(killed[-1].folder, tmp_path / "data")


def open_and_close(folder: Path) -> int:
    """Return how many rows there are, numbered without a gap."""
    store = LevelDBStore(folder, StoreAccess.WRITE)
    try:
        keys = [key for key, _ in rows_of(store, MESSAGE)]
    finally:
        store.close()
    assert keys == [b"%08d" % number for number in range(len(keys))]
    return len(keys)


def refused(folder: Path) -> str:
    """Return the name of the missing file that each attempt to open reports."""
    before = {path: path.stat().st_size for path in folder.rglob("*") if path.suffix == ".ldb"}
    names = []
    for access in StoreAccess:
        with pytest.raises(StoreFileLost) as error:
            LevelDBStore(folder, access)
        names.append(str(error.value.detail["file"]))
        assert "restore the whole data folder from a copy" in str(error.value)
    assert len(set(names)) == 1
    assert {path: path.stat().st_size for path in before} == before
    return str(Path(names[0]).relative_to(folder))


def manifest_of(folder: Path) -> Path:
    return folder / "leveldb" / (folder / "leveldb" / "CURRENT").read_text().strip()


def check_tables(folder: Path) -> int:
    """Check that the tables are those that the MANIFEST names; return their number."""
    named = read_manifest(folder / "leveldb").table_bytes
    there = {int(path.stem): path.stat().st_size for path in (folder / "leveldb").glob("*.ldb")}
    assert named.items() <= there.items()
    # Closing may interrupt a merge, or the conversion of a log into a table.
    assert len(there) <= len(named) + 2, "one of each may be left"
    return len(named)


def test_what_the_manifest_names_is_what_there_is(killed: list[Killed], tmp_path: Path) -> None:
    counts = []
    for index, image in enumerate(killed):
        folder = shutil.copytree(image.folder, tmp_path / str(index))
        assert open_and_close(folder) == image.rows
        logs = [int(log.stem) for log in (folder / "leveldb").glob("*.log")]
        assert logs == [read_manifest(folder / "leveldb").oldest_log]
        counts.append(check_tables(folder))
    assert max(counts) > 1


@pytest.mark.parametrize("name", ["format.json", "leveldb/CURRENT", "leveldb", "MANIFEST", "log"])
def test_what_is_missing_is_named(folder: Path, name: str) -> None:
    manifest = manifest_of(folder)
    oldest_log = f"leveldb/{read_manifest(folder / 'leveldb').oldest_log:06}.log"
    own = {"MANIFEST": str(manifest.relative_to(folder)), "log": oldest_log}.get(name, name)
    (folder / own).rename(folder / "hidden")

    assert refused(folder) == own

    (folder / "hidden").rename(folder / own)
    assert open_and_close(folder) > 0


@pytest.mark.parametrize("kept", [0, 0.5, None])
def test_a_table_that_is_missing_or_cut_is_named(folder: Path, kept: float | None) -> None:
    tables = (folder / "leveldb").glob("*.ldb")
    numbers = read_manifest(folder / "leveldb").table_bytes
    table = next(path for path in tables if int(path.stem) in numbers)
    whole = table.read_bytes()
    if kept is None:
        table.unlink()
    else:
        table.write_bytes(whole[: int(kept * len(whole))])

    assert refused(folder) == str(table.relative_to(folder))

    table.write_bytes(whole)
    assert open_and_close(folder) > 0


@pytest.mark.parametrize(
    "text", ["", "MANIFEST-0000", "MANIFEST-000099\n", "../format.json\n", "LOG\n", "\xff\n"]
)
def test_a_current_that_names_something_else_is_refused(folder: Path, text: str) -> None:
    (folder / "leveldb" / "CURRENT").write_text(text, encoding="latin-1")

    name = "MANIFEST-000099" if "99" in text else "CURRENT"
    assert refused(folder) == f"leveldb/{name}"


@pytest.mark.parametrize("text", ["", '{"format": 3, "lay'])
def test_a_recorded_format_that_is_cut_is_refused(folder: Path, text: str) -> None:
    (folder / "format.json").write_text(text)

    with pytest.raises(StoreFormatUnknown, match=r"format\.json"):
        LevelDBStore(folder)


@settings(max_examples=scaled(40))
@given(data=st.data())
def test_whatever_file_is_lost_or_cut_it_is_refused_or_complete(
    killed: list[Killed], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    image = data.draw(st.sampled_from(killed), "image")
    files = sorted(path for path in image.folder.rglob("*") if path.is_file())
    changed = data.draw(st.sampled_from(files), "file").relative_to(image.folder)
    folder = tmp_path_factory.mktemp("lost") / "data"
    shutil.copytree(image.folder, folder)
    whole = (folder / changed).read_bytes()
    kept = data.draw(st.none() | st.integers(0, max(0, len(whole) - 1)), "bytes kept")
    if kept is None:
        (folder / changed).unlink()
    else:
        (folder / changed).write_bytes(whole[:kept])

    if is_told(image.folder, changed, is_cut=kept is not None):
        try:
            assert open_and_close(folder) == image.rows
        except (StoreFileLost, StoreFormatUnknown) as error:
            assert changed.name in str(error) or "MANIFEST" in changed.name
            assert changed.name not in _NOT_NEEDED
    else:
        LevelDBStore(folder).close()
    shutil.rmtree(folder)


def test_a_file_that_is_lost_while_it_runs_is_named_when_it_opens_again(folder: Path) -> None:
    store = LevelDBStore(folder)
    (folder / "leveldb" / "CURRENT").unlink()
    store._failure = "a full disk"
    store._reopen_when_writable()

    with pytest.raises(StoreCorrupt, match=r"CURRENT.*restore|restore.*CURRENT"):
        store.get(MESSAGE, b"00000000")
    with pytest.raises(StoreUnavailable, match="CURRENT"):
        store.batch()
    store.close()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_table_that_is_lost_while_it_runs_is_told_to_readers(
    tmp_path: Path, *, is_there: bool
) -> None:
    for number in range(3):  # each opening turns the log into a table
        store = LevelDBStore(tmp_path)
        batch = store.batch()
        batch.put(MESSAGE, b"%d" % number, b"")
        store.write(batch)
        store.close()
    store = LevelDBStore(tmp_path)
    for table in (tmp_path / "leveldb").glob("*.ldb"):
        table.unlink()
        if is_there:
            table.touch()

    with pytest.raises(StoreCorrupt, match="damaged"):
        store.get(MESSAGE, b"0")
    store.close()


def test_a_manifest_of_several_blocks_is_read_whole(tmp_path: Path) -> None:
    """An edit contains keys of its tables, so here each one crosses the end of a block."""
    for run in range(3):
        store = LevelDBStore(tmp_path, sync=False, write_buffer_bytes=64 * 1024)
        for number in range(30):
            batch = store.batch()
            batch.put(MESSAGE, b"%d %02d" % (run, number) + bytes(20_000), b"")
            store.write(batch)
        store.close()
        assert manifest_of(tmp_path).stat().st_size > 2 * BLOCK_BYTES
        assert check_tables(tmp_path) > 0
