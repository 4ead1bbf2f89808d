"""Lines are appended to the file with this name, whatever happens to the file in the meantime."""

import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import WAIT_S_MAX
from tms.security.audit_file import AuditFile


def write(file: AuditFile, *lines: str) -> None:
    for line in lines:
        file.emit(logging.makeLogRecord({"msg": line}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit"


@pytest.fixture
def file(path: Path) -> Iterator[AuditFile]:
    file = AuditFile(str(path))
    yield file
    file.close()


def test_it_is_its_owners_and_is_added_to(path: Path) -> None:
    for line in ("one", "two"):
        file = AuditFile(str(path))
        write(file, line)
        file.close()
    assert path.read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_one_that_was_moved_away_is_made_again(path: Path, file: AuditFile) -> None:
    write(file, "one")
    path.rename(path.with_suffix(".1"))
    write(file, "two", "three")
    path.unlink()
    write(file, "four")
    path.write_bytes(b"")  # the same file, truncated in place
    write(file, "five")
    assert path.with_suffix(".1").read_bytes() == b"one\n"
    assert path.read_bytes() == b"five\n"


def test_what_is_not_a_file_is_not_written_to(tmp_path: Path, path: Path, file: AuditFile) -> None:
    target = tmp_path / "target"
    target.touch()
    path.unlink()
    path.symlink_to(target)
    with pytest.raises(OSError, match="symbolic"):
        write(file, "one")
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        write(file, "one")
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(OSError, match="No such device"):
        write(file, "one")
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="not a regular file"):
        write(file, "one")
    os.close(reader)
    path.unlink()
    write(file, "two")
    assert path.read_bytes() == b"two\n"
    assert target.read_bytes() == b""


FULL_DISK = """
import logging, resource, signal, sys
from tms.security.audit_file import AuditFile

def write(file, *lines):
    for line in lines:
        file.emit(logging.makeLogRecord({"msg": line}))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
file = AuditFile(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
for _ in range(2):
    try:
        write(file, "one", "two", "three")
    except OSError as error:
        print(error.errno)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
write(file, "four")
write(file, "five")
"""


def test_a_line_that_was_cut_does_not_spoil_the_next(path: Path) -> None:
    """A limit on file size stands for a full disk: both write a part, and then fail."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
    )
    assert done.stdout.split() == ["27", "27"]
    assert path.read_bytes() == b"one\ntwo\nth\nfour\nfive\n"
