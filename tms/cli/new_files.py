"""Writes new files that only their owner can read."""

import os
from collections.abc import Mapping
from pathlib import Path

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
_OF_OTHERS = 0o077


class FilesRefused(Exception):
    """Raised if files cannot be written; it says what to change."""


def write_new(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, which is created if necessary: all of them or none.

    Raises `FilesRefused` if a file exists, or if others may read the folder.
    """
    written: list[Path] = []
    try:
        _make(folder)
        for name, content in files.items():
            _write(folder / name, content, written)
    except BaseException as error:
        for path in written:
            path.unlink()
        if isinstance(error, FileExistsError):
            message = f"{error.filename} exists already: name another folder, or delete it"
            raise FilesRefused(message) from None
        if isinstance(error, OSError):
            raise FilesRefused(f"{error.filename or folder}: {error.strerror}") from None
        raise


def _make(folder: Path) -> None:
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    if folder.stat().st_mode & _OF_OTHERS:
        raise FilesRefused(f"other users may look into {folder}: chmod 700 it, or name another")


def _write(file: Path, content: bytes, written: list[Path]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(file, flags, _FILE_MODE), "wb") as out:
        written.append(file)
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
