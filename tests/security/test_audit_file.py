"""Lines are added to the file of this name, whatever is done to it meanwhile."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tms.security.audit_file import AuditFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit"


@pytest.fixture
def file(path: Path) -> Iterator[AuditFile]:
    file = AuditFile(str(path))
    yield file
    file.close()


def test_it_is_its_owners_and_is_added_to(path: Path) -> None:
    for line in (b"one\n", b"two\n"):
        file = AuditFile(str(path))
        file.write([line])
        file.close()
    assert path.read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_one_that_was_moved_away_is_made_anew(path: Path, file: AuditFile) -> None:
    file.write([b"one\n"])
    path.rename(path.with_suffix(".1"))
    file.write([b"two\n", b"three\n"])
    path.unlink()
    file.write([b"four\n"])
    path.write_bytes(b"")  # the same file, emptied in place
    file.write([b"five\n"])
    assert path.with_suffix(".1").read_bytes() == b"one\n"
    assert path.read_bytes() == b"five\n"


def test_it_is_opened_anew_when_that_is_asked_for(path: Path, file: AuditFile) -> None:
    path.rename(path.with_suffix(".1"))
    path.write_bytes(b"other\n")
    file.reopen()
    file.write([b"one\n"])
    assert path.read_bytes() == b"other\none\n"
    file.close()
    file.write([b"two\n"])
    assert path.read_bytes() == b"other\none\ntwo\n"


def test_what_is_no_file_is_not_written_to(tmp_path: Path, path: Path, file: AuditFile) -> None:
    target = tmp_path / "target"
    target.touch()
    path.unlink()
    path.symlink_to(target)
    with pytest.raises(OSError, match="symbolic"):
        file.write([b"one\n"])
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        file.write([b"one\n"])
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(OSError, match="No such device"):
        file.write([b"one\n"])
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="is no file"):
        file.write([b"one\n"])
    os.close(reader)
    path.unlink()
    file.write([b"two\n"])
    assert path.read_bytes() == b"two\n"
    assert target.read_bytes() == b""


FULL_DISK = """
import resource, signal, sys
from tms.security.audit_file import AuditFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = AuditFile(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
for _ in range(2):
    try:
        file.write([b"one\\n", b"two\\n", b"three\\n"])
    except OSError as error:
        print(error.errno)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
file.write([b"four\\n"])
file.write([b"five\\n"])
"""


def test_a_line_that_was_cut_does_not_spoil_the_next(path: Path) -> None:
    """The largest size of a file stands for a full disk: both write a part, and then fail."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == ["27", "27"]
    assert path.read_bytes() == b"one\ntwo\nth\nfour\nfive\n"
