"""A folder that cannot be a data folder is reported as such: a retry would not help."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tables.leveldb import LevelDBStore
from tests.cli.conftest import run_command
from tms.core.errors import FolderUnusable

NOBODY = 65534


@contextmanager
def without_privileges() -> Iterator[None]:
    """Become `nobody` for a while if this process is root, so that permissions apply to it."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


def refusal(path: Path) -> str:
    with pytest.raises(FolderUnusable) as refused, without_privileges():
        LevelDBStore(path)
    assert "try again" not in str(refused.value)
    return str(refused.value.detail["reason"])


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder that everybody can read, and `nobody` cannot write to."""
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.name.startswith(("test_", "popen-", "pytest-")):
            break  # only pytest's own folders
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(0o755)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs").chmod(0o555)
    return tmp_path / "theirs"


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0o666)

    with pytest.raises(FolderUnusable, match="there is a file with this name"):
        LevelDBStore(tmp_path / "file")
    with pytest.raises(FolderUnusable, match="a part of the path is a file"):
        LevelDBStore(tmp_path / "file" / "data")


def test_a_folder_that_this_user_may_not_write_to(theirs: Path) -> None:
    assert refusal(theirs) == "this user may not write there (Permission denied)"
    assert refusal(theirs / "data") == "this user may not write there (Permission denied)"


def test_files_of_another_user_within_the_folder(theirs: Path) -> None:
    theirs.chmod(0o777)
    with without_privileges():
        LevelDBStore(theirs).close()
    (theirs / "leveldb").chmod(0o500)

    assert "Permission denied" in refusal(theirs)


def test_a_place_in_which_no_folder_can_be() -> None:
    with pytest.raises(FolderUnusable, match="a folder cannot be made there"):
        LevelDBStore(Path("/proc/tms"))


@pytest.mark.parametrize("command", [("serve", "--store"), ("topic", "list", "--url")])
def test_a_command_reports_it_in_a_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "file").touch()

    code, out, err = run_command(*command, f"leveldb:{tmp_path / 'file'}")

    assert (code, out) == (1, "")
    assert err.startswith("The data folder cannot be used: name another")
    assert "there is a file with this name, not a folder" in err
    assert err.count("\n") == 1
