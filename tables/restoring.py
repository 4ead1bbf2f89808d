"""Restores a backup as a data folder in which a server can start.

    FOLDER/tms.restoring       the digest of the backup; while it exists, no server starts here
    FOLDER/leveldb.restoring/  the files; renamed to `leveldb` when all are equal to the backup's

A restore that was interrupted continues: files that are equal are not copied again. A folder with
a store, or in use, is refused.
"""

from pathlib import Path

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


def restore(backup: Path, folder: Path, progress: Progress) -> Json:
    """Restore a backup in `folder`, which is created; return the backup's manifest.

    Raises `StoreNotFound` without a backup, `StoreFileLost` if that is damaged, `CopyRefused` for a
    folder with a store, `StoreLocked`, `FolderUnusable`, `StoreUnavailable`, `StoreCorrupt`.
    """
    try:
        manifest = read_manifest(backup)
    except FileNotFoundError:
        raise StoreNotFound(folder=str(backup)) from None
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


def _copy(backup: Path, folder: Path, manifest: Json, progress: Progress) -> None:
    """Copy the files that are missing or differ, and compare what was written."""
    unfinished = folder / f"{LEVELDB}.restoring"
    unfinished.mkdir(mode=_MODE, exist_ok=True)
    files = only_shard(manifest)["files"]
    done, size = 0, sum(facts["bytes"] for facts in files.values())
    for place, facts in sorted(files.items()):
        target = folder / place if place == FORMAT else unfinished / Path(place).name
        _copy_file(backup / place, target, facts)
        done += facts["bytes"]
        progress(done, size)
    for path in unfinished.iterdir():
        if f"{LEVELDB}/{path.name}" not in files:
            path.unlink()
    sync(unfinished)
    unfinished.rename(folder / LEVELDB)
    sync(folder)


def _copy_file(source: Path, target: Path, facts: Json) -> None:
    try:
        check_file(target, facts)
    except StoreFileLost:
        if not source.is_file() or digest_of(source, target) != facts["sha256"]:
            check_file(source, facts)
            check_file(target, facts)
