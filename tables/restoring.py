"""Restores a backup as a data folder in which a server can start.

    FOLDER/tms.restoring       the digest of the backup; while it exists, no server starts here
    FOLDER/leveldb.restoring/  the files; renamed to `leveldb` when all are equal to the backup's

A restore that was interrupted continues: files that are equal are not copied again. A folder with
a store, or in use, is refused.
"""

from pathlib import Path
from typing import Protocol

from tables.backups import (
    FORMAT,
    LEVELDB,
    Json,
    Progress,
    check_file,
    digest_of,
    digest_of_manifest,
    only_shard,
    read_manifest,
)
from tables.data_folder import RESTORING, FolderLock, refused_folder
from tables.leveldb import LevelDBStore
from tables.leveldb_cut import sync
from tms.core.errors import CopyRefused, StoreFileLost, StoreNotFound
from tms.core.values.store_access import StoreAccess

_MODE = 0o700


class BackupSource(Protocol):
    """A backup that is restored."""

    def manifest(self) -> Json:
        """Return the manifest. Raises `StoreNotFound`, `StoreFileLost`, `BackupsUnreachable`."""
        ...

    def copy(self, place: str, target: Path, facts: Json) -> None:
        """Copy a file, durably. Raises `StoreFileLost` if it is damaged, `BackupsUnreachable`."""
        ...


class FolderSource:
    """A backup in a folder."""

    def __init__(self, backup: Path) -> None:
        """Read the folder `backup`."""
        self._backup = backup

    def manifest(self) -> Json:
        """Return the manifest."""
        try:
            return read_manifest(self._backup)
        except FileNotFoundError:
            raise StoreNotFound(folder=str(self._backup)) from None

    def copy(self, place: str, target: Path, facts: Json) -> None:
        """Copy a file, and compare what was written."""
        source = self._backup / place
        if not source.is_file() or digest_of(source, target) != facts["sha256"]:
            check_file(source, facts)
            check_file(target, facts)


def restore(backup: BackupSource, folder: Path, progress: Progress) -> Json:
    """Restore a backup in `folder`, which is created; return the backup's manifest.

    Raises `StoreNotFound` without a backup, `StoreFileLost` if that is damaged, `CopyRefused` for a
    folder with a store, `StoreLocked`, `FolderUnusable`, `StoreUnavailable`, `StoreCorrupt`,
    `BackupsUnreachable`.
    """
    manifest = backup.manifest()
    try:
        folder.mkdir(mode=_MODE, parents=True, exist_ok=True)
        lock = FolderLock(folder)
        try:
            if _begin(folder, digest_of_manifest(manifest)):
                _copy(backup, folder, manifest, progress)
            (folder / RESTORING).unlink()
            sync(folder)
        finally:
            lock.release()
    except OSError as error:
        raise refused_folder(folder, error) from error
    LevelDBStore(folder, StoreAccess.READ).close()
    return manifest


def _begin(folder: Path, digest: str) -> bool:
    """Return whether files must be copied: False if only the end of a restore is missing."""
    mark = folder / RESTORING
    if mark.exists():
        if mark.read_text() != digest:
            reason = "another backup is being restored here: finish that, or empty the folder"
            raise CopyRefused(folder=str(folder), reason=reason)
        return not (folder / LEVELDB).exists()
    if (folder / LEVELDB).exists() or (folder / FORMAT).exists():
        raise CopyRefused(folder=str(folder), reason="there is a store in this folder already")
    draft = mark.with_suffix(".draft")
    draft.write_text(digest)
    sync(draft)
    draft.replace(mark)
    sync(folder)
    return True


def _copy(backup: BackupSource, folder: Path, manifest: Json, progress: Progress) -> None:
    """Copy the files that are missing or differ, and compare what was written."""
    unfinished = folder / f"{LEVELDB}.restoring"
    unfinished.mkdir(mode=_MODE, exist_ok=True)
    files = only_shard(manifest)["files"]
    done, size = 0, sum(facts["bytes"] for facts in files.values())
    for place, facts in sorted(files.items()):
        target = folder / place if place == FORMAT else unfinished / Path(place).name
        try:
            check_file(target, facts)
        except StoreFileLost:
            backup.copy(place, target, facts)
        done += facts["bytes"]
        progress(done, size)
    for path in unfinished.iterdir():
        if f"{LEVELDB}/{path.name}" not in files:
            path.unlink()
    sync(unfinished)
    unfinished.rename(folder / LEVELDB)
    sync(folder)
