"""Only its owner can read a data folder, and the path to open it cannot be redirected."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tables.data_folder import DataFolder
from tables.leveldb import LevelDBStore
from tests.servers.server_process import ServerProcess
from tms.core.errors import FolderUnusable


@pytest.fixture(autouse=True)
def _no_mask() -> Iterator[None]:
    """Set a umask that removes no permissions."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes_in(folder: Path) -> dict[str, int]:
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    return {**found, ".": stat.S_IMODE(folder.stat().st_mode)}


def test_others_can_read_nothing_of_a_store_in_a_program(tmp_path: Path) -> None:
    LevelDBStore(tmp_path / "above" / "data").close()

    assert modes_in(tmp_path / "above" / "data") == {
        ".": 0o700,
        "leveldb": 0o700,
        "tms.lock": 0o600,
        "format.json": 0o600,
    }


def test_others_can_read_nothing_of_a_servers_either(tmp_path: Path) -> None:
    with ServerProcess(f"leveldb:{tmp_path}/data") as server:
        assert server.url
        assert server.stop() == 0

    assert set(modes_in(tmp_path / "data").values()) == {0o700, 0o600}
    files = modes_in(tmp_path / "data" / "leveldb")
    assert files.pop(".") == 0o700
    assert len(files) > 3
    assert set(files.values()) == {0o600}


def test_a_folder_that_is_there_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o750)
    LevelDBStore(tmp_path / "data").close()

    assert modes_in(tmp_path / "data")["."] == 0o750
    assert modes_in(tmp_path / "data")["leveldb"] == 0o700


def test_a_lock_that_is_a_link_is_refused_and_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "tms.lock").symlink_to(victim)
    with pytest.raises(FolderUnusable, match=r"tms\.lock is a link"):
        DataFolder(folder)

    assert victim.read_text() == "precious"
    (folder / "tms.lock").unlink()
    DataFolder(folder).release()


def test_no_other_file_is_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("format.draft", "probe"):
        (folder / name).symlink_to(victim)
    store = LevelDBStore(folder)
    assert not store._disk_takes_writes()
    assert store._disk_takes_writes(), "the link is taken away"
    store.close()

    assert victim.read_text() == "precious"
    assert not (folder / "format.json").is_symlink()


def test_a_folder_may_be_named_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    LevelDBStore(tmp_path / "link").close()

    assert (tmp_path / "data" / "leveldb").is_dir()
